"""The compiler from end to end: named stages, each a function from one value to the next.

    trace   the recorded program            Trace
    torch   the same in the torch dialect   Trace
    linalg  loop nests on tensors           LinalgFunction
    ...     one stage for each pass         see ``midend/pipeline.py`` and ``codegen/pipeline.py``
    asm     assembly                        str
    image   what the machine loads          bytes

The value of every stage has a text, in MLIR where MLIR has operations for it. Compiling can start
from the text of any stage (`run_from`); the tools do so, and so does the command that replays a
failure.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import re
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ftm_backend import codegen, mlir, symbolic
from ftm_backend.assembler.image_template import assemble
from ftm_backend.codegen import function_cache
from ftm_backend.compile_options import CompileOptions
from ftm_backend.executable import Executable
from ftm_backend.frontend import Trace, import_trace, lower
from ftm_backend.ir.linalg.printer import print_function
from ftm_backend.lru import PROGRAMS, LRUCache
from ftm_backend.midend import pipeline
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.retry_policy import NONE, Restrictions, after_kernel, without_pass
from ftm_backend.midend.transforms.fusion import fusion_cache
from ftm_backend.pass_manager import FunctionError, IRFormat, Pass, VerifyError, changes
from ftm_backend.target import presets

__all__ = [
    "STAGES",
    "CompileError",
    "CompilerStage",
    "compile",
    "forget",
    "guess_stage",
    "infer_sizes",
    "run_from",
    "stages",
]


class CompileError(Exception):
    """A stage failed; the message has the stage, the reason and the command that replays it."""


class CompilerStage(NamedTuple):
    """A stage of the compiler: a form of the program, and how it is made from the one before.

    Attributes:
        name: The stage in dumps and options.
        run: ``run(value, machine)`` makes the value from that of the previous stage. Stages of
            the midend also take `Restrictions`.
        read: ``read(text, machine)`` makes the value from its text.
        write: ``write(value)`` returns the text; of stage ``image`` the bytes.
        suffix: Ending of files that hold the text.
        doc: One sentence for listings.
        step: The pass that leaves the stage, if a pass does.
    """

    name: str
    run: Callable[..., Any]
    read: Callable[[str, presets.MachineParameters], Any]
    write: Callable[[Any], str | bytes]
    suffix: str
    doc: str
    step: Pass | None = None


_STAGE = re.compile(r'ftm\.stage = "([\w-]+)"')
_LOGGER = logging.getLogger(__name__)
_LONGEST_MESSAGE = 4000
"""Characters of an error's message; longer ones are cut."""


# --- stages


def _parse_trace(text: str, machine: presets.MachineParameters) -> Trace:
    del machine
    trace = Trace.parse(text)
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
    CompilerStage("trace", _parse_trace, _parse_trace, str, ".trace", "The recorded program."),
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
        "asm", codegen.emit, lambda text, machine: text, str, ".lan", codegen.EMIT.doc, codegen.EMIT
    ),
    CompilerStage(
        "image",
        lambda text, machine: assemble(text),
        lambda text, machine: (text.encode(), None),
        lambda made: made[0],
        ".bin",
        "The bytes that the machine loads.",
    ),
)
"""The stages of all machines, in order."""

_MIDEND = {step.stage: step for step in pipeline.PASSES}


def stages(machine: presets.MachineParameters) -> tuple[CompilerStage, ...]:
    """Return the stages for ``machine`` in order: those of `STAGES` whose passes apply on it."""
    return tuple(s for s in STAGES if s.step is None or not s.step.missing(machine))


def _position(name: str, machine: presets.MachineParameters) -> int:
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
    if first.startswith("@stage "):
        return first.split()[1]
    stated = _STAGE.search(first)
    if stated:
        return stated[1]
    if first.startswith(("module", "func.func", "#")):
        return "torch" if "!torch." in text else "linalg"
    raise ValueError(
        "this looks like no stage of the compiler: a trace starts with `trace`, assembly with "
        "`@program`, tiles with `@stage`, the others are MLIR modules; name the stage with --from"
    )


# --- running


def forget() -> None:
    """Clear what earlier programs left in this process: compiled functions and fusion decisions."""
    function_cache.KNOWN.clear()
    fusion_cache.forget()


