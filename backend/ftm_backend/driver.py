"""The compiler from end to end: a list of named stages, each of which turns one value into the
next.

    trace   the recorded program            frontend.trace.Trace
    torch   the same in the torch dialect   frontend.trace.Trace
    linalg  loop nests on tensors           linalg.ir.Function
    ...     one stage for each pass         see ``midend/pipeline.py`` and ``codegen/pipeline.py``
    asm     matrix assembly                 text
    image   what the machine loads          bytes

Every stage has a text, MLIR where MLIR has words for it, that can be read back and taken on from
there (`run_from`): that is what the tools do, and what a reproducer of a failure is for.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import re
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
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
from ftm_backend.pass_manager import FunctionError, IRFormat, VerifyError
from ftm_backend.target import presets

__all__ = [
    "STAGES",
    "TEXT_STAGES",
    "CompileError",
    "CompilerStage",
    "compile",
    "forget",
    "guess_stage",
    "infer_sizes",
    "run_from",
    "stage",
]


class CompileError(Exception):
    """A stage failed.  The message says which, why, and the command that replays it."""


class CompilerStage(NamedTuple):
    """One form of the program, and how it comes from the one before.

    run: makes the value from the previous stage's, given the machine; of the midend's passes also
    given `Restrictions`. read: from text; write: to text (bytes for the image); suffix: of files
    that hold it.
    """

    name: str
    run: Callable[..., Any]
    read: Callable[[str, presets.MachineParameters], Any]
    write: Callable[[Any], str | bytes]
    suffix: str
    doc: str


_STAGE = re.compile(r'ftm\.stage = "([\w-]+)"')
_LOGGER = logging.getLogger(__name__)
_LONGEST_MESSAGE = 4000
"""Characters of an error's message that are shown."""


# --- stages
# ---------------------------------------------------------------------------------------------


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
    """A stage for each pass."""
    for step in (*pipeline.PASSES, *codegen.PASSES):
        write = functools.partial(_write, step.form, step.stage)
        run = functools.partial(pipeline.apply, step) if step in pipeline.PASSES else step.run
        yield CompilerStage(step.stage, run, step.form.read, write, step.form.suffix, step.doc)


def _write(form: IRFormat, name: str, value: object) -> str:
    return form.write(value, name)


STAGES: tuple[CompilerStage, ...] = (
    CompilerStage("trace", _parse_trace, _parse_trace, str, ".trace", "the recorded program"),
    CompilerStage(
        "torch",
        lambda trace, machine: trace,
        _read_torch,
        _write_torch,
        ".mlir",
        "the same in the torch dialect",
    ),
    CompilerStage(
        "linalg",
        lambda trace, machine: lower(trace),
        pipeline.FUNCTION.read,
        print_function,
        ".mlir",
        "loop nests on tensors",
    ),
    *_passes(),
    CompilerStage("asm", codegen.emit, lambda text, machine: text, str, ".lan", "matrix assembly"),
    CompilerStage(
        "image",
        lambda text, machine: assemble(text),
        lambda text, machine: (text.encode(), None),
        lambda made: made[0],
        ".bin",
        "what the machine loads",
    ),
)


_MIDEND = {step.stage: step for step in pipeline.PASSES}

TEXT_STAGES = tuple(stage.name for stage in STAGES if stage.name != "image")
"""The stages that can be looked at, in order."""


def stage(name: str) -> int:
    """The position of a stage in `STAGES`.  Raises ValueError for an unknown name."""
    for position, candidate in enumerate(STAGES):
        if candidate.name == name:
            return position
    raise ValueError(f"there is no stage {name!r}: use one of {', '.join(s.name for s in STAGES)}")


