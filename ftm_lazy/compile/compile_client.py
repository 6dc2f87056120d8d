"""Client of the compiler: from a trace to the image that the machine loads.

The recorder calls `CompileClient.get_or_compile` for each trace that is new to this process. The
image comes from a dynamic-shape program in memory, from the disk cache, or from a compiler process,
in this order. If a trace does not compile, the recorder runs it one operation at a time on the CPU.
An exception of `get_or_compile` is not a property of the trace: a signal handler raised it, or no
compiler process could be started. The recorder passes it on to the user, and calls again at the
next read of the result.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import torch

from ftm_backend.assembler.image_template import TemplateError
from ftm_backend.compile_server import source_hash
from ftm_backend.executable import Executable
from ftm_backend.ir.trace.trace import Trace
from ftm_backend.lru import LRUCache
from ftm_lazy import _C, settings
from ftm_lazy.compile import dump
from ftm_lazy.compile.compile_stats import CompileEvent, CompileStats
from ftm_lazy.compile.disk_cache import CacheKey, DiskCache, FunctionStore
from ftm_lazy.compile.interrupts import is_from_signal_handler
from ftm_lazy.compile.trace_importer import RecordedSymbols, trace_of, with_symbols
from ftm_lazy.compile.worker import CompileError, WorkerError
from ftm_lazy.compile.worker_pool import WorkerPool
from ftm_lazy.dynamic_shapes.dynamic_programs import DynamicCandidate, Specialization, TraceFamilies
from ftm_lazy.dynamic_shapes.trace_family import SizeGuess
from ftm_lazy.user_warnings import warn_user

__all__ = ["CompileClient", "CompileError", "WorkerError", "client"]


@dataclass(frozen=True)
class CompileRequest:
    """The recorder's request for one program; positional in csrc/program/compile_client.cpp.

    Args:
        trace: The trace.
        locations: For each operation the Python line that recorded it, or "". Empty if lines are
            not recorded.
        symbols: The sizes that will probably change in the next trace of the same structure.
        trains: The trace belongs to a training step, so no other size will change.
        any_size: Assume that varying sizes are independent of each other and may be 1.
        whole: A number shared by all pieces of one trace; 0 for a trace that is not split.
        refused: Why the machine rejected the image of the previous call for this trace. That image
            is not taken from the cache again.
    """

    trace: Trace
    locations: Sequence[str] = ()
    symbols: RecordedSymbols = ((), ())
    trains: bool = True
    any_size: bool = False
    whole: int = 0
    refused: str = ""

    @functools.cached_property
    def text(self) -> str:
        """The text of the trace: the key of the disk cache, and what a compiler process reads."""
        return str(self.trace)


class _Source(Enum):
    """Where a program came from; the values appear in FTM_DEBUG=compile's lines."""

    specialized = "an instance of a general program"
    cached = "from the cache"
    compiled = "compiled"


@dataclass(frozen=True)
class _CompileResult:
    source: _Source
    executable: Executable | None
    specialization: Specialization
    event: CompileEvent


