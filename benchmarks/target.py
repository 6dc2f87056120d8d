"""Modelled cost of compiled matmuls on FT-Matrix machines, compared with published figures.

    python benchmarks/target.py [--json FILE] [--only WORD] [--random N] [--seed S]
        [--convolutions [SIDE ...]]

Each row is ``a @ b``, compiled from its trace for a preset and number of cores, and costed by the
cycle model. The columns:

- of peak: share of the multiply-add throughput of the cores in use.
- of roofline: share of the roofline, which is the larger of the operations' time at peak and the
  time of the minimal traffic (one read of each operand, one write of the result) at sustained
  bandwidth.

``--random N`` adds N matmuls of random shapes and layouts, their median and 10th percentile.
``--convolutions`` adds the convolutions of ResNet-18, in three directions.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import target_convolutions

from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from ftm_backend.target.presets import ELEMENT_BYTES

SHORT = 20_000
"""Cycles of the roofline below which latencies dominate; such matmuls are summarized separately."""


@dataclass(frozen=True)
class Row:
    """A matmul ``C[m, n] = A[m, k] B[k, n]``.

    Attributes:
        layout: N or T (transposed) for A and for B, as in BLAS.
        published: Published percent of peak, or None.
        wanted: Percent of peak that the compiled program must reach, or None.
    """

    dtype: str
    layout: str
    m: int
    n: int
    k: int
    cores: int
    machine: str = "m7032"
    published: float | None = None
    wanted: float | None = None

    @property
    def name(self) -> str:
        """Description on one line."""
        cores = f"{self.cores} core{'s' * (self.cores > 1)}"
        return f"{self.machine} {self.dtype} {self.layout} {self.m}x{self.n}x{self.k}, {cores}"


PEAK = 172.8
"""GFLOP/s of one m7032 core in f64."""

ROWS = (
    Row("f64", "NN", 6048, 1536, 2048, 1, published=96, wanted=94),
    Row("f64", "NN", 6048, 1536, 2048, 8, wanted=94 * 6.8 / 8),
    Row("f64", "NT", 4096, 4096, 4096, 1, published=89, wanted=87),
    Row("f64", "NT", 4096, 4096, 4096, 8, published=84 * 6.52 / 8, wanted=87 * 6.0 / 8),
    Row("f64", "NN", 144, 12288, 4096, 8, published=100 * 141 / PEAK, wanted=100 * 135 / PEAK),
    Row("f64", "NN", 192, 12288, 4096, 8, published=100 * 158 / PEAK, wanted=100 * 150 / PEAK),
    Row("f64", "NN", 13824, 192, 4096, 8, published=100 * 104 / PEAK, wanted=100 * 104 / PEAK),
    Row("f32", "NN", 65536, 16, 16, 1, published=10, wanted=8),
    Row("f32", "NN", 65536, 96, 96, 1, published=67, wanted=65),
    Row("f32", "NN", 65536, 96, 96, 8, published=20, wanted=18),
    Row("f32", "NN", 20480, 96, 20480, 1, published=95, wanted=93),
    Row("f32", "NN", 20480, 96, 20480, 8, published=57, wanted=55),
    Row("f32", "NN", 4096, 4096, 4096, 1, wanted=90),
    Row("f32", "NN", 4096, 4096, 4096, 8, wanted=85),
    Row("f32", "NT", 4096, 4096, 4096, 8),
    Row("f32", "NN", 13824, 192, 4096, 8),
    Row("f64", "TN", 2048, 2048, 2048, 8),
    Row("f64", "TT", 2048, 2048, 2048, 8),
    Row("f64", "NN", 4096, 4096, 4096, 24, machine="mt3000"),
    Row("f64", "NN", 2048, 2048, 2048, 1, machine="mt3000"),
    Row("f32", "NN", 2048, 2048, 2048, 2, machine="m7002"),
    Row("f32", "NT", 2048, 2048, 2048, 2, machine="m7002"),
)


@dataclass(frozen=True)
class Result:
    """Modelled cost of a row; shares in percent."""

    row: Row
    of_peak: float
    of_roofline: float
    milliseconds: float
    ddr_bytes: int
    least_bytes: int
    compile_seconds: float


def trace(row: Row) -> str:
    """Build the trace of ``a @ b``; a transposed operand is a view of a transposed parameter."""
    shapes = {"a": (row.m, row.k), "b": (row.k, row.n)}
    transposed = [name for name, letter in zip("ab", row.layout, strict=True) if letter == "T"]
    # Parameters are numbered in the order of first use: those under views come first.
    order = [*transposed, *(name for name in "ab" if name not in transposed)]
    names = {name: f"%{number}" for number, name in enumerate(order)}
    lines = ["trace"]
    for name in order:
        first, second = shapes[name][::-1] if name in transposed else shapes[name]
        lines.append(f"  {names[name]} = param {row.dtype}[{first},{second}]")
    for number, name in enumerate(transposed, start=2):
        rows, columns = shapes[name]
        geometry = f"sizes=[{rows},{columns}], strides=[1,{rows}], offset=0"
        lines.append(
            f"  %{number} = ftm.view(base={names[name]}, {geometry}) : "
            f"{row.dtype}[{rows},{columns}]"
        )
        names[name] = f"%{number}"
    last = 2 + len(transposed)
    lines.append(
        f"  %{last} = aten::mm(self={names['a']}, mat2={names['b']}) : {row.dtype}[{row.m},{row.n}]"
    )
    return "\n".join([*lines, f"  return %{last}"]) + "\n"


def least_bytes(row: Row) -> int:
    """Return the bytes of one read of each operand and one write of the result."""
    return ELEMENT_BYTES[row.dtype] * (row.m * row.n + row.n * row.k + row.m * row.k)


def roofline_seconds(row: Row) -> float:
    """Return the larger of the operations' time at peak and the minimal traffic's time."""
    machine = presets.load(row.machine)
    bandwidth = min(machine.ddr_bandwidth, row.cores * machine.core_bandwidth)
    return max(
        2 * row.m * row.n * row.k / machine.peak_flops(row.dtype, row.cores),
        least_bytes(row) / bandwidth,
    )


def measure(row: Row) -> Result:
    """Compile and model one row."""
    start = time.perf_counter()
    text = driver.run_from(
        "trace", trace(row), "asm", CompileOptions(machine=row.machine, cores=row.cores)
    )
    seconds = time.perf_counter() - start
    profile = cycle_model.model(text, machine=row.machine, cores=row.cores)
    return Result(
        row,
        100 * profile.utilisation,
        100 * roofline_seconds(row) / profile.seconds,
        profile.seconds * 1e3,
        profile.dma_bytes,
        least_bytes(row),
        seconds,
    )


def random_rows(count: int, seed: int) -> list[Row]:
    """Draw matmuls: log-uniform sizes from 1 to 8192, all layouts, f32 and f64, 1 and 8 cores."""
    rng = random.Random(seed)
    return [
        Row(
            rng.choice(("f32", "f64")),
            rng.choice("NT") + rng.choice("NT"),
            *(round(2 ** rng.uniform(0, 13)) for _ in range(3)),
            rng.choice((1, 8)),
        )
        for _ in range(count)
    ]


def table(results: Sequence[Result]) -> str:
    """Format the results as a table."""
    lines = [
        "modelled; percent",
        f"{'product':44} {'published':>9} {'of peak':>8} {'of roofline':>11} {'bytes/least':>11}"
        f" {'ms':>10}",
    ]
    for r in results:
        published = f"{r.row.published:9.1f}" if r.row.published is not None else f"{'-':>9}"
        lines.append(
            f"{r.row.name:44} {published} {r.of_peak:8.1f} {r.of_roofline:11.1f}"
            f" {r.ddr_bytes / r.least_bytes:11.2f} {r.milliseconds:10.3f}"
        )
    return "\n".join(lines)


def summary(results: Sequence[Result]) -> dict[str, float]:
    """Return median and 10th percentile of the roofline's share; short matmuls separately."""
    long = [
        r.of_roofline
        for r in results
        if roofline_seconds(r.row) * presets.load(r.row.machine).clock_hz >= SHORT
    ]
    short = [
        r.of_roofline
        for r in results
        if roofline_seconds(r.row) * presets.load(r.row.machine).clock_hz < SHORT
    ]
    found = {
        "products": len(long),
        "median": statistics.median(long),
        "tenth": statistics.quantiles(long, n=10)[0],
    }
    return found | {
        "short products": len(short),
        "median of short": statistics.median(short) if short else float("nan"),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit status is 1 if a row does not reach its goal."""
    p = argparse.ArgumentParser(
        description="Modelled cost of compiled products on FT-Matrix machines."
    )
    p.add_argument("--json", type=Path, metavar="FILE", help="write the results")
    p.add_argument("--only", default="", metavar="WORD", help="rows whose name has this word")
    p.add_argument("--random", type=int, default=0, metavar="N", help="random products, too")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument(
        "--convolutions",
        type=int,
        nargs="*",
        metavar="SIDE",
        help="of ResNet-18 on images of these sides (224 and 32)",
    )
    given = p.parse_args(arguments)
    results = [measure(row) for row in ROWS if given.only in row.name]
    print(table(results))
    found = {}
    if given.random:
        drawn = [measure(row) for row in random_rows(given.random, given.seed)]
        found = summary(drawn)
        print(
            "random products, percent of roofline: "
            + ", ".join(f"{key} {value:.4g}" for key, value in found.items())
        )
    windows = []
    if given.convolutions is not None:
        windows = [
            target_convolutions.measure(row)
            for row in target_convolutions.convolutions(tuple(given.convolutions) or (224, 32))
        ]
        print(target_convolutions.table(windows))
        for direction in target_convolutions.DIRECTIONS:
            shares = [r.of_roofline for r in windows if r.row.direction == direction]
            print(f"{direction}: median {statistics.median(shares):.1f}%")
    if given.json:
        given.json.write_text(
            json.dumps(
                {
                    "modelled": True,
                    "rows": [asdict(r) for r in results],
                    "random": found,
                    "convolutions": [asdict(r) for r in windows],
                },
                indent=1,
            )
            + "\n"
        )
    short = [r for r in results if r.row.wanted is not None and r.of_peak < r.row.wanted]
    for r in short:
        print(
            f"falls short: {r.row.name} reaches {r.of_peak:.1f}%, wanted {r.row.wanted:.1f}%",
            file=sys.stderr,
        )
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
