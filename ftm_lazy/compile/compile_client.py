"""From a trace's text to the image that the machine loads: disk cache, else the compiler's process.

The recorder calls `CompileClient.answer` when it has not seen a trace before in this process. Where
that gives no image, the recorder runs the program operation by operation on the CPU. What it raises
says nothing of the program, since a signal's handler raised it or there is no compiler: the
recorder passes it on, and asks again when somebody next wants the result.
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
from ftm_backend.lru import LRUCache
from ftm_lazy import _C, settings
from ftm_lazy.compile import dump
from ftm_lazy.compile.compile_stats import CompileEvent, CompileStats
from ftm_lazy.compile.disk_cache import CacheKey, DiskCache, FunctionStore
from ftm_lazy.compile.interrupts import is_from_signal_handler
from ftm_lazy.compile.lookahead import Lookahead
from ftm_lazy.compile.recompile_explainer import read
from ftm_lazy.compile.worker import CompileError, WorkerError
from ftm_lazy.compile.worker_pool import Workers
from ftm_lazy.dynamic_shapes.dynamic_programs import DynamicCandidate, Specialization, TraceFamilies
from ftm_lazy.dynamic_shapes.trace_family import SizeGuess
from ftm_lazy.warnings_once import notice

__all__ = ["CompileClient", "CompileError", "WorkerError", "bridge"]


@dataclass(frozen=True)
class CompileRequest:
    """What the recorder wants a program for.

    Args:
        text: the trace. locations: for each operation the Python line that recorded it, or ""; none
        if nobody noted them. varies: of each parameter the dimensions that are likely to be of
        another size in the next trace like it, one bit each;
            none where no size is.
        trains: the sizes of what is counted, and of what the trace fills itself, are those of the
        next one as well. any_size: where sizes vary, one is as likely as others. whole: a number
        for the trace that this is a piece of; 0 for one of its own. refused: why the image of the
        last call for this trace was no good: it is not taken from the cache again.
    """

    text: str
    locations: Sequence[str] = ()
    varies: Sequence[int] = ()
    trains: bool = True
    any_size: bool = False
    whole: int = 0
    refused: str = ""


class _How(Enum):
    instance = "an instance of a general program"
    found = "from the cache"
    compiled = "compiled"


@dataclass(frozen=True)
class _Made:
    """What was made of a request."""

    how: _How
    executable: Executable | None
    instance: Specialization
    compiled: CompileEvent


class CompileClient:
    """Compiles the traces of this process, by the settings."""

    def __init__(self, values: settings.Settings) -> None:
        self._settings = values
        self._cache = DiskCache(values.cache_dir, values.cache_size)
        self.accounts = CompileStats("recompile" in values.debug)
        self._families = TraceFamilies(
            (self._family, self._keep_family, self._remove_family), values.program_limit
        )
        self._dumped: dict[str, Path] = {}
        self._watchers: list[Callable[[str], object]] = []
        # digests of the keys that the cache had
        self._found: LRUCache[bool] = LRUCache(values.program_limit)
        self._workers = Workers(
            values.compile_timeout,
            echo="worker" in values.debug,
            progress=values.progress,
            shelf=FunctionStore(self._cache, self._compiler) if values.cache_dir else None,
        )
        self._ahead = Lookahead(self._make, len(self._workers) - 1)

    def prepare(self) -> None:
        """Starts the compiler's process if it will probably be needed, so that its imports
        overlap."""
        if self._settings.executor == "machine" and self._cache.is_empty():
            with contextlib.suppress(WorkerError):  # whoever compiles first is told
                self._workers.first.start()

    def watch(self, watcher: Callable[[str], object]) -> None:
        """Has `watcher` called with each trace that is new to this process, on the stack of who
        launches it."""
        self._watchers.append(watcher)
        _C._set_compile_at_launch(True)

    def announce(self, *requests: Sequence[Any]) -> None:
        """The recorder will ask for these, in this order, each as `answer` takes it: they are
        compiled at once, beside one another."""
        if self._settings.dump is None:
            wanted = [CompileRequest(*each) for each in requests]
            self._ahead.announce(
                [
                    (request.text, frozenset(read(request.text).operations), request)
                    for request in wanted
                ]
            )

    def answer(self, *request: Any) -> tuple[bytes, Sequence[int]] | str:
        """As `compile`, for the recorder: the image and which dimensions of its results vary, or
        why there is none.

        Args:
            request: the fields of `CompileRequest`.

        Raises what says nothing of the program, which is compiled when somebody next asks for its
        results: what a signal's handler raised, and WorkerError.
        """
        try:
            return self._compiled(CompileRequest(*request))
        except WorkerError:
            raise
        except Exception as error:
            if is_from_signal_handler(error):
                raise
            return f"{type(error).__name__}: {error}"

    def compile(self, text: str, refused: str = "", locations: Sequence[str] = ()) -> bytes:
        """The image of the program that `text` describes.

        Counts ``compiles`` and ``pieces``, or ``cache_hits_disk``, and ``recompiles``.

        Args:
            text: the trace.
            refused: as of `CompileRequest`.
            locations: as of `CompileRequest`.

        Raises CompileError where the program does not compile, and WorkerError where there is no
        compiler.
        """
        return self._compiled(CompileRequest(text, locations, refused=refused)).image

    def _compiled(self, request: CompileRequest) -> Specialization:
        """As `compile`."""
        if request.refused:
            self._give_up(request.text, request.refused)
        else:
            for watch in self._watchers:
                watch(request.text)
        made = None
        if not request.refused:
            with contextlib.suppress(WorkerError):  # whoever waits for the program is told
                made = self._ahead.take(request.text)
        if made is None:
            made = self._make(request)
        if made.how is _How.instance:
            self.accounts.instance()
        elif made.how is _How.found:
            self.accounts.found(request.text)
        else:
            self.accounts.compiled(request.text, request.locations, request.whole, made.compiled)
        if self._settings.dump is not None and made.executable is not None:
            self._dump(request.text, made.executable)
        self._say(made.how.value, made.compiled.seconds, request.text, made.instance.image)
        return made.instance

    def _make(self, request: CompileRequest) -> _Made:
        """Finds or compiles a program; counts nothing, as it may be in another thread than the one
        that waits."""
        begin = time.perf_counter()
        text = request.text
        general = self._settings.dump is None and not request.refused
        instance = self._families.instance(text) if general else None
        if instance is not None:
            return _Made(_How.instance, None, instance, CompileEvent(time.perf_counter() - begin))
        executable = self._find(text)
        if executable is not None:
            if general:
                self._families.note(text)
            return _Made(
                _How.found,
                executable,
                Specialization(executable.image, ()),
                CompileEvent(time.perf_counter() - begin),
            )
        refusal = (
            self._families.refusal(text) if general and "recompile" in self._settings.debug else ""
        )
        notes = [f"the general program: {refusal}"] if refusal else []
        likely = (
            SizeGuess(request.varies, request.trains, self._infer, request.any_size)
            if request.varies or not request.trains
            else None
        )
        proposals = self._families.propose(text, likely) if general else []
        why = self.accounts.cause(text, request.locations)
        made = self._compile_general(proposals, why) if proposals else None
        at_first_sight = made is not None and proposals[0].first_sight
        if at_first_sight:
            notes.append(f"general at first sight: {proposals[0].sizes}")
        executable, symbols = made or (
            self._compile(text, texts=self._settings.dump is not None, why=why),
            (),
        )
        instance = Specialization(executable.image, tuple(symbols))
        compiled = CompileEvent(
            time.perf_counter() - begin, tuple(notes), made is not None, at_first_sight
        )
        return _Made(_How.compiled, executable, instance, compiled)

    def _say(self, how: str, seconds: float, text: str, image: bytes) -> None:
        if "compile" in self._settings.debug:
            size = f"{text.count(chr(10)):,} lines, image {len(image):,} bytes"
            print(f"ftm: {how} in {seconds:.2f} s: {size}", file=sys.stderr)

    def executable(self, text: str) -> Executable:
        """Image and assembly of the program that `text` describes; raises CompileError. Counts as
        `compile` does."""
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
        text: str,
        inputs: list[torch.Tensor],
        scalars: list[float],
        outputs: list[torch.Tensor],
    ) -> None:
        """Writes the first run of a program beside its dump; called by the recorder with
        ``FTM_DEBUG=data``."""
        place = self._dumped.pop(text, None)
        if place is not None:
            dump.write_data(place, inputs, scalars, outputs)

    def texts(self, text: str) -> dict[str, str]:
        """Stage name to text for a trace, trace and asm included; counts nothing."""
        return self._texts(text, self._find(text))

    def forget_programs(self) -> None:
        """Forgets the general programs that are in memory."""
        self._families.clear()

    def close(self) -> None:
        """Ends the compiler's process."""
        self._workers.close()

    def worker_pid(self) -> int | None:
        """The id of the compiler's process, if there is one."""
        return self._workers.first.pid

    def _key(self, text: str) -> CacheKey:
        return CacheKey(text, source_hash(), self._settings.preset, self._settings.cores)

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
        self._found.put(key.digest, True, 1)
        return executable

    def _family(self, text: str) -> bytes | None:
        return self._cache.get(self._key(text))

    def _keep_family(self, text: str, programs: bytes) -> None:
        if self._workers.source == source_hash():
            self._cache.put(self._key(text), programs)

    def _remove_family(self, text: str, reason: str) -> None:
        self._cache.remove(self._key(text), reason)

    def _give_up(self, text: str, reason: str) -> None:
        """Removes from the cache what the machine refused; raises CompileError if it did not come
        from there."""
        key = self._key(text)
        if self._families.refuse(text):
            return
        if self._found.pop(key.digest) is None:
            raise CompileError(reason)
        self._cache.remove(key, reason)

    def _compile_general(
        self, proposals: Sequence[DynamicCandidate], why: str
    ) -> tuple[Executable, Sequence[int]] | None:
        """The general program of the first proposal that comes to something, with the image for the
        member at hand; else None."""
        for proposal in proposals:
            try:
                executable = self._compile(proposal.text, texts=False, why=why, store=False)
                instance = self._families.keep(proposal, executable)
            except (CompileError, TemplateError) as error:
                if "compile" in self._settings.debug:
                    print(f"ftm: not general: {error}", file=sys.stderr)
            else:
                return replace(executable, image=instance.image), instance.varies
        self._families.fail(proposals[-1])
        return None

    def _compile(self, text: str, texts: bool, why: str = "", store: bool = True) -> Executable:
        request = {"machine": self._settings.preset, "cores": self._settings.cores, "texts": texts}
        program, _ = self._workers.compile(text, request, why)
        if store and self._compiler() is not None:
            self._cache.put(self._key(text), program)
        return Executable.from_bytes(program)

    def _infer(self, text: str) -> str:
        """What follows from the sizes that a trace has as symbols; "" where that cannot be said."""
        try:
            found, _ = self._workers.compile(text, {"infer": True})
        except CompileError as error:
            if "compile" in self._settings.debug:
                print(f"ftm: not general at first sight: {error}", file=sys.stderr)
            return ""
        return found.decode()

    def _compiler(self) -> str | None:
        """The hash of the compiler's source; None where it was edited since this process began, and
        the compiler's runs the older."""
        return source_hash() if self._workers.source == source_hash() else None

    def _texts(self, text: str, executable: Executable | None) -> dict[str, str]:
        """All stages; a program from the cache may have been stored without, and is compiled for
        them again."""
        if executable is None or not executable.texts:
            executable = self._compile(text, texts=True)
        return executable.texts

    def _dump(self, text: str, executable: Executable) -> None:
        assert self._settings.dump is not None
        try:
            texts = self._texts(text, executable)
        except CompileError as error:  # the program itself came from the cache and is good
            notice(f"cannot show the stages of a program: {error}")
        else:
            place = dump.write(self._settings.dump, texts, "diff" in self._settings.debug)
            if place is not None and "data" in self._settings.debug:
                self._dumped[text] = place


@functools.cache
def bridge() -> CompileClient:
    """The bridge of this process."""
    return CompileClient(settings.current())
