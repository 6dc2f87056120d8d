"""The stages of the compiler, in order: named functions from one value to the next.

    trace   the recorded program            Trace
    torch   the same in the torch dialect   Trace
    linalg  loop nests on tensors           LinalgFunction
    ...     one stage for each pass         see ``midend/pipeline.py`` and ``codegen/pipeline.py``
    asm     assembly                        AsmProgram
    image   what the machine loads          bytes

The value of every stage has a text, in MLIR where MLIR has operations for it, from which compiling
can go on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ftm_backend import codegen, mlir
from ftm_backend.assembler.image_template import assemble
from ftm_backend.frontend import Trace, import_trace, lower
from ftm_backend.ir.linalg.printer import print_function
from ftm_backend.midend import pipeline
from ftm_backend.pass_manager import IRFormat, Pass, stated_stage
from ftm_backend.target import presets


class CompilerStage(NamedTuple):
    """A stage of the compiler: a form of the program, and how it is made from the one before.

    Attributes:
        name: The stage in dumps and options.
        run: ``run(value, machine)`` makes the value from that of the previous stage. Stages of
            the midend also take `Restrictions`.
        read: ``read(text, machine)`` makes the value from its text. Stage ``trace`` also takes the
            value, which it verifies.
        write: ``write(value)`` returns the text; of stage ``image`` the bytes.
        suffix: Ending of files that hold the text.
        doc: One sentence for listings.
        step: The pass that leaves the stage, if a pass does.
    """

    name: str
    run: Callable[..., Any]
    read: Callable[..., object]
    write: Callable[..., str | bytes]
    suffix: str
    doc: str
    step: Pass | None = None


def _read_trace(source: Trace | str, machine: presets.MachineParameters) -> Trace:
    del machine
    trace = Trace.parse(source) if isinstance(source, str) else source
    trace.verify()
    return trace


def _write_torch(trace: Trace) -> str:
    with mlir.context(), mlir.ir.Location.unknown():
        return str(import_trace(trace))


def _read_torch(text: str, machine: presets.MachineParameters) -> Trace:
    del machine
    from ftm_backend.frontend.torch_dialect_to_trace import read_torch

    with mlir.context(), mlir.ir.Location.unknown():
        return read_torch(mlir.ir.Module.parse(text))


def _passes() -> Iterator[CompilerStage]:
    """Yield a stage for each pass."""
    for step in (*pipeline.PASSES, *codegen.PASSES):
        ir = step.ir.after
        write = functools.partial(_write, ir, step.stage)
        run = functools.partial(pipeline.apply, step) if step in pipeline.PASSES else step.run
        yield CompilerStage(step.stage, run, ir.read, write, ir.suffix, step.doc, step)


def _write(ir: IRFormat, name: str, value: object) -> str:
    return ir.write(value, name)


STAGES: tuple[CompilerStage, ...] = (
    CompilerStage("trace", _read_trace, _read_trace, str, ".trace", "The recorded program."),
    CompilerStage(
        "torch",
        lambda trace, machine: trace,
        _read_torch,
        _write_torch,
        ".mlir",
        "The recorded program in the torch dialect.",
    ),
    CompilerStage(
        "linalg",
        lambda trace, machine: lower(trace),
        pipeline.LINALG.read,
        print_function,
        ".mlir",
        "Loop nests on tensors.",
    ),
    *_passes(),
    CompilerStage(
        "asm",
        codegen.emit,
        codegen.EMIT.ir.after.read,
        str,
        ".lan",
        codegen.EMIT.doc,
        codegen.EMIT,
    ),
    CompilerStage(
        "image",
        lambda program, machine: assemble(program),
        lambda text, machine: (text.encode(), None),
        lambda made: made[0],
        ".bin",
        "The bytes that the machine loads.",
    ),
)
"""The stages of all machines, in order."""

MIDEND_STAGES = {step.stage: step for step in pipeline.PASSES}
"""The passes of the midend by stage."""


def stages(machine: presets.MachineParameters) -> tuple[CompilerStage, ...]:
    """Return the stages for ``machine`` in order: those of `STAGES` whose passes apply on it."""
    return tuple(s for s in STAGES if s.step is None or not s.step.missing(machine))


def position(name: str, machine: presets.MachineParameters) -> int:
    """Return the position of a stage in ``stages(machine)``.

    Raises:
        ValueError: No stage has this name, or its pass does not apply on the machine.
    """
    candidates = stages(machine)
    for position, candidate in enumerate(candidates):
        if candidate.name == name:
            return position
    for candidate in STAGES:
        if candidate.name == name and candidate.step is not None:
            raise ValueError(
                f"machine {machine.name!r} has no stage {name!r}: pass {candidate.step.name} needs "
                f"{candidate.step.missing(machine)}"
            )
    names = ", ".join(candidate.name for candidate in candidates)
    raise ValueError(f"there is no stage {name!r}: use one of {names}")


def guess_stage(text: str) -> str:
    """Return the name of the stage that a text belongs to, by its first line.

    Args:
        text: A text of the compiler. An MLIR module names its stage in the attribute ``ftm.stage``.

    Raises:
        ValueError: The text looks like no stage.
    """
    lines = [line.strip() for line in text.splitlines()]
    first = next((line for line in lines if line and not line.startswith("//")), "")
    if first == "trace":
        return "trace"
    if first.startswith("@program"):
        return "asm"
    if stated_stage(first):
        return stated_stage(first)
    if first.startswith(("module", "func.func", "#")):
        return "torch" if "!torch." in text else "linalg"
    raise ValueError(
        "this looks like no stage of the compiler: a trace starts with `trace`, assembly with "
        "`@program`, tiles with `@stage`, the others are MLIR modules; name the stage with --from"
    )