class CompileClient:
    """Compiles the traces of this process.

    Args:
        values: The settings, which select the machine, the caches and the debug output.
    """

    def __init__(self, values: settings.Settings) -> None:
        self._settings = values
        self._cache = DiskCache(values.cache_dir, values.cache_size)
        self.stats = CompileStats("recompile" in values.debug)
        self._families = TraceFamilies(
            (self._family, self._keep_family, self._remove_family), values.program_limit
        )
        self._dumped: dict[str, Path] = {}
        self._watchers: list[Callable[[Trace], object]] = []
        # digests of keys whose programs came from the disk cache
        self._from_disk: LRUCache[bool] = LRUCache(values.program_limit)
        self._workers = WorkerPool(
            values.compile_timeout,
            echo="worker" in values.debug,
            progress=values.progress,
            functions=FunctionStore(self._cache, self._compiler_hash) if values.cache_dir else None,
        )

    @property
    def threads(self) -> int:
        """How many threads may call `get_or_compile` at a time: one for each compiler process.

        With dumps it is one, since they are numbered in the order of the requests.
        """
        return 1 if self._settings.dump is not None else len(self._workers)

    def prepare(self) -> None:
        """Start a compiler process if the cache is empty, so that its imports overlap."""
        if self._settings.executor == "machine" and self._cache.is_empty():
            with contextlib.suppress(WorkerError):  # the first compile raises it again
                self._workers.first.start()

    def watch(self, watcher: Callable[[Trace], object]) -> None:
        """Call `watcher` with each trace that is new to this process.

        The call happens on the stack of the user's line that launches the trace.
        """
        self._watchers.append(watcher)
        _C._set_compile_at_launch(True)

    def get_or_compile(
        self, trace: Trace | _C._RecordedTrace, *fields: Any
    ) -> tuple[bytes, Sequence[int]] | str:
        """Return the image for a trace, from the caches or the compiler.

        Args:
            trace: The trace.
            *fields: The other fields of a `CompileRequest`.

        Returns:
            The image and, for each result, a bit mask of the dimensions that vary between
            specializations. If the trace does not compile, the error message.

        Raises:
            WorkerError: No compiler process could be started.
            Exception: A signal handler raised it during the call.
        """
        try:
            return self._compiled(CompileRequest(trace_of(trace), *fields))
        except WorkerError:
            raise
        except Exception as error:
            if is_from_signal_handler(error):
                raise
            return f"{type(error).__name__}: {error}"

    def compile(self, trace: Trace, refused: str = "", locations: Sequence[str] = ()) -> bytes:
        """Return the image for a trace.

        Counts ``compiles`` and ``pieces``, or ``cache_hits_disk``, and ``recompiles``.

        Args:
            trace: The trace.
            refused: As in `CompileRequest`.
            locations: As in `CompileRequest`.

        Returns:
            The machine image.

        Raises:
            CompileError: The program does not compile.
            WorkerError: No compiler process could be started.
        """
        return self._compiled(CompileRequest(trace, locations, refused=refused)).image

    def _compiled(self, request: CompileRequest) -> Specialization:
        """Find or compile a program, and count and dump it."""
        begin = time.time_ns()
        if request.refused:
            self._discard_rejected(request)
        else:
            for watch in self._watchers:
                watch(request.trace)
        result = self._find_or_compile(request)
        if _C._is_profiling():
            self._log_compile(result, request, begin)
        if result.source is _Source.specialized:
            self.stats.count_specialization()
        elif result.source is _Source.cached:
            self.stats.count_cache_hit(request.trace)
        else:
            self.stats.count_compile(request.trace, request.locations, request.whole, result.event)
        if self._settings.dump is not None and result.executable is not None:
            self._dump(request, result.executable)
        self._print_debug_line(result, request.trace)
        return result.specialization

    def _log_compile(self, result: _CompileResult, request: CompileRequest, begin: int) -> None:
        """Add the compilation, with its cause, to the profile that is being recorded."""
        cause = (
            ": " + self.stats.cause(request.trace, request.locations)
            if result.source is _Source.compiled
            else ""
        )
        line = next(filter(None, reversed(request.locations)), "")
        _C._add_event("compile", result.source.value + cause, line, begin, time.time_ns())

    def _find_or_compile(self, request: CompileRequest) -> _CompileResult:
        """Find or compile a program without counting it."""
        begin = time.perf_counter()
        trace = request.trace
        allow_dynamic = self._settings.dump is None and not request.refused
        specialization = self._families.instance(trace) if allow_dynamic else None
        if specialization is not None:
            event = CompileEvent(time.perf_counter() - begin)
            return _CompileResult(_Source.specialized, None, specialization, event)
        executable = self._find(request.text)
        if executable is not None:
            if allow_dynamic:
                self._families.note(trace)
            event = CompileEvent(time.perf_counter() - begin)
            specialization = Specialization(executable.image, ())
            return _CompileResult(_Source.cached, executable, specialization, event)
        explain = allow_dynamic and "recompile" in self._settings.debug
        refusal = self._families.refusal(trace) if explain else ""
        notes = [f"the general program: {refusal}"] if refusal else []
        guess = (
            SizeGuess(
                with_symbols(trace, request.symbols), request.trains, self._infer, request.any_size
            )
            if request.symbols[0] or not request.trains
            else None
        )
        candidates = self._families.propose(trace, guess) if allow_dynamic else []
        why = self.stats.cause(trace, request.locations)
        dynamic = self._compile_dynamic(candidates, why) if candidates else None
        at_first_sight = dynamic is not None and candidates[0].first_sight
        if at_first_sight:
            notes.append(f"general at first sight: {candidates[0].sizes}")
        executable, symbols = dynamic or (
            self._compile(request.text, texts=self._settings.dump is not None, why=why),
            (),
        )
        event = CompileEvent(
            time.perf_counter() - begin, tuple(notes), dynamic is not None, at_first_sight
        )
        specialization = Specialization(executable.image, tuple(symbols))
        return _CompileResult(_Source.compiled, executable, specialization, event)

    def _print_debug_line(self, result: _CompileResult, trace: Trace) -> None:
        if "compile" in self._settings.debug:
            image = result.specialization.image
            size = f"{len(trace.lines()) + 1:,} lines, image {len(image):,} bytes"
            line = f"ftm: {result.source.value} in {result.event.seconds:.2f} s: {size}"
            print(line, file=sys.stderr)

    def executable(self, trace: Trace) -> Executable:
        """Return image and assembly for a trace, from the disk cache or the compiler.

        Counts ``compiles`` and ``pieces``, or ``cache_hits_disk``.

        Args:
            trace: The trace.

        Raises:
            CompileError: The program does not compile.
        """
        text = str(trace)
        executable = self._find(text)
        if executable is None:
            executable = self._compile(text, texts=False)
            _C._count("compiles")
            _C._count("pieces")
        else:
            _C._count("cache_hits_disk")
        return executable

    def observe(
        self,
        trace: Trace | _C._RecordedTrace,
        inputs: list[torch.Tensor],
        scalars: list[float],
        outputs: list[torch.Tensor],
    ) -> None:
        """Write the data of a program's first run to its dump (``FTM_DEBUG=data``).

        Args:
            trace: The trace.
            inputs: Tensors on the CPU, in the order of the trace's parameters.
            scalars: Values in the order of the trace's scalars.
            outputs: Tensors on the CPU, in the order of the trace's results.
        """
        folder = self._dumped.pop(str(trace_of(trace)), None)
        if folder is not None:
            dump.write_data(folder, inputs, scalars, outputs)

    def texts(self, trace: Trace) -> dict[str, str]:
        """Return the text of a trace at every compiler stage, by stage name; counts nothing."""
        text = str(trace)
        return self._texts(text, self._find(text))

    def forget_programs(self) -> None:
        """Drop the dynamic-shape programs in memory; the disk cache keeps theirs."""
        self._families.clear()

    def close(self) -> None:
        """End the compiler processes."""
        self._workers.close()

    def worker_pid(self) -> int | None:
        """Return the process id of the first compiler process, or None if it does not run."""
        return self._workers.first.pid

    def _key(self, text: str) -> CacheKey:
        settings = self._settings
        return CacheKey(text, source_hash(), settings.preset, settings.cores, settings.tune)

    def _find(self, text: str) -> Executable | None:
        key = self._key(text)
        stored = self._cache.get(key)
        if stored is None:
            return None
        try:
            executable = Executable.from_bytes(stored)
        except ValueError as error:
            self._cache.remove(key, str(error))
            return None
        self._from_disk.put(key.digest, True, 1)
        return executable

    def _family(self, text: str) -> bytes | None:
        return self._cache.get(self._key(text))

    def _keep_family(self, text: str, programs: bytes) -> None:
        if self._workers.source == source_hash():
            self._cache.put(self._key(text), programs)

    def _remove_family(self, text: str, reason: str) -> None:
        self._cache.remove(self._key(text), reason)

    def _discard_rejected(self, request: CompileRequest) -> None:
        """Remove a program that the machine rejected from the caches.

        Raises:
            CompileError: It did not come from a cache, so compiling again would not help.
        """
        key = self._key(request.text)
        if self._families.refuse(request.trace):
            return
        if self._from_disk.pop(key.digest) is None:
            raise CompileError(request.refused)
        self._cache.remove(key, request.refused)

    def _compile_dynamic(
        self, candidates: Sequence[DynamicCandidate], why: str
    ) -> tuple[Executable, Sequence[int]] | None:
        """Compile the first candidate that compiles, and specialize it to the requested sizes.

        Returns:
            The executable with the specialized image, and the varying dimensions of each result;
            None if no candidate compiles.
        """
        for candidate in candidates:
            try:
                text = str(candidate.trace)
                executable = self._compile(text, texts=False, why=why, store=False)
                specialization = self._families.keep(candidate, executable)
            except (CompileError, TemplateError) as error:
                if "compile" in self._settings.debug:
                    print(f"ftm: not general: {error}", file=sys.stderr)
            else:
                return replace(executable, image=specialization.image), specialization.varies
        self._families.fail(candidates[-1])
        return None

    def _compile(self, text: str, texts: bool, why: str = "", store: bool = True) -> Executable:
        settings = self._settings
        request = {
            "machine": settings.preset,
            "cores": settings.cores,
            "tune": settings.tune,
            "texts": texts,
        }
        program, _ = self._workers.compile(text, request, why)
        if store and self._compiler_hash() is not None:
            self._cache.put(self._key(text), program)
        return Executable.from_bytes(program)

    def _infer(self, trace: Trace) -> Trace | None:
        """Return the trace with the sizes that follow from its symbols; None if none can vary."""
        try:
            inferred, _ = self._workers.compile(str(trace), {"infer": True})
        except CompileError as error:
            if "compile" in self._settings.debug:
                print(f"ftm: not general at first sight: {error}", file=sys.stderr)
            return None
        return Trace.parse(inferred.decode()) if inferred else None

    def _compiler_hash(self) -> str | None:
        """Return the compiler's source hash; None if the worker processes run another version.

        That happens if the source is edited while this process runs.
        """
        return source_hash() if self._workers.source == source_hash() else None

    def _texts(
        self, text: str, executable: Executable | None, places: Sequence[str] = ()
    ) -> dict[str, str]:
        """Return the texts of all stages; compile again if the cached program lacks one.

        Names of kernels have the lines in ``places``, one for each operation.
        """
        if executable is None or not executable.texts or not all(executable.texts.values()):
            executable = self._compile(text, texts=True)
        return {**executable.texts, "asm": executable.named_asm(text, places)}

    def _dump(self, request: CompileRequest, executable: Executable) -> None:
        assert self._settings.dump is not None
        text = request.text
        try:
            texts = self._texts(text, executable, request.locations)
        except CompileError as error:  # only the dump fails: the cached program is valid
            warn_user(f"cannot show the stages of a program: {error}")
        else:
            folder = dump.write(self._settings.dump, texts, "diff" in self._settings.debug)
            if folder is not None and "data" in self._settings.debug:
                self._dumped[text] = folder


@functools.cache
def client() -> CompileClient:
    """Return the compile client of this process."""
    return CompileClient(settings.current())
