"""`torch.compile(backend="ftm")` beside the lazy device, eager PyTorch and Inductor: the first training step, and later ones.

    python benchmarks/compile_time.py [--rounds 15] [--starts 2] [--model mlp ...] [--cpu] [--json]

Each way runs in a process of its own with empty caches, so that its first step is cold; one after the other, so that none
is disturbed.  The processes of the last start then take turns of `TURN` seconds, because timings of one machine differ from
minute to minute.  What is quoted is the least: of the starts in seconds, of the turns in milliseconds per step; beside them the
ratios of interest, the first step to Inductor's and later ones to the lazy device's.  ``ftm-cpu`` is compiled on tensors of the
CPU, ``ftm`` on tensors of the device.  On a machine that others use, `--cpu` gives later steps by the processes' own time, each on
one core.  A way that fails, or takes longer than `--timeout`, is said to, and the others go on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable

import training

WAYS = ("eager", "lazy", "ftm-cpu", "ftm", "inductor")

TURN = 0.2
"""Seconds of one turn; at least one step."""


def serve(name: str, way: str, clock: Callable[[], float]) -> None:
    """A measured process: a line with the seconds of the first step, then for each line that it reads those of a step in a turn."""
    import torch

    from ftm_lazy import TorchCompileBackend

    compiled = {
        "inductor": lambda model: torch.compile(model),
        "ftm-cpu": lambda model: torch.compile(model, backend=TorchCompileBackend()),
        "ftm": lambda model: torch.compile(model, backend=TorchCompileBackend()),
    }.get(way, lambda model: model)
    device = "ftm" if way in ("lazy", "ftm") else "cpu"
    step = training.make_step(name, device, compiled)
    finish = torch.ftm.synchronize if device == "ftm" else lambda: None  # its loss is there before its gradients are
    print(_mean(step, finish, 0.0, time.perf_counter), flush=True)
    _mean(step, finish, 0.0, clock)
    for _ in sys.stdin:
        print(_mean(step, finish, TURN, clock), flush=True)


def _mean(step: Callable[[], float], finish: Callable[[], None], seconds: float, clock: Callable[[], float]) -> float:
    """Seconds of a step, when it is repeated for so long."""
    begin, count = clock(), 0
    while not count or clock() - begin < seconds:
        step()
        count += 1
    finish()
    return (clock() - begin) / count


class Way:
    """One process; ``failed`` says what became of it, if that is no good."""

    def __init__(self, name: str, way: str, folder: str, cpu: bool, timeout: float) -> None:
        caches = {"FTM_CACHE_DIR": f"{folder}/ftm", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
        cores = {"FTM_CORES": "1", "OMP_NUM_THREADS": "1"} if cpu else {}
        self._timeout = timeout
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, "--serve", name, way, *(["--cpu"] if cpu else [])],
            env={**os.environ, **caches, **cores}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self.failed = ""
        self.steps: list[float] = []
        self.first = self._seconds()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _seconds(self) -> float:
        try:
            line = self._lines.get(timeout=self._timeout)
        except queue.Empty:
            self.failed = f"took longer than {self._timeout:g} s"
            self._process.kill()
            return float("nan")
        if not line:
            self.failed = f"ended with exit code {self._process.wait()}"
            return float("nan")
        return float(line)

    def take_turn(self) -> None:
        """One more step, if it still runs."""
        if self.failed:
            return
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.steps.append(self._seconds())

    def end(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


Times = dict[str, float | str]
"""Seconds of the first step and milliseconds of a later one, or how it failed."""


def measure(name: str, starts: int, rounds: int, cpu: bool, timeout: float) -> dict[str, Times]:
    """For each way the least times of one model's training step; ``cpu``: of later ones the process's own."""
    first: dict[str, float] = {}
    for start in range(starts):
        ways: dict[str, Way] = {}
        with tempfile.TemporaryDirectory() as folder:
            try:
                for way in WAYS:
                    ways[way] = Way(name, way, f"{folder}/{way}", cpu, timeout)
                    first[way] = min(first.get(way, float("inf")), ways[way].first)
                for _, way in itertools.product(range(rounds if start == starts - 1 else 0), ways.values()):
                    way.take_turn()
            finally:
                for way in ways.values():
                    way.end()
    return {
        name: {"failed": way.failed} if way.failed else {"first_s": first[name], "step_ms": min(way.steps) * 1e3}
        for name, way in ways.items()
    }


def ratio(times: dict[str, Times], what: str, way: str, other: str) -> str:
    """Of two ways' times, as text."""
    if what not in times[way] or what not in times[other]:
        return "-"
    return f"{float(times[way][what]) / float(times[other][what]):.2f}"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="turns of each process")
    parser.add_argument("--starts", type=int, default=2, help="processes of each way, one after the other")
    parser.add_argument("--model", choices=training.TASKS, action="append", help="only this one; repeat (default: all)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds that one step may take")
    parser.add_argument("--cpu", action="store_true", help="later steps by CPU time, on one core")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(*given.serve, time.process_time if given.cpu else time.perf_counter)
        return
    found = {}
    if not given.json:
        print(f"{'model':<10} {'way':<9} {'first s':>8} {'of Inductor':>11} {'step ms':>9} {'of lazy':>8}")
    for name in given.model or training.TASKS:
        found[name] = times = measure(name, given.starts, given.rounds, given.cpu, given.timeout)
        for way, own in times.items() if not given.json else ():
            shown = own.get("failed") or (
                f"{own['first_s']:>8.2f} {ratio(times, 'first_s', way, 'inductor'):>11}"
                f" {own['step_ms']:>9.2f} {ratio(times, 'step_ms', way, 'lazy'):>8}")
            print(f"{name:<10} {way:<9} {shown}", flush=True)
    if given.json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