def compile(
    trace_text: str,
    options: CompileOptions | None = None,
    shelf: function_cache.FunctionStore | None = None,
) -> Executable:
    """Compile a trace.

    Functions that this process or ``shelf`` has compiled before are reused, unless the options
    request the text of the stages.

    Args:
        trace_text: The trace, in the syntax of `ftm_backend.frontend.Trace`.
        options: Machine, number of cores, and which texts to keep.
        shelf: Compiled functions of the client, by key.

    Raises:
        CompileError: A stage failed; the message has the stage, the reason and the command that
            replays it.
    """
    options = options or CompileOptions()
    PROGRAMS.tick()
    texts: dict[str, str] = {}
    seconds: dict[str, float] = {}
    asm, image, template = "", b"", None
    missing: dict[str, function_cache.Signature] = {}
    symbols = symbolic.parse_declarations(trace_text)
    with symbols or nullcontext():
        for current, value in _walk("trace", trace_text, "image", options, seconds):
            if current.name == "outline-kernels" and not (options.keep_texts or options.dump):
                # guards belong to one program
                value.known = (
                    LRUCache(function_cache.KNOWN_SIZE) if symbols else function_cache.KNOWN
                )
                if shelf is not None and not symbols:
                    missing = function_cache.fetch(
                        (function.key for function in value.functions), options.machine, shelf
                    )
            if options.keep_texts and current.name != "image":
                texts[current.name] = str(current.write(value))
            if current.name == "asm":
                asm = value
            if current.name == "image":
                image, template = value
    if shelf is not None:
        function_cache.store(missing, options.machine, shelf)
    return Executable(image, asm, options.machine, texts, template, seconds)


def infer_sizes(text: str) -> str | None:
    """Propagate the symbolic sizes of a trace's parameters to all other sizes.

    Args:
        text: A trace in which some sizes of parameters are symbols.

    Returns:
        The trace with all sizes that follow, or None if no size can vary.

    Raises:
        CompileError: Shape inference failed.
    """
    from ftm_backend.frontend.symbolic_shape_inference import infer_sizes

    try:
        return infer_sizes(text)
    except Exception as error:  # no loss: the caller compiles the trace for its own sizes
        raise CompileError(f"{type(error).__name__}: {error}") from error


def run_from(
    from_stage: str, text: str, to_stage: str, options: CompileOptions | None = None
) -> str | bytes:
    """Compile from the text of one stage to the text of another one.

    Args:
        from_stage: Name of the stage of ``text``.
        text: The program at that stage.
        to_stage: Name of the stage to return.
        options: The machine, and where to dump the stages between.

    Returns:
        The text of ``to_stage``; for ``image`` the bytes.

    Raises:
        ValueError: The machine has no such stage, or ``to_stage`` comes before ``from_stage``.
        CompileError: A stage failed.
    """
    options = options or CompileOptions()
    machine = _machine(options)
    if _position(to_stage, machine) < _position(from_stage, machine):
        raise ValueError(f"{to_stage} comes before {from_stage}: the compiler does not go back")
    result: str | bytes = ""
    for current, value in _walk(from_stage, text, to_stage, options, {}):
        if current.name == to_stage:
            result = current.write(value)
    return result


def _machine(options: CompileOptions) -> presets.MachineParameters:
    machine = presets.load(options.machine)
    return replace(machine, cores=options.cores) if options.cores else machine


class _Again(Exception):
    """A stage failed in a way that other restrictions may avoid."""

    def __init__(self, restrictions: Restrictions) -> None:
        super().__init__(str(restrictions))
        self.restrictions = restrictions


def _walk(
    from_stage: str, text: str, to_stage: str, options: CompileOptions, seconds: dict[str, float]
) -> Iterator[tuple[CompilerStage, Any]]:
    """Yield each stage with its value, from ``from_stage`` to ``to_stage``.

    Later stages may change the value. If a later stage cannot lower a fused kernel, the stages are
    yielded again from the first one, without that fusion.
    """
    restrictions = NONE
    while True:
        try:
            yield from _attempt(from_stage, text, to_stage, options, seconds, restrictions)
            return
        except _Again as again:
            restrictions = again.restrictions
            _LOGGER.info("compiling again, %s: %s", restrictions, _shortened(str(again.__cause__)))


def _attempt(
    from_stage: str,
    text: str,
    to_stage: str,
    options: CompileOptions,
    seconds: dict[str, float],
    restrictions: Restrictions,
) -> Iterator[tuple[CompilerStage, Any]]:
    """Do the work of `_walk` under given restrictions; raise _Again to request others."""
    machine = _machine(options)
    every = stages(machine)
    begin, end = _position(from_stage, machine), _position(to_stage, machine)
    dump = _StageDump(Path(options.dump), options.dump_diffs) if options.dump else None
    kernels: dict[str, Kernel] = {}
    value: Any = None
    for position in range(begin, end + 1):
        current = every[position]
        start = time.perf_counter()
        with (
            _reproducing(from_stage, text, every[position - 1 : position + 1], options),
            _undoing(current, kernels, restrictions, every[begin + 1 :]),
        ):
            restricted = (restrictions,) if current.name in _MIDEND else ()
            value = (
                current.read(text, machine)
                if position == begin
                else current.run(value, machine, *restricted)
            )
            if dump is not None:
                dump.write(position, current, value)
        seconds[current.name] = seconds.get(current.name, 0.0) + time.perf_counter() - start
        if current.name == "outline-kernels":
            kernels = {function.name: function.kernel for function in value.functions}
        yield current, value


