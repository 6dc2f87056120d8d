"""The round trip of every op: the samples of its record by each way through the compiler, compared
with eager PyTorch.

    python tests/frontends/round_trip.py [--all] [--dtypes f32,i64] [--ops REGEX] [--results FILE]

Each sample is a function of its tensors. It runs on tensors of ftm (lazy), as a captured program on
tensors of the CPU (compile), from a package that is loaded as where no PyTorch is (package), by
upstream's LLVM from our linalg (jit), and its assembly in the machine's checked mode (checked).
Some samples of each op, or with `--all` every sample there is, then compiled and checked in mode
and by LLVM alone (an hour or two). Random ops have tests of their own, in tests/ops. Lines of JSON
are appended to the results, one for each op; an op that is there is not run again. The exit code is
1 if a sample differs and `KNOWN` has no reason, or has one for an op that does not differ.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from ftm_backend import mlir, runtime
from ftm_backend.frontend.ops import RECORDS
from ftm_backend.torch_mlir import execution_engine, export_dialects
from ftm_lazy import package
from ftm_lazy.frontends.capture import CaptureError
from ftm_lazy.frontends.captured_model import CapturedModel, capture_model
from ftm_lazy.frontends.numpy_program import DTYPES_OF_TORCH, NumpyProgram
from ftm_lazy.frontends.validate_stages import run_assembly
from ops import (  # the others register more samplers
    capture,
    samples,
    samples_elementwise,  # noqa: F401
    samples_index,  # noqa: F401
    samples_layout,  # noqa: F401
    samples_math,  # noqa: F401
    samples_matrix,  # noqa: F401
    samples_nn,  # noqa: F401
    samples_order,  # noqa: F401
    samples_reductions,  # noqa: F401
    samples_scores,  # noqa: F401
    samples_windows,  # noqa: F401
)

MOST_CALLS = {"f32": 3}  # of one op, spread over what the sampler yields
FEW_CALLS = 1  # in the other dtypes
TOGETHER = 50  # that LLVM compiles at once
VALUES_OF_MEMORY = ("empty", "new_empty")
KNOWN = {
    "aten::_native_batch_norm_legit_functional": "in inference PyTorch gives statistics of shape [0] on the CPU, of [C] on any other device",
    "aten::relu6": "of u8 it is `hardtanh`, whose record has no u8, as PyTorch refuses negative limits there: the CPU computes it",
}
"""By op: why samples of it differ."""
KNOWN_OF_ALL = {
    "aten::_unsafe_index_put": "values of no elements, written where a mask is true nowhere: only looking tells that it is nowhere"
}
"""By op: why samples of it may differ besides, that only `--all` takes."""

Tensors = list[torch.Tensor]


def calls(name: str, token: str, every: bool) -> list[tuple[Callable[..., Any], Tensors]]:
    """Functions of tensors of the CPU, with examples: some, or every one; none where PyTorch has no
    kernel for the dtype."""
    record = RECORDS[name]
    op = samples.for_op(name)
    source = samples.Source(zlib.crc32(f"{name} {token}".encode()))
    made = []
    # samplers of backward ops run the forward op
    with contextlib.suppress(RuntimeError, NotImplementedError):
        for args, kwargs in samples.SAMPLERS[record.family](op, DTYPES_OF_TORCH[token], source):
            function, tensors = _as_function(op, args, kwargs)
            with contextlib.suppress(RuntimeError, NotImplementedError, IndexError):
                function(*(t.clone() for t in tensors))
                made.append((function, tensors))
    wanted = len(made) if every else min(len(made), MOST_CALLS.get(token, FEW_CALLS))
    return [made[-1 - k * len(made) // wanted] for k in range(wanted)]


def _as_function(op: Any, args: Any, kwargs: Any) -> tuple[Callable[..., Any], Tensors]:
    """The call as a function of its tensors; where it has none, on the default device."""
    leaves, structure = pytree.tree_flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    makes = not places and any(argument.name == "device" for argument in op._schema.arguments)

    def function(*tensors: torch.Tensor) -> Tensors:
        filled = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        device = tensors[0].device if tensors else torch.get_default_device()
        args, kwargs = pytree.tree_unflatten(
            [device if isinstance(x, torch.device) else x for x in filled], structure
        )
        results = op(*args, **kwargs, **({"device": device} if makes else {}))
        return asked_for(op, args, results if isinstance(results, (tuple, list)) else [results])

    return function, [leaves[i].detach().contiguous() for i in places]


def asked_for(op: Any, args: Sequence[Any], results: Sequence[torch.Tensor | None]) -> Tensors:
    """The results without those that ``output_mask`` leaves out: oneDNN's convolution gives them
    all the same."""
    names = [argument.name for argument in op._schema.arguments]
    mask = args[names.index("output_mask")] if "output_mask" in names else [True] * len(results)
    return [r for r, wanted in zip(results, mask, strict=True) if wanted and r is not None]


def by_device(function: Callable[..., Any], tensors: Tensors) -> Tensors:
    """On tensors of ftm."""
    with torch.device("ftm"):
        return [r.cpu() for r in function(*(t.to("ftm") for t in tensors))]


def by_package(captured: CapturedModel) -> Tensors:
    """Saved, loaded, and run on arrays."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.ftm"
        package(captured, path)
        model = runtime.load(path)
        found = model(*(capture_array(t) for t in captured.inputs.values()))
        arrays = [found] if len(model.outputs) == 1 else found
        return [
            capture_tensor(a, output.dtype) for a, output in zip(arrays, model.outputs, strict=True)
        ]


