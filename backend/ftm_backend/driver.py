"""The compiler from end to end: runs the stages, retries with less fusion, and reports failures.

Compiling can start from the text of any stage (`run_from`). The tools do so, and the command that
replays a failure.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import shlex
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from ftm_backend import symbolic
from ftm_backend.assembler.image_layout import with_call_ops
from ftm_backend.codegen import function_cache
from ftm_backend.compile_options import CompileOptions
from ftm_backend.compiler_stages import MIDEND_STAGES, CompilerStage, position, stages
from ftm_backend.executable import Executable
from ftm_backend.ir.trace.trace import Trace
from ftm_backend.lru import PROGRAMS, LRUCache
from ftm_backend.midend.analysis.kernel_origins import kernel_ops
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.retry_policy import NONE, Restrictions, after_kernel, without_pass
from ftm_backend.midend.transforms.fusion import fusion_cache
from ftm_backend.optional_packages import MissingPackageError
from ftm_backend.pass_manager import FunctionError, VerifyError, changes
from ftm_backend.target import presets, tuning_overrides


class CompileError(Exception):
    """A stage failed; the message has the stage, the reason and the command that replays it."""


_LOGGER = logging.getLogger(__name__)
_LONGEST_MESSAGE = 4000
"""Characters of an error's message; longer ones are cut."""


def forget() -> None:
    """Clear what earlier programs left in this process: compiled functions and fusion decisions."""
    function_cache.KNOWN.clear()
    fusion_cache.forget()


