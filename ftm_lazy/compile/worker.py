"""The client of the compiler's process (`ftm_backend.compile_server`).

The process is started when it is first needed, or a little before, and kept. It may crash, hang or
be killed at any time: then it is started again, once for each program, and after that the program
counts as one that does not compile. A forked child starts a process of its own; nothing here is
shared with the parent.

A process can make copies of itself for other workers, which begin with all that it has imported.
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
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from ftm_backend.codegen.function_cache import FunctionStore
from ftm_backend.compile_server import join, pack, split, unpack
from ftm_lazy.compile.forked_process import ForkedProcess
from ftm_lazy.warnings_once import notice

__all__ = ["CompileError", "Worker", "WorkerError"]

# seconds that the process may sleep or be stopped; one that waits for a busy processor does not
# hang
_STALL = 30.0
_START = 60.0  # seconds until it takes requests, which count for no program
_TICK = 0.25
_PATIENCE = 2.0  # seconds after which a waiting user is told what for


class CompileError(RuntimeError):
    """A program did not compile; the message says why and how to replay it."""


class WorkerError(RuntimeError):
    """The compiler's process cannot be started; that says nothing of the program, which may compile
    later."""


class _Lost(Exception):
    """The process ended or hung; the message completes "the compiler's process ..."."""


class _TooLong(Exception):
    """The compilation took longer than it may. (A TimeoutError can be a user's own, from a signal's
    handler.)"""


class Worker:
    """One compiler process.

    Args:
        timeout: seconds that one compilation may take. echo: let the process write to this
        process's stderr; else its last lines are shown if it crashes. progress: tell a user who
        waits long, where stderr is a terminal. shelf: where functions of programs are kept for
        other processes. command: how to start the process, if not as usual; the descriptors of its
        two pipes are appended, see `ftm_backend.compile_server`. copies: workers that have no
        process get copies of this one's when it is started.
    """

    def __init__(
        self,
        timeout: float,
        echo: bool = False,
        progress: bool = True,
        shelf: FunctionStore | None = None,
        command: Sequence[str] | None = None,
        copies: Sequence[Worker] = (),
    ) -> None:
        self.source: str | None = None
        """`source_hash()` of the code that the process runs; None until it has said so."""
        self._timeout = timeout
        self._echo = echo
        self._progress = progress
        self._shelf = shelf
        self._command = command or (
            sys.executable,
            *_interpreter_options(),
            "-m",
            "ftm_backend.compile_server",
        )
        self._copies = copies
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None
        self._requests_to = self._answers_from = -1  # descriptors
        self._log: IO[bytes] | None = None
        self._received = bytearray()
        self._requests = 0
        os.register_at_fork(after_in_child=self._forget)

    @property
    def pid(self) -> int | None:
        """The process's id; None when there is none."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Starts the process unless it runs; does not wait for it.  Raises WorkerError."""
        with self._lock:
            self._start()

    def compile(self, text: str, request: dict[str, Any], why: str = "") -> tuple[bytes, float]:
        """The executable's bytes and the seconds that the compilation took.

        Args:
            text: the trace.
            request: what the service wants to know beside it: machine, cores, texts.
            why: what is said of the program where the compilation takes long, as "new sizes".

        Raises CompileError if the program does not compile, takes too long, or has ended the
        process twice, and WorkerError if there is no process to be had. An exception that arrives
        from outside, such as KeyboardInterrupt, ends the process, and passes.
        """
        with self._lock:
            for attempt in (1, 2):
                try:
                    return self._compile(text, request, why)
                except _Lost as loss:
                    tail = self._kill()
                    if attempt == 2:
                        raise CompileError(
                            f"the compiler's process {loss}, twice for the same program{tail}"
                        ) from None
                    notice(f"the compiler's process {loss}; it is started again")
                except CompileError:
                    raise
                except _TooLong as error:
                    self._kill()
                    raise CompileError(str(error)) from None
                except BaseException:
                    self._kill()  # its answer would be taken for that of the next request
                    raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Ends the process; a later `compile` would start another."""
        with self._lock:
            self._kill()

    # --- one process
    # --------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        self._kill()
        try:
            self._spawn()
        except (OSError, ValueError) as error:
            # ValueError: an environment that cannot be passed on
            self._kill()
            raise WorkerError(f"the compiler's process cannot be started: {error}") from error

    def _spawn(self) -> None:
        """Its frames go through pipes of their own: whatever is printed when an interpreter starts
        goes to the log."""
        with contextlib.ExitStack() as theirs:
            descriptors = self._open_pipes(theirs)
            copies = [
                worker for worker in self._copies if theirs.enter_context(worker._without_process())
            ]
            for worker in copies:
                descriptors += worker._open_pipes(theirs)
            self._log = None if self._echo else open(os.memfd_create("ftm-worker-log"), "w+b")  # noqa: SIM115 (closed by `stop`)
            self._process = subprocess.Popen(
                (*self._command, *map(str, descriptors)),
                pass_fds=descriptors,
                stdin=subprocess.DEVNULL,
                stdout=2 if self._echo else self._log,
                stderr=None if self._echo else subprocess.STDOUT,
                process_group=0,  # Ctrl-C is meant for the user's program
                env=os.environ | {"PYTHONHASHSEED": "0"},  # the same program from the same trace
            )
            for worker in copies:
                worker._process = ForkedProcess(self._process.pid)

    def _open_pipes(self, theirs: contextlib.ExitStack) -> list[int]:
        """The ends that are the process's, which are closed here with `theirs`."""
        requests, self._requests_to = _pipe()
        theirs.callback(os.close, requests)
        self._answers_from, answers = _pipe()
        theirs.callback(os.close, answers)
        os.set_blocking(self._requests_to, False)
        os.set_blocking(self._answers_from, False)
        return [requests, answers]

    @contextlib.contextmanager
    def _without_process(self) -> Iterator[bool]:
        """Whether nobody uses this worker, and it has no process; meanwhile nobody starts one."""
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
        """Ends the process at once; returns the last lines that it wrote, as part of a message."""
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

    def _forget(self) -> None:
        """In a forked child: the process belongs to the parent, and so does the lock's state."""
        self._lock = threading.Lock()
        process, self._process, self._log, self.source = self._process, None, None, None
        self._received = bytearray()
        if process is not None:
            process.returncode = 0  # not ours to wait for
        self._close_pipes()  # else the service would outlive the parent

    def _close_pipes(self) -> None:
        for descriptor in (self._requests_to, self._answers_from):
            if descriptor >= 0:
                os.close(descriptor)
        self._requests_to = self._answers_from = -1

    # --- one request
    # --------------------------------------------------------------------------------------

    def _compile(self, text: str, request: dict[str, Any], why: str) -> tuple[bytes, float]:
        self._start()
        assert self._process is not None
        self._requests += 1
        header = {
            "id": self._requests,
            "timeout": self._timeout,
            "shelf": self._shelf is not None,
            **request,
        }
        with _Watch(self._process.pid, self._notice(text, why)) as watch:
            if self.source is not None:
                watch.limit(self._timeout)
            self._send(pack(header, text.encode()), watch)
            while True:
                answer, body = self._receive(watch)
                if "source" in answer:
                    self.source = answer["source"]
                    if isinstance(self._process, ForkedProcess):
                        self._process.said(answer["pid"])
                        watch.follow(answer["pid"])
                    watch.limit(self._timeout)
                elif "wanted" in answer:
                    assert self._shelf is not None
                    listed, functions = join(self._shelf.get(answer["wanted"]))
                    self._send(pack({"id": header["id"], "functions": listed}, functions), watch)
                elif answer["id"] == header["id"]:
                    break
        if not answer["ok"]:
            raise CompileError(answer["error"])
        made = split(answer.get("functions", ()), body[answer.get("size", len(body)) :])
        if made and self._shelf is not None:
            self._shelf.put(made)
        return body[: answer.get("size", len(body))], answer["seconds"]

    def _send(self, frame: bytes, watch: _Watch) -> None:
        rest = memoryview(frame)
        while rest:
            watch.wait(self._requests_to, select.POLLOUT)
            try:
                rest = rest[os.write(self._requests_to, rest) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise _Lost(self._ending()) from None

    def _receive(self, watch: _Watch) -> tuple[dict[str, Any], bytes]:
        while (frame := unpack(self._received)) is None:
            watch.wait(self._answers_from, select.POLLIN)
            with contextlib.suppress(BlockingIOError):
                chunk = os.read(self._answers_from, 1 << 20)
                if not chunk:
                    raise _Lost(self._ending())
                self._received += chunk
        return frame

    def _ending(self) -> str:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)
        code = self._process.returncode
        if isinstance(self._process, ForkedProcess):
            return "ended"
        return (
            f"was killed by signal {-code}"
            if code is not None and code < 0
            else f"ended with code {code}"
        )

    def _notice(self, text: str, why: str) -> Callable[[float], str] | None:
        if not (self._progress and sys.stderr is not None and sys.stderr.isatty()):
            return None
        what = f"{text.count(' : '):,} operations" + (f", {why}" if why else "")
        return lambda seconds: f"ftm: compiling a program ({what}), {seconds:.0f} s"


