"""Training steps of small models: eager PyTorch, ftm, and `torch.compile` with Inductor.

    python benchmarks/step_time.py                    # all models, as a table
    python benchmarks/step_time.py --only ResNet-18   # models whose name has this word
    python benchmarks/step_time.py --cpu              # CPU time on one core, for a busy computer
    python benchmarks/step_time.py --dtype bfloat16   # under torch.autocast
    make performance                                  # writes step_time.json and the documents

A model's variants run in processes of their own with empty caches, which take turns
(`compile_time`). A row has the first step of ftm and Inductor in seconds, with its compilation, and
the least time of a later step. `docs/performance.md` shows the rows of ``step_time.json`` as a
table and a chart, and those of ``step_time_bfloat16.json`` as a table.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import compile_time
from step_models import MODELS

STORED = {
    "float32": Path(__file__).with_suffix(".json"),
    "bfloat16": Path(__file__).with_name("step_time_bfloat16.json"),
}
"""The last results, by dtype."""
VARIANTS = ("eager", "lazy", "inductor")


@dataclass(frozen=True)
class Row:
    """Times of a model's training step; None where a variant failed.

    Attributes:
        name: The model and its batch.
        eager, ftm, inductor: Milliseconds of a later step.
        ftm_first, inductor_first: Seconds of the first step.
        ftm_float32: As ``ftm``, in float32, to compare bfloat16 with.
    """

    name: str
    eager: float
    ftm: float
    inductor: float | None
    ftm_first: float
    inductor_first: float | None
    ftm_float32: float | None = None

    @property
    def speeds(self) -> tuple[float, float | None]:
        """The speeds of ftm and Inductor; eager's is 1."""
        return self.eager / self.ftm, self.inductor and self.eager / self.inductor


COLUMNS = {
    "eager, ms": "eager",
    "ftm, ms": "ftm",
    "Inductor, ms": "inductor",
    "ftm in float32, ms": "ftm_float32",
    "ftm's first step, s": "ftm_first",
    "Inductor's, s": "inductor_first",
}
"""Titles of the table's columns; one without times is left out."""


@dataclass(frozen=True)
class Record:
    """What a file of `STORED` contains: rows, and where they were measured."""

    processor: str
    cores: int
    clock: str
    torch: str
    rows: tuple[Row, ...]

    @classmethod
    def stored(cls, dtype: str = "float32") -> Record:
        """Read the last results."""
        content = json.loads(STORED[dtype].read_text())
        return cls(**{**content, "rows": tuple(Row(**row) for row in content["rows"])})

    def table(self) -> str:
        """Return the table of docs/performance.md, as Markdown."""
        cores = "one core" if self.cores == 1 else f"{self.cores} cores"
        measured = [
            (title, times)
            for title, attribute in COLUMNS.items()
            if any(times := [getattr(row, attribute) for row in self.rows])
        ]
        lines = [
            f"{self.clock} on {cores} of {self.processor}, with PyTorch {self.torch}:",
            "",
            f"| model | {' | '.join(title for title, _ in measured)} |",
            f"|---|{'---:|' * len(measured)}",
        ]
        for row, *times in zip(self.rows, *(times for _, times in measured), strict=True):
            lines.append(f"| {row.name} | {' | '.join(map(_three_digits, times))} |")
        ftm, inductor = (_mean(row.speeds[k] for row in self.rows) for k in range(2))
        means = f"{ftm:.2f} for ftm" + (f", and {inductor:.2f} for Inductor" if inductor else "")
        lines += ["", f"The geometric mean of the speeds is {means}."]
        return "\n".join(lines) + "\n"

    def summary(self) -> str:
        """Return the ranges of the table in two sentences, for docs/start.md."""
        ftm, inductor = ([row.speeds[k] for row in self.rows if row.speeds[k]] for k in range(2))
        first = [row.ftm_first for row in self.rows]
        other = [row.inductor_first for row in self.rows if row.inductor_first]
        steps = _range(1 / speed for speed in ftm)
        others = _range(1 / speed for speed in inductor)
        lines = (
            f"In [{len(self.rows)} measured models](performance.md), on a CPU, a step on ftm took",
            f"{steps} times as long as in eager, and {others} times with `torch.compile`. The",
            f"first step took {_range(first)} seconds on ftm, and {_range(other)} seconds with",
            "`torch.compile`.",
        )
        return "\n".join(lines) + "\n"