def guess_stage(text: str) -> str:
    """Which stage a text belongs to: what its first words say, and, of an MLIR module, its
    attribute ``ftm.stage``.

    Raises:
        ValueError: when it looks like none.
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
        "this looks like no stage of the compiler: a trace starts with `trace`, assembly with `@program`, tiles "
        "with `@stage`, the others are MLIR modules; name the stage with --from"
    )


# --- running
# --------------------------------------------------------------------------------------------


def forget() -> None:
    """Forgets the functions that earlier programs have left, and what their statements were found
    to be."""
    function_cache.KNOWN.clear()
    fusion_cache.forget()


def compile(
    trace_text: str,
    options: CompileOptions | None = None,
    shelf: function_cache.FunctionStore | None = None,
) -> Executable:
    """Compiles a trace.

    Functions that this process or the shelf has are taken from there, where nobody looks at the
    stages that made them.

    Raises:
        CompileError: with the stage, the reason and the command that replays it.
    """
    options = options or CompileOptions()
    PROGRAMS.tick()
    texts: dict[str, str] = {}
    seconds: dict[str, float] = {}
    asm, image, template = "", b"", None
    missing: dict[str, function_cache.Signature] = {}
    symbols = symbolic.declared(trace_text)
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
            if options.keep_texts and current.name in TEXT_STAGES:
                texts[current.name] = str(current.write(value))
            if current.name == "asm":
                asm = value
            if current.name == "image":
                image, template = value
    if shelf is not None:
        function_cache.store(missing, options.machine, shelf)
    return Executable(image, asm, options.machine, texts, template, seconds)


def infer_sizes(text: str) -> str | None:
    """A trace in which some sizes are symbols as one in which all numbers are that follow from
    these; None if none of them can vary.

    Raises:
        CompileError: that cannot be said.
    """
    from ftm_backend.frontend.symbolic_shape_inference import infer_sizes

    try:
        return infer_sizes(text)
    except Exception as error:  # nobody loses anything: the trace is compiled for its numbers
        raise CompileError(f"{type(error).__name__}: {error}") from error


def run_from(
    from_stage: str, text: str, to_stage: str, options: CompileOptions | None = None
) -> str | bytes:
    """The text (for ``image`` the bytes) of ``to_stage``, made from the text of ``from_stage``.

    Raises:
        ValueError: unknown stages, or ``to_stage`` lies before ``from_stage``.
        CompileError: a stage failed.
    """
    if stage(to_stage) < stage(from_stage):
        raise ValueError(f"{to_stage} comes before {from_stage}: the compiler does not go back")
    result: str | bytes = ""
    for current, value in _walk(from_stage, text, to_stage, options or CompileOptions(), {}):
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
    """Gives each stage with its value, from ``from_stage`` to ``to_stage``; later stages may change
    the value.

    Where fusion leaves a kernel that a later stage cannot lower, it begins anew without that fusion
    and gives the stages again.
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
    """As `_walk`, under the given restrictions.  Raises _Again to ask for others."""
    machine = _machine(options)
    begin, end = stage(from_stage), stage(to_stage)
    kernels: dict[str, Kernel] = {}
    value: Any = None
    for position in range(begin, end + 1):
        current = STAGES[position]
        start = time.perf_counter()
        with (
            _reproducing(from_stage, text, position, options),
            _undoing(current, kernels, restrictions, begin),
        ):
            restricted = (restrictions,) if current.name in _MIDEND else ()
            value = (
                current.read(text, machine)
                if position == begin
                else current.run(value, machine, *restricted)
            )
            if options.dump:
                _dump(Path(options.dump), position, current.write(value))
        seconds[current.name] = seconds.get(current.name, 0.0) + time.perf_counter() - start
        if current.name == "outline-kernels":
            kernels = {function.name: function.kernel for function in value.functions}
        yield current, value


@contextmanager
def _undoing(
    current: CompilerStage, kernels: Mapping[str, Kernel], restrictions: Restrictions, begin: int
) -> Iterator[None]:
    """Raises _Again where a stage fails and the midend has something to undo: not what lies before
    the stage that all began with."""
    try:
        yield
    except (VerifyError, FunctionError) as error:
        passes = [step for step in pipeline.PASSES if stage(step.stage) > begin]
        if isinstance(error, VerifyError):
            following = without_pass(restrictions, _MIDEND[current.name])
        elif error.function in kernels:
            following = after_kernel(restrictions, kernels[error.function], error.too_large, passes)
        else:
            following = None
        if following is None:
            raise
        raise _Again(following) from error


def _dump(directory: Path, position: int, content: str | bytes) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{position:02}_{STAGES[position].name}{STAGES[position].suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


# --- failures
# -------------------------------------------------------------------------------------------


@contextmanager
def _reproducing(
    from_stage: str, text: str, position: int, options: CompileOptions
) -> Iterator[None]:
    """Turns an exception inside into a CompileError that has saved the stage's input."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, CompileError, _Again):
        raise
    except Exception as error:
        reason = _shortened(f"{type(error).__name__}: {error}")
        if position == stage(from_stage):
            raise CompileError(
                f"this is no valid {from_stage} text: {_shortened(str(error))}"
            ) from error
        # nobody loses anything: the program is compiled for its numbers
        if symbolic.current() is not None:
            raise CompileError(
                f"no program for all sizes: stage {STAGES[position].name!r}: {reason}"
            ) from error
        saved = _save_input(from_stage, text, position - 1, options)
        raise CompileError(
            f"compiling failed at stage {STAGES[position].name!r}: {reason}\n{saved}"
        ) from error


def _shortened(message: str) -> str:
    """A message that fits a terminal: an error may quote a whole module."""
    left = len(message) - _LONGEST_MESSAGE
    return message if left <= 0 else f"{message[:_LONGEST_MESSAGE]}... ({left:,} characters more)"


def _save_input(from_stage: str, text: str, position: int, options: CompileOptions) -> str:
    """Writes the input of the stage after ``position``; says where, and how to replay it.

    Stages change modules in place, so the input is made anew from the text that everything started
    from.
    """
    source, target = STAGES[position], STAGES[position + 1]
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
    machine = f" --machine {shlex.quote(options.machine)}" if options.machine != "host" else ""
    cores = f" --cores {options.cores}" if options.cores else ""
    command = f"ftm-translate --from {source.name} --to {target.name}{machine}{cores} {shlex.quote(str(path))}"
    return f"replay it with: {command}"


def _reproducers(options: CompileOptions) -> Path:
    if not options.reproducers:
        return _private_directory()
    directory = Path(options.reproducers)
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@functools.cache
def _private_directory() -> Path:
    """One for this process, that no other user can have prepared: the place is shared with all of
    them."""
    return Path(tempfile.mkdtemp(prefix="ftm-reproducers-"))


def _quiet(options: CompileOptions) -> CompileOptions:
    return replace(options, dump="", keep_texts=False)
