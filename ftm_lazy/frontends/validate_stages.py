"""Validation of each compiler stage of a model against eager PyTorch.

    stage     executed by                       tests
    trace     ATen, op by op                    the recorder
    torch     torch-mlir to linalg, then LLVM   the torch dialect
    linalg    LLVM                              our lowerings
    assembly  the machine in checked mode       midend and code generation

The first stage that differs has introduced the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from ftm_lazy.frontends.captured_model import CapturedModel
from ftm_lazy.frontends.numpy_program import NumpyProgram
from ftm_lazy.frontends.package import compile_trace


@dataclass(frozen=True)
class StageBoundary:
    """The difference of one stage's results from eager PyTorch's.

    Attributes:
        name: The stage.
        agrees: Whether all elements are within tolerance; None if the stage was not run.
        difference: Largest absolute difference.
        relative: `difference` relative to the largest element of the same result.
        where: Name and index of the element with the largest difference.
        why: Why the stage was not run.
    """

    name: str
    agrees: bool | None
    difference: float = 0.0
    relative: float = 0.0
    where: str = ""
    why: str = ""


@dataclass(frozen=True)
class ValidationReport:
    """The stages in order; `str` formats them as a table."""

    boundaries: tuple[StageBoundary, ...]

    @property
    def agrees(self) -> bool:
        """Whether all stages that ran agree with eager PyTorch."""
        return all(b.agrees is not False for b in self.boundaries)

    @property
    def parts_at(self) -> str | None:
        """The first stage that differs, or None."""
        return next((b.name for b in self.boundaries if b.agrees is False), None)

    def __str__(self) -> str:
        lines = [f"{'boundary':<10} {'agrees':<8} {'largest':>10} {'relative':>10}  where"]
        for b in self.boundaries:
            if b.agrees is None:
                lines.append(f"{b.name:<10} {'not run':<8} {'':>10} {'':>10}  {b.why}")
            else:
                word = "yes" if b.agrees else "NO"
                lines.append(
                    f"{b.name:<10} {word:<8} {b.difference:>10.2e} {b.relative:>10.2e}  {b.where}"
                )
        lines.append(
            "all agree with eager PyTorch" if self.agrees else f"they part at {self.parts_at}"
        )
        return "\n".join(lines)


def validate(
    model: torch.nn.Module | ExportedProgram,
    captured: CapturedModel,
    inputs: Sequence[object],
    keywords: dict[str, object],
    rtol: float,
    atol: float,
) -> ValidationReport:
    """Run all stages of a captured model and compare them with eager PyTorch.

    Args:
        model: The model that was captured.
        captured: Its program.
        inputs: Positional arguments.
        keywords: Keyword arguments.
        rtol: Relative tolerance for float32, as in `torch.testing.assert_close`.
        atol: Absolute tolerance for float32. Both are scaled for shorter dtypes.

    Raises:
        ValueError: The model draws random numbers.
    """
    program = NumpyProgram(captured)
    if program.draws:
        raise ValueError(
            "the model draws random numbers, which differ between devices: validate it in eval mode"
        )
    call = model.module() if isinstance(model, ExportedProgram) else model
    with torch.no_grad():
        expected = pytree.tree_leaves(call(*inputs, **keywords))
    given = captured.arguments(*inputs, **keywords)
    stages: dict[str, Callable[[], object]] = {
        "trace": lambda: captured.captured.launch(
            [*_copies(captured.weights), *_copies(captured.inputs, given)], op_by_op=True
        ),
        "torch": lambda: run_torch_dialect(program, given),
        "linalg": lambda: run_linalg(program, given),
        "assembly": lambda: run_assembly(program, given),
    }
    return ValidationReport(
        tuple(
            _boundary(name, run, expected, captured.output_names, rtol, atol)
            for name, run in stages.items()
        )
    )


def _copies(
    tensors: dict[str, torch.Tensor], values: Sequence[torch.Tensor] | None = None
) -> list[torch.Tensor]:
    return [t.detach().cpu().clone() for t in (tensors.values() if values is None else values)]


def _boundary(
    name: str,
    run: Callable[[], object],
    expected: list[torch.Tensor],
    names: Sequence[str],
    rtol: float,
    atol: float,
) -> StageBoundary:
    from ftm_backend.torch_mlir.export_dialects import DialectError

    try:
        results = pytree.tree_leaves(run())
    except DialectError as error:
        return StageBoundary(name, None, why=str(error))
    worst = StageBoundary(name, True)
    for label, value, reference in zip(names, results, expected, strict=True):
        boundary = _compare(name, label, value, reference.detach().cpu(), rtol, atol)
        is_first_fault = boundary.agrees is False and worst.agrees
        is_larger = boundary.agrees == worst.agrees and boundary.relative > worst.relative
        if is_first_fault or is_larger:
            worst = boundary
    return worst


def _compare(
    name: str, label: str, found: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float
) -> StageBoundary:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return StageBoundary(
            name,
            False,
            float("inf"),
            float("inf"),
            f"{label}: {found.dtype}{list(found.shape)} for {expected.dtype}{list(expected.shape)}",
        )
    if not expected.numel():
        return StageBoundary(name, True)
    exact = expected.dtype if expected.is_complex() else torch.float64
    a, b = found.to(exact), expected.to(exact)
    difference = (a - b).abs()
    difference[(a == b) | (a.isnan() & b.isnan())] = 0.0
    difference = difference.nan_to_num(float("inf"), float("inf"))
    loose = {torch.float16: 40.0, torch.bfloat16: 300.0}.get(expected.dtype, 1.0)
    agrees = bool((difference <= loose * (atol + rtol * b.abs())).all())
    flat = int(difference.argmax())
    index = [int(i) for i in np.unravel_index(flat, tuple(expected.shape))]
    largest = float(difference.max())
    scale = float(b[b.isfinite()].abs().max()) if bool(b.isfinite().any()) else 0.0
    return StageBoundary(
        name,
        agrees,
        largest,
        largest / scale if scale else largest,
        f"{label}{index}" if largest else "",
    )


def run_linalg(program: NumpyProgram, inputs: Sequence[torch.Tensor]) -> object:
    """Run our linalg stage with upstream's bufferization and LLVM.

    Args:
        program: The model's program.
        inputs: Tensors of the captured shapes and dtypes.

    Returns:
        CPU tensors in the nesting of the model's result.
    """
    from ftm_backend.torch_mlir import export_dialects

    return _run_upstream(program, export_dialects.emit(program.trace, "linalg"), inputs)


def run_torch_dialect(program: NumpyProgram, inputs: Sequence[torch.Tensor]) -> object:
    """Run the torch dialect with upstream's conversion to linalg and LLVM.

    Args:
        program: The model's program.
        inputs: Tensors of the captured shapes and dtypes.

    Returns:
        CPU tensors in the nesting of the model's result.

    Raises:
        DialectError: Upstream's conversion does not support an op.
    """
    from ftm_backend.torch_mlir import export_dialects

    return _run_upstream(program, export_dialects.upstream_linalg(program.trace), inputs)


def _run_upstream(program: NumpyProgram, text: str, inputs: Sequence[torch.Tensor]) -> object:
    from ftm_backend.torch_mlir import execution_engine

    results = execution_engine.run_text(text, program.arrays(inputs), program.scalars())
    return program.nested(results, inputs)


def run_assembly(program: NumpyProgram, inputs: Sequence[torch.Tensor]) -> object:
    """Run the assembly on the machine in checked mode.

    Args:
        program: The model's program.
        inputs: Tensors of the captured shapes and dtypes.

    Returns:
        CPU tensors in the nesting of the model's result.

    Raises:
        MachineError: The program faults.
    """
    from ftm_backend.machine import Machine

    with Machine(checked=True) as machine:
        loaded = machine.load(compile_trace(program.trace).image)
        pairs = zip(program.arrays(inputs), loaded.inputs, strict=True)
        # bfloat16 as uint16 bits, complex numbers as pairs
        arrays = [array.reshape(-1).view(slot.dtype).reshape(slot.shape) for array, slot in pairs]
        results = loaded.run(arrays, program.scalars())
    return program.nested(results, inputs)
