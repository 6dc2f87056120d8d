"""`torch.compile(backend="ftm")` beside the lazy device, eager PyTorch and Inductor: the first training step, and later ones.

    python benchmarks/compile_time.py [--rounds 5] [--model mlp ...] [--json]

Each way runs in a process of its own with empty caches, so that its first step is cold; one after the other, so that none
is disturbed.  Then they take turns, because timings of one machine differ from minute to minute: the quoted step is the
least of the rounds, in milliseconds; the first step is in seconds.  ``ftm-cpu`` is compiled on tensors of the CPU, ``ftm`` on
tensors of the device.  A way that fails, or takes longer than `--timeout`, is said to, and the others go on.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time

import training

WAYS = ("eager", "lazy", "ftm-cpu", "ftm", "inductor")


def serve(name: str, way: str) -> None:
    """A measured process: a line with the seconds of the first step, then one for each line that it reads."""
    import torch

    from ftm_lazy import TorchCompileBackend

    compiled = {
        "inductor": lambda model: torch.compile(model),
        "ftm-cpu": lambda model: torch.compile(model, backend=TorchCompileBackend()),
        "ftm": lambda model: torch.compile(model, backend=TorchCompileBackend()),
    }.get(way, lambda model: model)
    step = training.make_step(name, "ftm" if way in ("lazy", "ftm") else "cpu", compiled)
    for line in (None, *sys.stdin):
        start = time.perf_counter()
        step()
        print(time.perf_counter() - start, flush=True)
        if line is None:
            step()


class Way:
    """One process; ``failed`` says what became of it, if that is no good."""

    def __init__(self, name: str, way: str, folder: str, timeout: float) -> None:
        caches = {"FTM_CACHE_DIR": f"{folder}/ftm", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
        self._timeout = timeout
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, "--serve", name, way], env={**os.environ, **caches},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
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

    def times(self) -> dict[str, float | str]:
        """What was measured, or that it failed."""
        return {"failed": self.failed} if self.failed else {"first_s": self.first, "step_ms": min(self.steps) * 1e3}


def measure(name: str, rounds: int, timeout: float) -> dict[str, dict[str, float | str]]:
    """For each way the seconds of the first step and the milliseconds of the least later one."""
    ways: dict[str, Way] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for way in WAYS:
                ways[way] = Way(name, way, f"{folder}/{way}", timeout)
            for _ in range(rounds):
                for way in ways.values():
                    way.take_turn()
        finally:
            for way in ways.values():
                way.end()
    return {way: made.times() for way, made in ways.items()}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", choices=training.TASKS, action="append", help="only this one; repeat (default: the examples)")
    parser.add_argument("--timeout", type=float, default=300, help="seconds that one step may take")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(*given.serve)
        return
    found = {}
    if not given.json:
        print(f"{'model':<10} {'way':<9} {'first s':>8} {'step ms':>9}")
    for name in given.model or ("mlp", "cnn", "tiny_gpt"):
        found[name] = measure(name, given.rounds, given.timeout)
        if not given.json:
            for way, times in found[name].items():
                shown = times.get("failed") or f"{times['first_s']:>8.2f} {times['step_ms']:>9.2f}"
                print(f"{name:<10} {way:<9} {shown}", flush=True)
    if given.json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
