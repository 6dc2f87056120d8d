"""Client of one compiler process (`ftm_backend.compile_server`).

The process is started when it is first needed, or a little before, and kept. If it crashes, hangs
or is killed, it is restarted once per program; the second time, the program counts as one that does
not compile. A forked child of this process starts its own compiler process and shares none.

A compiler process can fork itself for other workers, whose processes then need no imports.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, TextIO

from ftm_backend.codegen.function_cache import FunctionStore
from ftm_backend.compile_server import Header, join, pack, split, unpack
from ftm_lazy.compile.forked_process_handle import ForkedProcessHandle
from ftm_lazy.user_warnings import warn_user

__all__ = ["CompileError", "Worker", "WorkerError"]

# All in seconds.
_STALL = 30.0  # without using a CPU while not runnable: the process hangs
_START = 60.0  # until the process accepts requests; not part of a program's timeout
_TICK = 0.25  # between checks of the process
_PROGRESS_AFTER = 2.0  # until the progress line appears


class CompileError(RuntimeError):
    """A program did not compile; the message has the reason and the command that replays it."""


class WorkerError(RuntimeError):
    """The compiler process cannot be started; the program may compile later."""


class _ProcessLostError(Exception):
    """The process ended or hung; the message completes "the compiler process ..."."""


class _CompileTimeoutError(Exception):
    """The compilation exceeded the timeout.

    Not a TimeoutError: a user's signal handler may raise one.
    """


class Worker:
    """One compiler process.

    Args:
        timeout: Seconds that one compilation may take.
        echo: Let the process write to this process's stderr. Otherwise its last lines are part of
            the error message if it crashes.
        progress: Show a progress line on stderr, if that is a terminal, after 2 s.
        functions: Store of compiled functions shared with other processes.
        command: Command that starts the process; None for the default. The descriptors of its two
            pipes are appended as arguments, see `ftm_backend.compile_server`.
        forks: Workers that get forks of this process when it is started, if they have none.
    """

    def __init__(
        self,
        timeout: float,
        echo: bool = False,
        progress: bool = True,
        functions: FunctionStore | None = None,
        command: Sequence[str] | None = None,
        forks: Sequence[Worker] = (),
    ) -> None:
        self.source: str | None = None
        """`source_hash()` of the code that the process runs; None until its first frame."""
        self._timeout = timeout
        self._echo = echo
        self._progress = progress
        self._functions = functions
        self._command = command or (
            sys.executable,
            *_interpreter_options(),
            "-m",
            "ftm_backend.compile_server",
        )
        self._forks = forks
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | ForkedProcessHandle | None = None
        self._request_pipe = self._response_pipe = -1  # descriptors
        self._log: IO[bytes] | None = None
        self._received = bytearray()
        self._requests = 0
        os.register_at_fork(after_in_child=self._abandon)

    @property
    def pid(self) -> int | None:
        """The process id; None if there is no process."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start the process unless it runs, without waiting for it.

        Raises:
            WorkerError: The process cannot be started.
        """
        with self._lock:
            self._start()

    def compile(
        self, text: str, request: Mapping[str, object], why: str = ""
    ) -> tuple[bytes, float]:
        """Compile a trace.

        An asynchronous exception, such as KeyboardInterrupt, kills the process and is passed on.

        Args:
            text: The trace.
            request: Further fields of the request's header: machine, cores, texts.
            why: The cause of the compile for the progress line, e.g. "new sizes".

        Returns:
            The serialized executable, and the seconds that the compilation took.

        Raises:
            CompileError: The program does not compile, exceeds the timeout, or has ended the
                process twice.
            WorkerError: The process cannot be started.
        """
        with self._lock:
            for attempt in (1, 2):
                try:
                    return self._compile(text, request, why)
                except _ProcessLostError as loss:
                    tail = self._kill()
                    if attempt == 2:
                        raise CompileError(
                            f"the compiler process {loss}, twice for the same program{tail}"
                        ) from None
                    warn_user(f"the compiler process {loss} and is restarted")
                except CompileError:
                    raise
                except _CompileTimeoutError as error:
                    self._kill()
                    raise CompileError(str(error)) from None
                except BaseException:
                    self._kill()  # else its response would be read as that of the next request
                    raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        """End the process; a later `compile` starts a new one."""
        with self._lock:
            self._kill()

    # --- process

    def _start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self._kill()
        try:
            self._spawn()
        except (OSError, ValueError) as error:
            # ValueError: the environment has an entry that cannot be passed on
            self._kill()
            raise WorkerError(f"the compiler process cannot be started: {error}") from error

    def _spawn(self) -> None:
        """Start the process and its forks.

        Frames use dedicated pipes, because an interpreter may print to stdout when it starts; that
        output goes to the log.
        """
        with contextlib.ExitStack() as child_ends:
            descriptors = self._open_pipes(child_ends)
            forks = [
                worker for worker in self._forks if child_ends.enter_context(worker._reserve())
            ]
            for worker in forks:
                descriptors += worker._open_pipes(child_ends)
            log = None if self._echo else os.memfd_create("ftm-worker-log")
            self._log = None if log is None else open(log, "w+b")  # noqa: SIM115 (closed by `_kill`)
            self._process = subprocess.Popen(
                (*self._command, *map(str, descriptors)),
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                stdout=2 if self._echo else self._log,
                stderr=None if self._echo else subprocess.STDOUT,
                process_group=0,  # Ctrl-C must not reach it
                env=os.environ | {"PYTHONHASHSEED": "0"},  # for deterministic programs
            )
            for worker in forks:
                worker._process = ForkedProcessHandle(self._process.pid)

    def _open_pipes(self, child_ends: contextlib.ExitStack) -> list[int]:
        """Open the two pipes and return the child's ends; `child_ends` closes them here."""
        requests, self._request_pipe = _pipe()
        child_ends.callback(os.close, requests)
        self._response_pipe, responses = _pipe()
        child_ends.callback(os.close, responses)
        os.set_blocking(self._request_pipe, False)
        os.set_blocking(self._response_pipe, False)
        return [requests, responses]

    @contextlib.contextmanager
    def _reserve(self) -> Iterator[bool]:
        """Lock this worker; yield whether it is idle and has no process."""
        if not self._lock.acquire(blocking=False):
            yield False
            return
        try:
            if self._process is not None and self._process.poll() is not None:
                self._kill()
            yield self._process is None
        finally:
            self._lock.release()

    def _kill(self) -> str:
        """Kill the process; return the last lines of its log as part of an error message."""
        process, log = self._process, self._log
        self._process, self._log, self.source = None, None, None
        self._received.clear()
        if process is not None:
            process.kill()
            process.wait()
        self._close_pipes()
        if log is None:
            return ""
        with log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 4000))
            tail = log.read().decode(errors="replace").strip()
        return f"; it wrote:\n{tail}" if tail else ""

    def _abandon(self) -> None:
        """Drop the process and the lock in a forked child; the parent owns them."""
        self._lock = threading.Lock()
        process, self._process, self._log, self.source = self._process, None, None, None
        self._received = bytearray()
        if process is not None:
            process.returncode = 0  # it is not a child of this process, so it cannot wait for it
        self._close_pipes()  # else the compiler process would outlive the parent

    def _close_pipes(self) -> None:
        for descriptor in (self._request_pipe, self._response_pipe):
            if descriptor >= 0:
                os.close(descriptor)
        self._request_pipe = self._response_pipe = -1

    # --- request

    def _compile(self, text: str, request: Mapping[str, object], why: str) -> tuple[bytes, float]:
        self._start()
        assert self._process is not None
        self._requests += 1
        header = {
            "id": self._requests,
            "timeout": self._timeout,
            "shelf": self._functions is not None,
            **request,
        }
        with _Watchdog(self._process.pid, self._progress_line(text, why)) as watchdog:
            if self.source is not None:
                watchdog.limit(self._timeout)
            self._send(pack(header, text.encode()), watchdog)
            while True:
                response, body = self._receive(watchdog)
                if "source" in response:
                    self.source = response["source"]
                    if isinstance(self._process, ForkedProcessHandle):
                        self._process.set_pid(response["pid"])
                        watchdog.follow(response["pid"])
                    watchdog.limit(self._timeout)
                elif "wanted" in response:
                    assert self._functions is not None
                    listed, functions = join(self._functions.get(response["wanted"]))
                    self._send(pack({"id": header["id"], "functions": listed}, functions), watchdog)
                elif response["id"] == header["id"]:
                    break
        if not response["ok"]:
            raise CompileError(response["error"])
        size = response.get("size", len(body))
        compiled = split(response.get("functions", ()), body[size:])
        if compiled and self._functions is not None:
            self._functions.put(compiled)
        return body[:size], response["seconds"]

    def _send(self, frame: bytes, watchdog: _Watchdog) -> None:
        unsent = memoryview(frame)
        while unsent:
            watchdog.wait(self._request_pipe, select.POLLOUT)
            try:
                unsent = unsent[os.write(self._request_pipe, unsent) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise _ProcessLostError(self._describe_end()) from None

    def _receive(self, watchdog: _Watchdog) -> tuple[Header, bytes]:
        while (frame := unpack(self._received)) is None:
            watchdog.wait(self._response_pipe, select.POLLIN)
            with contextlib.suppress(BlockingIOError):
                chunk = os.read(self._response_pipe, 1 << 20)
                if not chunk:
                    raise _ProcessLostError(self._describe_end())
                self._received += chunk
        return frame

    def _describe_end(self) -> str:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)
        code = self._process.returncode
        if isinstance(self._process, ForkedProcessHandle):
            return "ended"
        if code is not None and code < 0:
            return f"was killed by signal {-code}"
        return f"ended with code {code}"

    def _progress_line(self, text: str, why: str) -> Callable[[float], str] | None:
        """Return the progress line as a function of seconds; None if none is to be shown."""
        if not (self._progress and _overwrites_lines(sys.stderr)):
            return None
        program = f"{text.count(' : '):,} operations" + (f", {why}" if why else "")
        return lambda seconds: f"ftm: compiling a program ({program}), {seconds:.0f} s"