def compile(
    program: Trace | str,
    options: CompileOptions | None = None,
    shelf: function_cache.FunctionStore | None = None,
) -> Executable:
    """Compile a trace.

    Functions that this process or ``shelf`` has compiled before are reused, unless the options
    request the text of the stages.

    Args:
        program: The trace, or its text.
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
    asm, image, template = None, b"", None
    ops: list[tuple[int, ...]] = []
    missing: set[str] = set()
    trace = _parsed(program, options) if isinstance(program, str) else program
    symbols = trace.symbols
    with symbols or nullcontext():
        for current, value in _walk("trace", trace, "image", options, seconds):
            if current.name == "outline-kernels" and not (options.keep_texts or options.dump):
                # guards belong to one program
                value.known = (
                    LRUCache(function_cache.KNOWN_SIZE) if symbols else function_cache.KNOWN
                )
                if shelf is not None and not symbols:
                    missing = function_cache.fetch(
                        (function.key for function in value.functions), shelf
                    )
            if options.keep_texts and current.name != "image":
                texts[current.name] = str(_written(current, value))
            if current.name == "outline-kernels":
                ops = kernel_ops(value.kernels)
            if current.name == "asm":
                asm = value
            if current.name == "image":
                image, template = value
    if shelf is not None:
        function_cache.store(missing, shelf)
    return Executable(
        with_call_ops(image, ops), str(asm), options.machine, texts, template, seconds
    )


def _written(stage: CompilerStage, value: object) -> str | bytes:
    """Return a stage's text for reading; empty if it needs a package that is not installed.

    No later stage reads it, so a program compiles with all its other texts.
    """
    try:
        return stage.write(value)
    except MissingPackageError:
        return ""


def _parsed(text: str, options: CompileOptions) -> Trace:
    with _reproducing("trace", text, (), options):
        return Trace.parse(text)


def infer_sizes(trace: Trace) -> Trace | None:
    """Propagate the symbolic sizes of a trace's parameters to all other sizes.

    Args:
        trace: A trace in which some sizes of parameters are symbols.

    Returns:
        The trace with all sizes that follow, or None if no size can vary.

    Raises:
        CompileError: Shape inference failed.
    """
    from ftm_backend.frontend.symbolic_shape_inference import infer_sizes

    try:
        return infer_sizes(trace)
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
    if position(to_stage, machine) < position(from_stage, machine):
        raise ValueError(f"{to_stage} comes before {from_stage}: the compiler does not go back")
    result: str | bytes = ""
    for current, value in _walk(from_stage, text, to_stage, options, {}):
        if current.name == to_stage:
            result = current.write(value)
    return result


def _machine(options: CompileOptions) -> presets.MachineParameters:
    machine = replace(presets.load(options.machine), choices=tuning_overrides.parse(options.tune))
    return replace(machine, cores=options.cores) if options.cores else machine


class _Again(Exception):
    """A stage failed in a way that other restrictions may avoid."""

    def __init__(self, restrictions: Restrictions) -> None:
        super().__init__(str(restrictions))
        self.restrictions = restrictions


_Walk = Iterator[tuple[CompilerStage, Any]]
"""Stages, each with the program in its IR."""


def _walk(
    from_stage: str,
    source: Trace | str,
    to_stage: str,
    options: CompileOptions,
    seconds: dict[str, float],
) -> _Walk:
    """Yield each stage with its value, from ``from_stage`` to ``to_stage``.

    Later stages may change the value. If a later stage cannot lower a fused kernel, the stages are
    yielded again from the first one, without that fusion.
    """
    restrictions = NONE
    while True:
        try:
            yield from _attempt(from_stage, source, to_stage, options, seconds, restrictions)
            return
        except _Again as again:
            restrictions = again.restrictions
            _LOGGER.info("compiling again, %s: %s", restrictions, _shortened(str(again.__cause__)))


def _attempt(
    from_stage: str,
    source: Trace | str,
    to_stage: str,
    options: CompileOptions,
    seconds: dict[str, float],
    restrictions: Restrictions,
) -> _Walk:
    """Do the work of `_walk` under given restrictions; raise _Again to request others."""
    machine = _machine(options)
    every = stages(machine)
    begin, end = position(from_stage, machine), position(to_stage, machine)
    dump = _StageDump(Path(options.dump), options.dump_diffs) if options.dump else None
    kernels: dict[str, Kernel] = {}
    value: Any = None
    for number in range(begin, end + 1):
        current = every[number]
        start = time.perf_counter()
        with (
            _reproducing(from_stage, source, every[number - 1 : number + 1], options),
            _undoing(current, kernels, restrictions, every[begin + 1 :]),
        ):
            restricted = (restrictions,) if current.name in MIDEND_STAGES else ()
            value = (
                current.read(source, machine)
                if number == begin
                else current.run(value, machine, *restricted)
            )
            if dump is not None:
                dump.write(number, current, value)
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
        passes = [MIDEND_STAGES[stage.name] for stage in ran if stage.name in MIDEND_STAGES]
        if isinstance(error, VerifyError):
            following = without_pass(restrictions, MIDEND_STAGES[current.name])
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

    def write(self, number: int, stage: CompilerStage, value: object) -> None:
        content = _written(stage, value)
        if not content:
            return
        path = self._directory / f"{number:02}_{stage.name}{stage.suffix}"
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
    from_stage: str, source: Trace | str, last: Sequence[CompilerStage], options: CompileOptions
) -> Iterator[None]:
    """Turn an exception inside into a CompileError, after saving the input of the stage.

    Args:
        from_stage: The stage that compiling started from.
        source: The program at that stage.
        last: The stage that runs inside, after the one before it if there is one.
        options: Those of the compilation.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, CompileError, _Again):
        raise
    except Exception as error:
        reason = _shortened(f"{type(error).__name__}: {error}")
        failed = last[-1].name if last else from_stage
        if failed == from_stage:
            raise CompileError(
                f"this is no valid {from_stage} text: {_shortened(str(error))}"
            ) from error
        if symbolic.current_env() is not None:  # no loss: the program is compiled for its own sizes
            raise CompileError(f"no program for all sizes: stage {failed!r}: {reason}") from error
        saved = _save_input(from_stage, str(source), last[0], failed, options)
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
    command = ["ftm", "translate", "--from", source.name, "--to", target]
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