def capture_array(tensor: torch.Tensor) -> Any:
    """As the runtime takes it: bfloat16 as uint16."""
    return tensor.view(torch.uint16).numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()


def capture_tensor(array: Any, token: str) -> torch.Tensor:
    """The reverse."""
    tensor = torch.from_numpy(array.copy())
    return tensor.view(torch.bfloat16) if token == "bf16" else tensor


def by_llvm(programs: Sequence[NumpyProgram]) -> Iterator[Callable[[Tensors], Tensors]]:
    """Our linalg of each by upstream's bufferization and LLVM; all are functions of one module,
    since LLVM takes its time for each."""
    texts = [export_dialects.emit(program.trace, "linalg") for program in programs]
    with mlir.context():
        module = mlir.ir.Module.parse("")
        for number, text in enumerate(texts):
            read = mlir.ir.Module.parse(text)  # owns its function until that is elsewhere
            function = read.body.operations[0]
            function.attributes["sym_name"] = mlir.ir.StringAttr.get(f"call{number}")
            module.body.append(function)
        compiled = execution_engine.EngineProgram(module, optimize=False)
    for number, program in enumerate(programs):
        yield lambda tensors, name=f"call{number}", program=program: program.nested(
            compiled.run(name, program.arrays(tensors), program.scalars()), tensors
        )


def differences(
    name: str, token: str, examples: Sequence[tuple[Callable[..., Any], Tensors]], every: bool
) -> Iterator[tuple[str, str]]:
    """The ways whose results are not eager's, each with what is wrong; of every sample not those
    that run one's program again."""
    taken: list[tuple[Callable[..., Any], Tensors, CapturedModel, NumpyProgram]] = []
    for function, tensors in examples:
        try:
            captured = capture_model(function, tensors)
        except CaptureError as error:
            yield "capture", f"{token} {[tuple(t.shape) for t in tensors]}: {error}"[:300]
        else:
            taken.append((function, tensors, captured, NumpyProgram(captured)))
    for (function, tensors, captured, program), linalg in zip(
        taken, by_llvm([program for *_, program in taken]), strict=True
    ):
        expected = function(*(t.clone() for t in tensors))
        ways: dict[str, Callable[[], Tensors]] = {
            "compile": lambda: captured.run(*(t.clone() for t in tensors)),
            "jit": lambda: linalg(tensors),
            "checked": lambda: run_assembly(program, tensors),
        }
        if not every:
            ways |= {
                "lazy": lambda: by_device(function, tensors),
                "package": lambda: by_package(captured),
            }
        for way, compute in ways.items():
            try:
                found = compute()
                if not name.removeprefix("aten::").startswith(VALUES_OF_MEMORY):
                    compare(found, expected, RECORDS[name].tolerance)
            except Exception as error:  # whatever it is, it is no right result
                yield (
                    way,
                    f"{token} {[tuple(t.shape) for t in tensors]}: {type(error).__name__}: {error}"[
                        :300
                    ],
                )