class _Watch:
    """Waits for the process, within the time limit, and not for one that hangs; shows that the user
    waits."""

    def __init__(self, pid: int, notice: Callable[[float], str] | None) -> None:
        self._pid = pid
        self._timeout = _START
        self._stall = _STALL
        self._notice = notice
        self._begin = self._active = time.monotonic()
        self._used = _cpu_ticks(pid)
        self._shown = 0.0

    def __enter__(self) -> _Watch:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    def follow(self, pid: int) -> None:
        """It is this process."""
        self._pid, self._used = pid, _cpu_ticks(pid)

    def limit(self, timeout: float) -> None:
        """The process takes requests: from now on it may take this many seconds."""
        self._begin, self._timeout, self._stall = (
            time.monotonic(),
            timeout,
            min(_STALL, timeout / 2),
        )

    def wait(self, descriptor: int, event: int) -> None:
        """Returns when `descriptor` is ready; raises _Lost or _TooLong when it will not be."""
        poll = select.poll()
        poll.register(descriptor, event)
        while not poll.poll(_TICK * 1000):
            now = time.monotonic()
            used = _cpu_ticks(self._pid)
            if used != self._used:
                self._used, self._active = used, now
            if used is not None and now - self._active > self._stall:
                raise _Lost(f"has done nothing for {self._stall:g} s")
            if now - self._begin > self._timeout:
                raise _TooLong(
                    f"the compilation did not end within {self._timeout:g} s (FTM_COMPILE_TIMEOUT)"
                )
            self._show(now - self._begin)

    def _show(self, seconds: float) -> None:
        if self._notice is None or seconds < _PATIENCE:
            return
        sys.stderr.write(f"\r\033[K{self._notice(seconds)}")
        self._shown = seconds
        sys.stderr.flush()


def _interpreter_options() -> list[str]:
    """The options of this interpreter that decide which code an interpreter runs, and where it
    writes bytecode.

    A program that asked for isolation from the environment must not run code from there in another
    process. Options for warnings and for debugging stay behind: a warning turned into an error must
    not stop the compiler.
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
    """Both ends of a pipe, not inherited, and none of them a standard stream's number."""
    ends = os.pipe()
    try:
        return fcntl.fcntl(ends[0], fcntl.F_DUPFD_CLOEXEC, 3), fcntl.fcntl(
            ends[1], fcntl.F_DUPFD_CLOEXEC, 3
        )
    finally:
        for end in ends:
            os.close(end)


def _cpu_ticks(pid: int) -> float | None:
    """CPU time that the process has used, or the time if it would use some; None where the system
    does not tell."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            words = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return time.monotonic() if words[0] == b"R" else int(words[11]) + int(words[12])