def _overwrites_lines(stream: TextIO | None) -> bool:
    """Return whether a carriage return on `stream` goes back to the line's begin.

    It does on a terminal, and below the cell of a notebook.
    """
    if stream is None:
        return False
    return stream.isatty() or type(stream).__module__.startswith("ipykernel.")


class _Watchdog:
    """Waits for a process until it exceeds its time limit or hangs, and shows the progress line."""

    def __init__(self, pid: int, progress_line: Callable[[float], str] | None) -> None:
        self._pid = pid
        self._timeout = _START
        self._stall = _STALL
        self._progress_line = progress_line
        self._begin = self._active = time.monotonic()
        self._used = _cpu_ticks(pid)
        self._is_shown = False

    def __enter__(self) -> _Watchdog:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._is_shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    def follow(self, pid: int) -> None:
        """Watch this process from now on."""
        self._pid, self._used = pid, _cpu_ticks(pid)

    def limit(self, timeout: float) -> None:
        """Set the time limit to `timeout` seconds from now; the process accepts requests."""
        self._begin, self._timeout = time.monotonic(), timeout
        self._stall = min(_STALL, timeout / 2)

    def wait(self, descriptor: int, event: int) -> None:
        """Wait until `descriptor` is ready.

        Raises:
            _ProcessLostError: The process hangs.
            _CompileTimeoutError: The time limit is exceeded.
        """
        poll = select.poll()
        poll.register(descriptor, event)
        while not poll.poll(_TICK * 1000):
            now = time.monotonic()
            used = _cpu_ticks(self._pid)
            if used != self._used:
                self._used, self._active = used, now
            if used is not None and now - self._active > self._stall:
                raise _ProcessLostError(f"has done nothing for {self._stall:g} s")
            if now - self._begin > self._timeout:
                raise _CompileTimeoutError(
                    f"the compilation did not end within {self._timeout:g} s (FTM_COMPILE_TIMEOUT)"
                )
            self._show_progress(now - self._begin)

    def _show_progress(self, seconds: float) -> None:
        if self._progress_line is None or seconds < _PROGRESS_AFTER:
            return
        sys.stderr.write(f"\r\033[K{self._progress_line(seconds)}")
        self._is_shown = True
        sys.stderr.flush()


