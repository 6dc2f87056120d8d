"""Modelled cost of data-parallel training steps on many FT-Matrix machines.

    python benchmarks/scaling.py [--machine m7032] [--only WORD] [--json FILE]

A step of `DistributedDataParallel` is recorded by one process, compiled, and put on the fabric of
the machine (`ftm_backend.perf_model.data_parallel_scaling`). ``scaling.json`` has the last results
for m7032, which `docs/generate.py` shows in docs/distributed.md and a test compares.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist
import training
from target_steps import step_trace
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.perf_model import cycle_model, data_parallel_scaling
from ftm_backend.target import presets

STORED = Path(__file__).with_suffix(".json")
RANKS = (2, 8, 64, 512, 4096)

STEPS: dict[str, tuple[Callable[[], nn.Module], Callable[[], tuple[Tensor, Tensor]]]] = {
    "ResNet-18, 8x3x224x224": (
        training.resnet18,
        lambda: (torch.randn(8, 3, 224, 224), torch.randint(10, (8,))),
    ),
    "GPT 4x768, 8x128 tokens": (
        lambda: training.gpt(768, 12),
        lambda: (torch.randint(5000, (8, 128)), torch.randint(5000, (8, 128))),
    ),
}
"""Name -> the model, and a batch of one rank."""


@dataclass(frozen=True)
class Result:
    """A step on numbers of ranks.

    Attributes:
        name: The model and the batch of one rank.
        machine: The preset.
        milliseconds: Time of the step on one rank.
        megabytes: Gradients that the ranks exchange.
        collectives: Number of all-reduces.
        strategies: DDP and FSDP2.
    """

    name: str
    machine: str
    milliseconds: float
    megabytes: float
    collectives: int
    strategies: tuple[data_parallel_scaling.StrategyScaling, ...]


@contextmanager
def process_group() -> Iterator[None]:
    """Make a group of this process alone."""
    dist.init_process_group("ftm", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


def record(name: str) -> str:
    """Return the trace of the second step, whose buckets are those of later steps."""
    torch.manual_seed(0)
    model, batch = STEPS[name]
    with process_group():
        return step_trace(DistributedDataParallel(model().to("ftm")), *batch())


def measure(name: str, machine: str) -> Result:
    """Record, compile and model one step."""
    parameters = presets.load(machine)
    program = driver.run_from("trace", record(name), "asm", CompileOptions(machine=machine))
    profile = cycle_model.model(str(program), machine=parameters)
    # the other collectives broadcast buffers, such as batch norm's statistics
    sizes = [event.size for _, event in profile.log.started if event.kind == "ALLREDUCE"]
    found = data_parallel_scaling.scaling(profile, parameters, RANKS)
    return Result(name, machine, profile.seconds * 1e3, sum(sizes) / 1e6, len(sizes), tuple(found))


def stored() -> list[Result]:
    """Return the last results."""
    results = []
    for row in json.loads(STORED.read_text()):
        strategies = tuple(
            data_parallel_scaling.StrategyScaling(
                each["name"],
                tuple(data_parallel_scaling.ScalingRow(**line) for line in each["rows"]),
            )
            for each in row["strategies"]
        )
        results.append(Result(**{**row, "strategies": strategies}))
    return results


def table(results: Sequence[Result]) -> str:
    """Return the table of docs/distributed.md."""
    lines = [
        "| step | ranks | DDP: step, ms | communication, ms | hidden | efficiency "
        "| FSDP2: step, ms | communication, ms | hidden | efficiency |",
        "|---|" + "---:|" * 9,
    ]
    for result in results:
        for rows in zip(*(strategy.rows for strategy in result.strategies), strict=True):
            cells = [
                f"{row.seconds * 1e3:.1f} | {row.communication * 1e3:.1f} | {row.hidden:.0%} "
                f"| {row.efficiency:.0%}"
                for row in rows
            ]
            lines.append(f"| {result.name} | {rows[0].ranks} | {' | '.join(cells)} |")
    lines.append("")
    for result in results:
        lines.append(
            f"- {result.name}: {result.milliseconds:.1f} ms on one rank of {result.machine}; "
            f"{result.megabytes:.1f} MB of gradients in {result.collectives} all-reduces. "
            + ". ".join(strategy.summary() for strategy in result.strategies)
            + "."
        )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    p = argparse.ArgumentParser(description="Modelled cost of training steps on many machines.")
    p.add_argument("--machine", default="m7032")
    p.add_argument("--only", default="", metavar="WORD", help="steps whose name has this word")
    p.add_argument("--json", type=Path, metavar="FILE", help="write the results")
    given = p.parse_args(arguments)
    results = [measure(name, given.machine) for name in STEPS if given.only in name]
    print(table(results))
    if given.json:
        given.json.write_text(json.dumps([asdict(r) for r in results], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
