"""Every op record against PyTorch on the CPU: its linalg, run by the oracle, over dtypes and
samples."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
import torch

from ftm_backend import mlir
from ftm_backend.frontend import Trace, lower
from ftm_backend.frontend.ops import RECORDS
from ftm_backend.ir.linalg.printer import print_function
from ftm_backend.torch_mlir import execution_engine as oracle
from ops import (
    capture,
    samples,
    samples_collective,  # noqa: F401  (registers samplers)
    samples_elementwise,  # noqa: F401
    samples_index,  # noqa: F401  (more samplers)
    samples_layout,  # noqa: F401
    samples_math,  # noqa: F401  (more samplers)
    samples_matrix,  # noqa: F401  (more samplers)
    samples_nn,  # noqa: F401  (more samplers)
    samples_order,  # noqa: F401  (more samplers)
    samples_reductions,  # noqa: F401
    samples_scores,  # noqa: F401  (more samplers)
    samples_windows,  # noqa: F401  (more samplers)
)
from ops.arrays import from_numpy, to_numpy

RANDOM_FAMILIES = {
    record.family for record in RECORDS.values() if record.family.startswith("random")
}
NAMES = sorted(
    n
    for n, r in RECORDS.items()
    if n.startswith(("aten::", "ftm::")) and r.family not in RANDOM_FAMILIES
)
# of one op, spread over what the sampler yields
MOST_CALLS = {"f32": 10, "i64": 5, "i1": 5, "bf16": 5}
FEW_CALLS = 3  # for the other dtypes


def calls(name: str, token: str) -> list[tuple[capture.Recording, list[torch.Tensor], str]]:
    """Recorded calls of ``name`` with tensors of dtype ``token``; none where PyTorch has no CPU
    kernel."""
    op = samples.for_op(name)
    source = samples.Source(zlib.crc32(f"{name} {token}".encode()))
    made = []
    drawn = []
    try:
        drawn.extend(samples.SAMPLERS[RECORDS[name].family](op, capture.TORCH[token], source))
    except (RuntimeError, NotImplementedError) as error:
        # samplers of backward ops run the forward op
        if not _unsupported(str(error)):
            raise
    if not drawn:
        return []
    wanted = min(len(drawn), MOST_CALLS.get(token, FEW_CALLS))
    for args, kwargs in (drawn[-1 - k * len(drawn) // wanted] for k in range(wanted)):
        try:
            recording, results = capture.call(op, *args, **kwargs)
        except (RuntimeError, NotImplementedError, IndexError) as error:
            if _unsupported(str(error)):
                continue
            raise
        made.append((recording, results, f"{token}: {recording.trace}"))
    return made


def _unsupported(message: str) -> bool:
    """Whether PyTorch's CPU itself does not take the dtype."""
    words = (
        "not implemented for", "not supported", "result type", "only supports", "can't be cast",
        "Expected", "expected", "does not support", "must be", "should be", "Can only", "requires",
        "cannot be", "For integral", "not enabled", "Boolean", "got ", "unsupported",
    )  # fmt: skip
    return any(word in message for word in words)


def close(
    got: torch.Tensor, want: torch.Tensor, tolerance: dict[str, tuple[float, float]], what: str
) -> None:
    """Asserts equality up to the record's tolerance; NaN equals NaN."""
    rtol, atol = tolerance.get(capture.DTYPES[want.dtype], (0.0, 0.0))
    torch.testing.assert_close(
        got, want, rtol=rtol, atol=atol, equal_nan=True, msg=lambda text: f"{what}\n{text}"
    )


@pytest.mark.parametrize("name", NAMES)
def test_record_agrees_with_pytorch(name: str) -> None:
    record = RECORDS[name]
    recorded = [c for token in record.dtypes for c in calls(name, token)]
    assert recorded, f"no sample of {name} runs on the CPU in any of {record.dtypes}"
    with mlir.context():
        module = mlir.ir.Module.parse("")
        for number, (recording, _, _) in enumerate(recorded):
            assert recording.trace is not None
            trace = Trace.parse(str(recording.trace))
            lowered = mlir.ir.Module.parse(print_function(lower(trace)))
            function = lowered.body.operations[0]
            function.attributes["sym_name"] = mlir.ir.StringAttr.get(f"call{number}")
            module.body.append(function)
        module.operation.verify()
        program = oracle.EngineProgram(module, optimize=False)
    failures = []
    for number, (recording, results, what) in enumerate(recorded):
        used = {capture.DTYPES[p.dtype] for p in recording.params}
        assert used <= set(record.dtypes), (
            f"a tensor argument of {name} is {used - set(record.dtypes)}, not in the record"
        )
        got: list[Any] = program.run(
            f"call{number}", [to_numpy(p) for p in recording.params], recording.scalars
        )
        if name.removeprefix("aten::").startswith(("empty", "new_empty")):
            continue  # anything is right
        for g, want in zip(got, results, strict=True):
            try:
                close(from_numpy(g, want.dtype), want.contiguous(), record.tolerance, what)
            except AssertionError as error:
                failures.append(str(error))
    assert not failures, f"{len(failures)} of {len(recorded)} calls differ\n" + "\n".join(
        failures[:4]
    )
