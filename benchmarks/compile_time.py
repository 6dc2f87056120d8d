"""`torch.compile(backend="ftm")` beside the lazy device, eager PyTorch and Inductor: the first
training step, and later ones.

    python benchmarks/compile_time.py [--rounds 15] [--starts 2] [--model mlp ...] [--cpu] [--json]

Each way runs in a process of its own with empty caches, so that its first step is cold; one after
the other, so that none is disturbed. The processes of the last start then take turns of `TURN`
seconds, because timings of one machine differ from minute to minute. What is quoted is the least:
of the starts in seconds, of the turns in milliseconds per step; beside them the ratios of interest,
the first step to Inductor's and, as the median over the rounds, a turn to the lazy device's of the
same round.

``ftm-cpu`` is compiled on tensors of the CPU, ``ftm`` on tensors of the device; ``ftm-cpu-all`` has
the optimizer's step compiled, too, which is eager PyTorch's otherwise. ``dynamo`` is what Dynamo
itself costs: on tensors of the device, with a backend that does nothing (PyTorch's ``eager``), so
that the lazy device records the model's calls as without it.

On a machine that others use, `--cpu` gives later steps by the processes' own time, each on one
core. A way that fails, or takes longer than `--timeout`, is said to, and the others go on.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import training

WAYS = ("eager", "lazy", "ftm-cpu", "ftm-cpu-all", "ftm", "dynamo", "inductor")

TURN = 0.2
"""Seconds of one turn; at least one step."""


def serve(name: str, way: str, clock: Callable[[], float]) -> None:
    """A measured process: a line with the seconds of the first step, then for each line that it
    reads those of a step in a turn."""
    import torch

    from ftm_lazy import TorchCompileBackend

    backend = {"inductor": "inductor", "dynamo": "eager"}.get(
        way, TorchCompileBackend() if way.startswith("ftm") else None
    )

    def compiled(what: Callable[..., Any]) -> Callable[..., Any]:
        return what if backend is None else torch.compile(what, backend=backend)

    device = "ftm" if way in ("lazy", "ftm", "dynamo") else "cpu"
    step = training.make_step(
        name,
        device,
        compiled,
        compile_update=compiled if way == "ftm-cpu-all" else lambda update: update,
    )
    # its loss is there before its gradients are
    finish = torch.ftm.synchronize if device == "ftm" else lambda: None
    print(_mean(step, finish, 0.0, time.perf_counter), flush=True)
    _mean(step, finish, 0.0, clock)
    for _ in sys.stdin:
        print(_mean(step, finish, TURN, clock), flush=True)


def _mean(
    step: Callable[[], float],
    finish: Callable[[], None],
    seconds: float,
    clock: Callable[[], float],
) -> float:
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
            [
                sys.executable,
                "-W",
                "ignore",
                __file__,
                "--serve",
                name,
                way,
                *(["--cpu"] if cpu else []),
            ],
            env={**os.environ, **caches, **cores},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
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
"""Seconds of the first step, milliseconds of a later one and how many of the lazy device's steps
that is, or how it failed."""


def measure(name: str, starts: int, rounds: int, cpu: bool, timeout: float) -> dict[str, Times]:
    """For each way the least times of one model's training step; ``cpu``: of later ones the
    process's own."""
    first: dict[str, float] = {}
    for start in range(starts):
        ways: dict[str, Way] = {}
        with tempfile.TemporaryDirectory() as folder:
            try:
                for way in WAYS:
                    ways[way] = Way(name, way, f"{folder}/{way}", cpu, timeout)
                    first[way] = min(first.get(way, float("inf")), ways[way].first)
                for _, way in itertools.product(
                    range(rounds if start == starts - 1 else 0), ways.values()
                ):
                    way.take_turn()
            finally:
                for way in ways.values():
                    way.end()
    found: dict[str, Times] = {}
    for name, way in ways.items():
        found[name] = (
            {"failed": way.failed}
            if way.failed
            else {"first_s": first[name], "step_ms": min(way.steps) * 1e3}
        )
        if not way.failed and not ways["lazy"].failed:
            found[name]["of_lazy"] = statistics.median(
                own / lazy for own, lazy in zip(way.steps, ways["lazy"].steps, strict=True)
            )
        if not way.failed and not ways["inductor"].failed:
            found[name]["of_inductor"] = first[name] / first["inductor"]
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="turns of each process")
    parser.add_argument(
        "--starts", type=int, default=2, help="processes of each way, one after the other"
    )
    parser.add_argument(
        "--model",
        choices=training.TASKS,
        action="append",
        help="only this one; repeat (default: all)",
    )
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
        print(
            f"{'model':<10} {'way':<11} {'first s':>8} {'of Inductor':>11} {'step ms':>9} {'of lazy':>8}"
        )
    for name in given.model or training.TASKS:
        found[name] = times = measure(name, given.starts, given.rounds, given.cpu, given.timeout)
        for way, own in times.items() if not given.json else ():
            missing = float("nan")
            shown = own.get("failed") or (
                f"{own['first_s']:>8.2f} {own.get('of_inductor', missing):>11.2f}"
                f" {own['step_ms']:>9.2f} {own.get('of_lazy', missing):>8.3f}"
            )
            print(f"{name:<10} {way:<11} {shown}", flush=True)
    if given.json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
