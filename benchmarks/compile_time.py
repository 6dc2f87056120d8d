"""`torch.compile(backend="ftm")` beside the lazy device and Inductor: first step, and steps after it.

    python benchmarks/compile_time.py [--rounds 7] [--json]

Each way runs in a process of its own, with empty caches, so that the first step is cold; then they take turns, because
timings of one machine differ from minute to minute.  The quoted step is the least of the rounds, in milliseconds; the first
step is in seconds.  ``ftm-cpu`` is compiled on tensors of the CPU, ``ftm`` on tensors of the device.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WAYS = ("eager", "lazy", "ftm-cpu", "ftm", "inductor")
MODELS = ("mlp", "cnn", "gpt")


def make_step(model: str, way: str) -> Callable[[], float]:
    """One training step with AdamW that reads its loss."""
    import torch
    import torch.nn.functional as F

    sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
    import digits
    import tiny_gpt

    from ftm_lazy.frontends.dynamo import backend

    torch.manual_seed(0)
    device = "ftm" if way in ("lazy", "ftm") else "cpu"
    if model == "gpt":
        net = tiny_gpt.GPT(tiny_gpt.Shape()).to(device)
        tokens = torch.randint(tiny_gpt.VOCABULARY, (16, net.shape.context + 1))
        inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1)
    else:
        net = digits.MODELS[model]().to(device)
        inputs, targets = digits.digits()[0][:64]
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    call: Any = net
    if way == "inductor":
        call = torch.compile(net)
    elif way.startswith("ftm"):
        call = torch.compile(net, backend=backend)

    def step() -> float:
        optimizer.zero_grad()
        logits = call(inputs.to(device))
        loss = F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.to(device))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def serve(model: str, way: str) -> None:
    """A measured process: a line with the first step's seconds, then one for each line that it reads."""
    step = make_step(model, way)
    start = time.perf_counter()
    loss = step()
    print(json.dumps({"seconds": time.perf_counter() - start, "loss": loss}), flush=True)
    step()
    for _ in sys.stdin:
        start = time.perf_counter()
        for _ in range(3):
            loss = step()
        print(json.dumps({"seconds": (time.perf_counter() - start) / 3, "loss": loss}), flush=True)


class Way:
    """One process."""

    def __init__(self, model: str, way: str, folder: str) -> None:
        caches = {"FTM_CACHE_DIR": f"{folder}/ftm", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
        command = [sys.executable, __file__, "--serve", model, way]
        self._process = subprocess.Popen(
            command, env={**os.environ, **caches}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.first = self._read()["seconds"]
        self.steps: list[float] = []

    def _read(self) -> dict[str, float]:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def take_turn(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        self.steps.append(self._read()["seconds"])

    def end(self) -> None:
        self._process.communicate()


def measure(model: str, rounds: int) -> dict[str, dict[str, float]]:
    """For each way the first step's seconds and the least step's milliseconds."""
    ways: dict[str, Way] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for way in WAYS:
                ways[way] = Way(model, way, f"{folder}/{way}")
            for _ in range(rounds):
                for way in ways.values():
                    way.take_turn()
        finally:
            for way in ways.values():
                way.end()
    return {name: {"first_s": way.first, "step_ms": min(way.steps) * 1e3} for name, way in ways.items()}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--model", choices=MODELS, action="append", help="only this one; repeat")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(*given.serve)
        return
    found = {model: measure(model, given.rounds) for model in given.model or MODELS}
    if given.json:
        print(json.dumps(found, indent=1))
        return
    print(f"{'model':<6} {'way':<9} {'first s':>8} {'step ms':>9}")
    for model, ways in found.items():
        for way, times in ways.items():
            print(f"{model:<6} {way:<9} {times['first_s']:>8.2f} {times['step_ms']:>9.2f}")


if __name__ == "__main__":
    main()