@contextmanager
def _undoing(
    current: CompilerStage,
    kernels: Mapping[str, Kernel],
    restrictions: Restrictions,
    ran: Sequence[CompilerStage],
) -> Iterator[None]:
    """Raise _Again if the stage fails and leaving out a pass of the midend may avoid that.

    Args:
        current: The stage that runs inside.
        kernels: The kernel of each function, by the function's name.
        restrictions: Those of this attempt.
        ran: The stages after the one that compiling started from: only their passes can be left
            out.
    """
    try:
        yield
    except (VerifyError, FunctionError) as error:
        passes = [_MIDEND[stage.name] for stage in ran if stage.name in _MIDEND]
        if isinstance(error, VerifyError):
            following = without_pass(restrictions, _MIDEND[current.name])
        elif error.function in kernels:
            following = after_kernel(restrictions, kernels[error.function], error.too_large, passes)
        else:
            following = None
        if following is None:
            raise
        raise _Again(following) from error


class _StageDump:
    """Writes a file ``NN_stage`` for each stage, and on request the changes of each pass."""

    def __init__(self, directory: Path, diffs: bool) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._diffs = directory, diffs
        self._last: tuple[CompilerStage, str] | None = None

    def write(self, position: int, stage: CompilerStage, value: object) -> None:
        content = stage.write(value)
        path = self._directory / f"{position:02}_{stage.name}{stage.suffix}"
        if isinstance(content, bytes):
            path.write_bytes(content)
            return
        path.write_text(content)
        is_pass = stage.step is not None
        if self._diffs and is_pass and self._last and self._last[0].suffix == stage.suffix:
            before, text = self._last
            diff = changes(text, content, (before.name, stage.name))
            if diff:
                path.with_suffix(".diff").write_text(diff)
        self._last = stage, content


# --- failures


@contextmanager
def _reproducing(
    from_stage: str, text: str, stages: Sequence[CompilerStage], options: CompileOptions
) -> Iterator[None]:
    """Turn an exception inside into a CompileError, after saving the input of the stage.

    Args:
        from_stage: The stage that compiling started from.
        text: Its text.
        stages: The stage that runs inside, after the one before it if there is one.
        options: Those of the compilation.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, CompileError, _Again):
        raise
    except Exception as error:
        reason = _shortened(f"{type(error).__name__}: {error}")
        failed = stages[-1].name if stages else from_stage
        if failed == from_stage:
            raise CompileError(
                f"this is no valid {from_stage} text: {_shortened(str(error))}"
            ) from error
        if symbolic.current_env() is not None:  # no loss: the program is compiled for its own sizes
            raise CompileError(f"no program for all sizes: stage {failed!r}: {reason}") from error
        saved = _save_input(from_stage, text, stages[0], failed, options)
        raise CompileError(f"compiling failed at stage {failed!r}: {reason}\n{saved}") from error


def _shortened(message: str) -> str:
    """Cut a message to what fits a terminal: an error may quote a whole module."""
    left = len(message) - _LONGEST_MESSAGE
    return message if left <= 0 else f"{message[:_LONGEST_MESSAGE]}... ({left:,} characters more)"


def _save_input(
    from_stage: str, text: str, source: CompilerStage, target: str, options: CompileOptions
) -> str:
    """Write the text of stage ``source``; return the command that runs stage ``target`` on it.

    Passes change values in place, so the value that failed may be damaged: the input is made again
    from the text that compiling started from.
    """
    try:
        content = (
            text
            if source.name == from_stage
            else run_from(from_stage, text, source.name, _quiet(options))
        )
        data = content if isinstance(content, bytes) else content.encode()
        directory = _reproducers(options)
        digest = hashlib.blake2b(data, digest_size=6).hexdigest()
        path = directory / f"{digest}_{source.name}{source.suffix}"
        path.write_bytes(data)
    except (OSError, CompileError) as error:
        return f"its input could not be saved ({error})"
    command = ["ftm-translate", "--from", source.name, "--to", target]
    command += ["--machine", options.machine] if options.machine != presets.DEFAULT else []
    command += ["--cores", str(options.cores)] if options.cores else []
    return f"replay it with: {shlex.join([*command, str(path)])}"


def _reproducers(options: CompileOptions) -> Path:
    if not options.reproducers:
        return _private_directory()
    directory = Path(options.reproducers)
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@functools.cache
def _private_directory() -> Path:
    """Return this process's directory for reproducers.

    All users share the directory of temporary files, so mkdtemp picks a name that no other user
    can have prepared.
    """
    return Path(tempfile.mkdtemp(prefix="ftm-reproducers-"))


def _quiet(options: CompileOptions) -> CompileOptions:
    return replace(options, dump="", keep_texts=False)
