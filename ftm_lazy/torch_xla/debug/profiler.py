"""torch_xla.debug.profiler, usually imported as ``xp``: profiles of `torch.profiler`.

A profile is a Chrome trace of Python, PyTorch and the machine's threads on the host; open it in
Perfetto or chrome://tracing. `ftm_lazy.debug.profile` models the cost on the hardware.
"""

from __future__ import annotations

import functools
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import torch

from ftm_lazy.torch_xla import _steps, _world

__all__ = [
    "StepTrace",
    "Trace",
    "get_tracer_marked_step",
    "set_tracer_marked_step",
    "start_server",
    "start_trace",
    "stop_trace",
    "trace",
    "trace_detached",
    "trace_me",
]

P = ParamSpec("P")
R = TypeVar("R")

_marked = False


def set_tracer_marked_step(value: bool) -> None:
    """Set whether a `StepTrace` has ended the step, so that a device loader does not end it."""
    global _marked
    _marked = value


def get_tracer_marked_step() -> bool:
    """Return the value of `set_tracer_marked_step`."""
    return _marked


# --- names in a profile


class Trace:
    """Context manager that appears in the profile.

    Args:
        name: Its name.
        **kwargs: Values that the profile shows with the name.
    """

    def __init__(self, name: str, **kwargs: object) -> None:
        self.name = name
        shown = ", ".join(
            f"{key}={value}" for key, value in kwargs.items() if not key.startswith("_")
        )
        self._range = torch.profiler.record_function(f"{name}#{shown}#" if shown else name)

    def __enter__(self) -> None:
        self._range.__enter__()

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._range.__exit__(type, value, traceback)


class StepTrace(Trace):
    """A `Trace` of one step, which ends with `torch_xla.sync`."""

    def __enter__(self) -> None:
        set_tracer_marked_step(True)
        super().__enter__()

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _steps.sync()
        super().__exit__(type, value, traceback)


def trace_me(scope: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Show calls of a function in the profile under the name `scope` (decorator)."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def named(*args: P.args, **kwargs: P.kwargs) -> R:
            with Trace(scope):
                return function(*args, **kwargs)

        return named

    return decorate


# --- profiles of this process

_profile: torch.profiler.profile | None = None
_directory = ""
_lock = threading.Lock()


def _new_profile() -> torch.profiler.profile:
    return torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        experimental_config=torch._C._profiler._ExperimentalConfig(profile_all_threads=True),
    )


def start_trace(log_dir: os.PathLike[str] | str) -> None:
    """Start a profile.

    Args:
        log_dir: Directory to which `stop_trace` writes.

    Raises:
        RuntimeError: A profile is running.
    """
    global _profile, _directory
    with _lock:
        if _profile is not None:
            raise RuntimeError(
                "Profile has already been started. Only one profile may be run at a time."
            )
        _profile, _directory = _new_profile(), str(log_dir)
        _profile.start()


def stop_trace() -> None:
    """End the profile and write it to the directory of `start_trace`.

    Raises:
        RuntimeError: No profile is running.
    """
    global _profile
    with _lock:
        if _profile is None:
            raise RuntimeError("No profile started")
        ended, _profile = _profile, None
        ended.stop()
        ended.export_chrome_trace(str(_file(_directory)))


def _file(directory: str, name: str = "") -> Path:
    # TensorBoard reads this folder
    folder = Path(directory, "plugins", "profile", time.strftime("%Y_%m_%d_%H_%M_%S"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name or socket.gethostname()}.{os.getpid()}.pt.trace.json"


# --- profiles on demand


class _Server:
    """Server of `trace`, on this host only: reads a line with milliseconds, returns a profile."""

    def __init__(self, port: int) -> None:
        try:
            self._socket = socket.create_server(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            raise RuntimeError(f"cannot listen on port {port}: {error}") from error
        threading.Thread(target=self._serve, name="ftm profiler server", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            with connection, connection.makefile("rwb") as stream:
                duration = int(stream.readline() or b"0")
                stream.write(_profile_for(duration / 1000))

    def __del__(self) -> None:
        if hasattr(self, "_socket"):
            self._socket.close()


def _profile_for(seconds: float) -> bytes:
    import tempfile

    with _lock, tempfile.TemporaryDirectory() as directory:
        profile = _new_profile()
        profile.start()
        time.sleep(seconds)
        profile.stop()
        file = Path(directory, "trace.json")
        profile.export_chrome_trace(str(file))
        return file.read_bytes()


def start_server(port: int, only_on_master: bool = True) -> object | None:
    """Let `trace` profile this process while the returned object lives.

    Args:
        port: A port of the local interface.
        only_on_master: Start it in the first process of the host only.

    Returns:
        The server; None in processes without one.

    Raises:
        RuntimeError: The port is in use.
    """
    return _Server(port) if not only_on_master or _world.local_ordinal() == 0 else None


def trace(
    service_addr: str,
    logdir: str,
    duration_ms: int = 1000,
    num_tracing_attempts: int = 3,
    host_tracer_level: int = 2,
    device_tracer_level: int = 1,
    delay_ms: int = 0,
    timeout_s: int = 120,
    interval_s: int = 5,
) -> None:
    """Profile processes that called `start_server`, and write the profiles to `logdir`.

    Args:
        service_addr: HOST:PORT, or several separated by commas.
        logdir: The directory.
        duration_ms: Length of the profile in milliseconds.
        num_tracing_attempts: Number of attempts to reach a server.
        host_tracer_level: Accepted; there is one level.
        device_tracer_level: Accepted; there is one level.
        delay_ms: Milliseconds to wait before the profile.
        timeout_s: Seconds for all attempts together.
        interval_s: Seconds between attempts.

    Raises:
        RuntimeError: A server cannot be reached.
    """
    time.sleep(delay_ms / 1000)
    for address in service_addr.split(","):
        host, _, port = address.strip().rpartition(":")
        endpoint = (host, int(port))
        content = _request(endpoint, duration_ms, num_tracing_attempts, timeout_s, interval_s)
        _file(logdir, address.strip().replace(":", "_")).write_bytes(content)


def _request(
    address: tuple[str, int], duration: int, attempts: int, timeout: float, interval: float
) -> bytes:
    end, failure = time.monotonic() + timeout, None
    for attempt in range(attempts):
        try:
            with socket.create_connection(
                address, timeout=max(1.0, end - time.monotonic())
            ) as connection:
                connection.sendall(b"%d\n" % duration)
                with connection.makefile("rb") as stream:
                    return stream.read()
        except OSError as error:
            failure = error
            if attempt + 1 < attempts and time.monotonic() + interval < end:
                time.sleep(interval)
    raise RuntimeError(
        f"no profiler server answers at {address[0]}:{address[1]}: {failure}"
    ) from failure


def trace_detached(*args: object, **kwargs: object) -> None:
    """Call `trace` on another thread."""
    threading.Thread(target=trace, args=args, kwargs=kwargs).start()