def _range(numbers: Iterable[float]) -> str:
    ordered = sorted(numbers)
    return f"{ordered[0]:.1f} to {ordered[-1]:.1f}"


def _three_digits(number: float | None) -> str:
    return "-" if number is None else f"{number:.{max(0, 2 - math.floor(math.log10(number)))}f}"


def _mean(speeds: Iterator[float | None]) -> float:
    logs = [math.log(speed) for speed in speeds if speed]
    return math.exp(sum(logs) / len(logs)) if logs else 0.0


def measure(
    name: str,
    rounds: int,
    with_inductor: bool = True,
    cpu: bool = False,
    dtype: str = "float32",
) -> Row:
    """Measure one of `MODELS`.

    Args:
        name: The model.
        rounds: How often the processes take turns.
        with_inductor: Measure Inductor, too; its first step takes up to a minute.
        cpu: Measure the CPU time of later steps, on one core.
        dtype: One of `compile_time.DTYPES`.

    Raises:
        RuntimeError: Eager PyTorch or ftm failed.
    """
    variants = VARIANTS if with_inductor else VARIANTS[:2]
    if dtype != "float32":
        variants += ("lazy-float32",)
    found = compile_time.measure(name, 1, rounds, cpu, timeout=900, variants=variants, dtype=dtype)
    for variant in VARIANTS[:2]:
        if "failed" in found[variant]:
            raise RuntimeError(f"{name}, {variant}: {found[variant]['failed']}")
    ms = {variant: times.get("step_ms") for variant, times in found.items()}
    first = {variant: times.get("first_s") for variant, times in found.items()}
    return Row(
        name,
        ms["eager"],
        ms["lazy"],
        ms.get("inductor"),
        first["lazy"],
        first.get("inductor"),
        ms.get("lazy-float32"),
    )


def _processor() -> str:
    """Return the processor's name, and whether it has AVX-512 and AMX."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    name = re.search(r"^model name\s*: (.*)$", info, re.MULTILINE)
    text = name[1] if name else platform.processor() or platform.machine()
    units = "AVX-512 and AMX" if "amx_bf16" in info else "AVX-512"
    return f"{text} ({'with' if 'avx512f' in info else 'without'} {units})"


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="turns of each process")
    parser.add_argument(
        "--only", default="", metavar="WORD", help="models whose name has this word"
    )
    parser.add_argument("--no-inductor", action="store_true", help="leave Inductor out")
    parser.add_argument("--cpu", action="store_true", help="later steps by CPU time, on one core")
    parser.add_argument(
        "--dtype",
        choices=compile_time.DTYPES,
        default="float32",
        help="bfloat16: under torch.autocast",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results")
    given = parser.parse_args()
    import torch

    rows = []
    print(
        f"{'':38}{'eager ms':>10}{'ftm ms':>10}{'Inductor':>10}{'speed':>8}{'first s':>9}",
        flush=True,
    )
    for name in MODELS:
        if given.only in name:
            row = measure(name, given.rounds, not given.no_inductor, given.cpu, given.dtype)
            rows.append(row)
            shown = "".join(f"{_three_digits(ms):>10}" for ms in (row.eager, row.ftm, row.inductor))
            print(f"{name:38}{shown}{row.speeds[0]:8.2f}{row.ftm_first:9.2f}", flush=True)
    if given.json:
        cores = 1 if given.cpu else os.cpu_count() or 1
        clock = "CPU time" if given.cpu else "Wall time"
        record = Record(_processor(), cores, clock, torch.__version__, tuple(rows))
        given.json.write_text(json.dumps(asdict(record), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
