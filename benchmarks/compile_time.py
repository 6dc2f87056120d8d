"""First and later training steps of `torch.compile(backend="ftm")` and its alternatives.

    python benchmarks/compile_time.py [--rounds 15] [--starts 2] [--model mlp ...] [--cpu] [--json]
        [--dtype bfloat16]

The variants:

- eager, lazy, inductor: eager PyTorch, the lazy device, Inductor.
- ftm-cpu, ftm: compiled on CPU tensors or on tensors on the device.
- ftm-cpu-all: also the optimizer's step is compiled; otherwise it is eager PyTorch's.
- lazy-float32: the lazy device without autocast, to compare with.
- dynamo: the overhead of Dynamo. A backend without effect (PyTorch's ``eager``) on tensors on the
  device, so the lazy device records the model's calls.

Each variant starts in a separate process with empty caches, one after the other, so its first step
is cold. The processes of the last start then take turns of `TURN` seconds, because timings of one
machine drift. Printed are the minimum of the first steps (seconds) and of the turns (milliseconds
per step), the ratio of the first step to Inductor's, and the median over the rounds of the ratio to
the lazy device's turn of the same round.

With `--dtype bfloat16`, model and loss run under `torch.autocast`; parameters and optimizer stay in
float32.

On a shared machine, `--cpu` measures later steps by CPU time, on one core. A variant that fails or
exceeds `--timeout` is reported, and the others continue.
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
from collections.abc import Callable, Sequence
from typing import Any

import step_models
import training

WAYS = ("eager", "lazy", "ftm-cpu", "ftm-cpu-all", "ftm", "dynamo", "inductor")

DTYPES = ("float32", "bfloat16")

TURN = 0.2
"""Seconds of one turn; at least one step."""


def serve(name: str, way: str, clock: Callable[[], float], dtype: str) -> None:
    """Main function of a measured process.

    It prints the seconds of the first step, then, for each input line, the mean of a turn.
    """
    import torch

    from ftm_lazy import TorchCompileBackend

    backend = {"inductor": "inductor", "dynamo": "eager"}.get(
        way, TorchCompileBackend() if way.startswith("ftm") else None
    )

    def compiled(what: Callable[..., Any]) -> Callable[..., Any]:
        return what if backend is None else torch.compile(what, backend=backend)

    device = "ftm" if way in ("lazy", "lazy-float32", "ftm", "dynamo") else "cpu"
    is_float32 = way == "lazy-float32" or dtype == "float32"
    step = training.make_step(
        (training.TASKS | step_models.MODELS)[name],
        device,
        compiled,
        compile_update=compiled if way == "ftm-cpu-all" else lambda update: update,
        autocast=None if is_float32 else getattr(torch, dtype),
    )
    # the loss is available before the gradients
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
    """Return the mean seconds of a step that is repeated for `seconds`."""
    begin, count = clock(), 0
    while not count or clock() - begin < seconds:
        step()
        count += 1
    finish()
    return (clock() - begin) / count


class Way:
    """The process of one variant; ``failed`` has the reason if it has failed."""

    def __init__(
        self, name: str, way: str, folder: str, cpu: bool, timeout: float, dtype: str
    ) -> None:
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
                "--dtype",
                dtype,
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
        """Measure one turn, unless the process has failed."""
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


def measure(
    name: str,
    starts: int,
    rounds: int,
    cpu: bool = False,
    timeout: float = 300,
    variants: Sequence[str] = WAYS,
    dtype: str = "float32",
) -> dict[str, Times]:
    """Measure one model's training step.

    Args:
        name: The model.
        starts: Number of cold starts.
        rounds: Number of turns.
        cpu: Measure later steps by CPU time.
        timeout: Seconds that one step may take.
        variants: Names of the variants; "lazy" is one of them.
        dtype: One of `DTYPES`.
    """
    first: dict[str, float] = {}
    for start in range(starts):
        ways: dict[str, Way] = {}
        with tempfile.TemporaryDirectory() as folder:
            try:
                for way in variants:
                    ways[way] = Way(name, way, f"{folder}/{way}", cpu, timeout, dtype)
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
        if not way.failed and "inductor" in ways and not ways["inductor"].failed:
            found[name]["of_inductor"] = first[name] / first["inductor"]
    return found


def main() -> None:
    """Run the benchmark."""
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
    parser.add_argument(
        "--dtype", choices=DTYPES, default="float32", help="bfloat16: under torch.autocast"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        clock = time.process_time if given.cpu else time.perf_counter
        serve(*given.serve, clock, given.dtype)
        return
    found = {}
    if not given.json:
        titles = f"{'first s':>8} {'of Inductor':>11} {'step ms':>9} {'of lazy':>8}"
        print(f"{'model':<10} {'way':<11} {titles}")
    for name in given.model or training.TASKS:
        found[name] = times = measure(
            name, given.starts, given.rounds, given.cpu, given.timeout, dtype=given.dtype
        )
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
