"""The parent: gives units to worker processes, bounds their time, outlives their crashes, keeps the
results.

A check that crashes or hangs its worker is recorded as that, with what it was doing; the worker is
replaced and runs the unit's other checks. The results are lines of JSON, appended as they come, so
that an interrupted run is resumed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from opdb.databases import Unit

__all__ = ["Results", "Schedule", "sources"]

ROOT = Path(__file__).parents[2]
START = 90.0
"""Seconds in which a worker must be ready."""
PATIENCE = 1.0
"""Seconds that a worker that hangs has for its last words."""
MEGABYTES = 2500
"""Size above which a worker is replaced between units."""

Key = tuple[str, str, str, str]


def sources() -> str:
    """A hash of everything that results depend on: the package's sources and PyTorch's version."""
    import torch

    digest = hashlib.sha256(torch.__version__.encode())
    for folder in ("ftm_lazy", "backend", "csrc"):
        for path in sorted(
            path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".cpp", ".h")
        ):
            digest.update(
                path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0"
            )
    return digest.hexdigest()[:12]


class Results:
    """The file of results; the last record of a check counts."""

    def __init__(self, path: Path, source: str) -> None:
        self.source = source
        self.records: dict[Key, dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            for line in path.read_text().splitlines():
                record = _parse(line)
                if record is not None:
                    self.records[_key(record)] = record
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()

    def add(self, unit: Unit, check: str, record: dict[str, Any]) -> None:
        """Appends the record of one check."""
        names = {"db": unit.db, "entry": unit.entry, "dtype": unit.dtype, "check": check}
        full = names | record | {"source": self.source}
        with self._lock:
            self.records[_key(full)] = full
            self._file.write(json.dumps(full) + "\n")

    def rest(self, unit: Unit) -> Unit:
        """`unit` without the checks that have run on these sources."""
        return replace(
            unit, checks=tuple(check for check in unit.checks if not self._done(unit, check))
        )

    def _done(self, unit: Unit, check: str) -> bool:
        record = self.records.get((unit.db, unit.entry, unit.dtype, check))
        return record is not None and record["source"] == self.source


def _parse(line: str) -> dict[str, Any] | None:
    """The record on `line`; None for a line that an interrupted run left half written."""
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None


def _key(record: dict[str, Any]) -> Key:
    return record["db"], record["entry"], record["dtype"], record["check"]


class Schedule:
    """Runs units on `jobs` workers.

    Args:
        units: what to run.
        results: where the records go.
        jobs: worker processes at a time.
        timeout: seconds without any progress after which a check counts as a hang.
        command: how a worker is started; the number of its reports' file descriptor is appended.
        told: Called with each unit, check and record, from the threads.
    """

    def __init__(
        self,
        units: Iterable[Unit],
        results: Results,
        jobs: int,
        timeout: float,
        command: tuple[str, ...] = (sys.executable, "-m", "opdb.worker"),
        told: Callable[[Unit, str, dict[str, Any]], None] = lambda unit, check, record: None,
    ) -> None:
        self._units = deque(units)
        self._results = results
        self._jobs = jobs
        self._timeout = timeout
        self._command = command
        self._told = told
        self._stopped = threading.Event()
        self._errors: list[BaseException] = []

    def run(self) -> None:
        """Runs all units; returns when they are done, or stops all workers on an interrupt."""
        threads = [
            threading.Thread(target=self._serve, name=f"worker {index}")
            for index in range(self._jobs)
        ]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                time.sleep(0.1)
        finally:
            self._stopped.set()
            for thread in threads:
                thread.join()
        if self._errors:
            raise self._errors[0]

    def _serve(self) -> None:
        worker: _Worker | None = None
        try:
            while not self._stopped.is_set():
                try:
                    unit = self._units.popleft()
                except IndexError:
                    return
                while unit.checks and not self._stopped.is_set():
                    worker = worker or _Worker(self._command, self._stopped)
                    unit = self._run(worker, unit)
                    if not worker.usable:
                        worker.close()
                        worker = None
        except BaseException as error:  # a thread's own error must not look like an empty queue
            self._errors.append(error)
            self._stopped.set()
        finally:
            if worker is not None:
                worker.close()

    def _run(self, worker: _Worker, unit: Unit) -> Unit:
        """Runs `unit`; what remains of it if the worker was lost."""
        worker.give(unit)
        checks = list(unit.checks)
        at, start = "", time.monotonic()
        progress = start
        while True:
            report = worker.report(progress + self._timeout)
            if isinstance(report, str):
                if report == "stopped":
                    return unit
                record = {
                    "status": report, "native": False, "cases": 0, "refused": 0, "closeness": {}, "fallbacks": {},
                    "compile_failures": 0, "uncompiled": [], "wrong": 1,
                    "detail": [f"{at} {worker.last_words()}".strip()], "seconds": round(time.monotonic() - start, 3),
                }  # fmt: skip
                self._add(unit, checks[0], record)
                return replace(unit, checks=tuple(checks[1:]))
            if report.get("end"):
                worker.usable = report["megabytes"] < MEGABYTES
                return replace(unit, checks=())
            progress = time.monotonic()
            if "at" in report:
                start = progress if report["at"] == "start" else start
                at = report["at"]
                continue
            self._add(unit, report.pop("check"), report)
            checks.pop(0)

    def _add(self, unit: Unit, check: str, record: dict[str, Any]) -> None:
        self._results.add(unit, check, record)
        self._told(unit, check, record)


class _Worker:
    """A worker process in a separate session, so that its compile server ends with it."""

    def __init__(self, command: tuple[str, ...], stopped: threading.Event) -> None:
        self._stopped = stopped
        self._words: IO[bytes] = tempfile.TemporaryFile()
        self._cache = tempfile.TemporaryDirectory(prefix="ftm-opdb-")
        reading, writing = os.pipe()
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("FTM_")
        }
        environment |= {
            "FTM_CORES": "1",
            "FTM_CACHE_DIR": self._cache.name,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(
                [str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
        }
        self._process = subprocess.Popen(
            [*command, str(writing)],
            stdin=subprocess.PIPE,
            stdout=self._words,
            stderr=self._words,
            pass_fds=[writing],
            env=environment,
            start_new_session=True,
        )
        os.close(writing)
        self._reports = reading
        self._received = bytearray()
        self.usable = True
        ready = self.report(time.monotonic() + START)
        if isinstance(ready, str) and ready != "stopped":
            words = self.last_words()
            self.close()
            raise RuntimeError(f"a worker does not start: {words}")

    def give(self, unit: Unit) -> None:
        """Hands `unit` to the worker."""
        line = (
            json.dumps(
                {"db": unit.db, "entry": unit.entry, "dtype": unit.dtype, "checks": unit.checks}
            )
            + "\n"
        )
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the worker has ended; `report` returns "crash"

    def report(self, deadline: float) -> dict[str, Any] | str:
        """The next line of the worker, or "crash", "hang" or "stopped"."""
        while b"\n" not in self._received:
            if self._stopped.is_set():
                return self._lose("stopped")
            if time.monotonic() > deadline:
                return self._lose("hang")
            if select.select([self._reports], [], [], 0.25)[0]:
                chunk = os.read(self._reports, 1 << 16)
                if not chunk:
                    return self._lose("crash")
                self._received += chunk
        line, _, rest = self._received.partition(b"\n")
        self._received = rest
        return json.loads(line)

    def _lose(self, how: str) -> str:
        self.usable = False
        if how == "hang":  # the signal makes it print its stack
            os.kill(self._process.pid, signal.SIGUSR1)
            time.sleep(PATIENCE)
        if how != "crash":
            self._kill()
        self._process.wait()
        return how

    def last_words(self) -> str:
        """How the process ended, and the end of its stderr."""
        code = self._process.poll()
        end = (
            ""
            if code is None
            else f"[{signal.Signals(-code).name if code < 0 else f'exit {code}'}] "
        )
        self._words.seek(max(0, self._words.seek(0, os.SEEK_END) - 600))
        return end + self._words.read().decode(errors="replace").strip()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):  # nothing of it is left
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends the process and removes what it cached."""
        self._process.stdin.close()
        self._kill()
        self._process.wait()
        os.close(self._reports)
        self._words.close()
        self._cache.cleanup()