def compare(found: Tensors, expected: Tensors, tolerance: dict[str, tuple[float, float]]) -> None:
    """AssertionError if they differ by more than the record's tolerance; NaN equals NaN."""
    for a, b in zip(found, expected, strict=True):
        rtol, atol = tolerance.get(capture.DTYPES.get(b.dtype, ""), (0.0, 0.0))
        torch.testing.assert_close(a, b.detach(), rtol=rtol, atol=atol, equal_nan=True)


def run(name: str, tokens: Collection[str], every: bool) -> dict[str, Any]:
    """What is found for one op in those of these dtypes that it takes."""
    made, wrong = 0, []
    for token in (token for token in RECORDS[name].dtypes if token in tokens):
        examples = calls(name, token, every)
        made += len(examples)
        for start in range(0, len(examples), TOGETHER):
            wrong += differences(name, token, examples[start : start + TOGETHER], every)
    return {"op": name, "calls": made, "wrong": wrong}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--ops", default=".*", help="names that match whole, such as 'aten::(sum|mean).*'"
    )
    parser.add_argument(
        "--dtypes",
        type=lambda text: text.split(","),
        default=list(DTYPES_OF_TORCH),
        help="tokens (default: all)",
    )
    parser.add_argument("--all", action="store_true", help="every sample")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "round_trip.jsonl")
    given = parser.parse_args()
    given.results.parent.mkdir(parents=True, exist_ok=True)
    done = (
        [json.loads(line) for line in given.results.read_text().splitlines()]
        if given.results.exists()
        else []
    )
    seen = {record["op"] for record in done}
    sampled = [
        n
        for n, record in sorted(RECORDS.items())
        if n.startswith("aten::") and record.family in samples.SAMPLERS
    ]
    names = [name for name in sampled if re.fullmatch(given.ops, name)]
    with given.results.open("a", buffering=1) as file:
        for name in names:
            if name not in seen:
                done.append(run(name, given.dtypes, given.all))
                file.write(json.dumps(done[-1]) + "\n")
    asked = [record for record in done if record["op"] in names]
    known = KNOWN | (KNOWN_OF_ALL if given.all else {})
    unexpected = [record for record in asked if record["wrong"] and record["op"] not in known]
    for record in unexpected:
        for way, what in record["wrong"]:
            print(f"{record['op']} {way}: {what}")
    mended = [
        r["op"]
        for r in asked
        if r["op"] in KNOWN and not r["wrong"] and set(given.dtypes) == set(DTYPES_OF_TORCH)
    ]
    for record in asked:
        if record["op"] in known and (record["wrong"] or record["op"] in mended):
            print(
                f"{record['op']} {'differs' if record['wrong'] else 'DOES NOT DIFFER ANY MORE'}: {known[record['op']]}"
            )
    bad = Counter(way for record in unexpected for way in {way for way, _ in record["wrong"]})
    total = sum(record["calls"] for record in asked)
    print(
        f"{len(asked)} ops, {total} calls, {sum(not r['calls'] for r in asked)} ops without one; ops that differ: {dict(bad) or 'none'}"
    )
    return 1 if bad or mended else 0


if __name__ == "__main__":
    sys.exit(main())