def _interpreter_options() -> list[str]:
    """Return this interpreter's options that select the code it runs and its bytecode folder.

    If this process is isolated from the environment, the compiler process must be, too. Options for
    warnings and debugging are not passed on: a warning turned into an error would stop the
    compiler.
    """
    flags, options = sys.flags, ["-P"]
    if flags.isolated:
        options.append("-I")
    else:
        options += ["-E"] * flags.ignore_environment + ["-s"] * flags.no_user_site
    options += ["-S"] * flags.no_site + ["-B"] * flags.dont_write_bytecode
    options += ["-X", f"utf8={flags.utf8_mode}"]
    if sys.pycache_prefix is not None:
        options += ["-X", f"pycache_prefix={sys.pycache_prefix}"]
    return options


def _pipe() -> tuple[int, int]:
    """Open a pipe that children do not inherit, with descriptors above the standard streams'."""
    ends = os.pipe()
    try:
        return fcntl.fcntl(ends[0], fcntl.F_DUPFD_CLOEXEC, 3), fcntl.fcntl(
            ends[1], fcntl.F_DUPFD_CLOEXEC, 3
        )
    finally:
        for end in ends:
            os.close(end)


def _cpu_ticks(pid: int) -> float | None:
    """Return a value that changes while a process works; None if /proc does not have it.

    It is the CPU time used, or the current time if the process is runnable: a process that waits
    for a busy CPU does not hang.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return time.monotonic() if words[0] == b"R" else int(words[11]) + int(words[12])
