"""Runs PyTorch's databases on ftm against the CPU.

    python tests/opdb/run.py                       # everything: some hours of one core
    python tests/opdb/run.py --ops 'cumsum|.*sort' --dtypes float32 --checks forward,backward

Every outcome is appended to the results file; what has run on the same sources is not run again
(`--fresh` runs it again). The exit code is 1 if anything is wrong, crashes or hangs and is not a
known gap.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

# the package is `opdb`; its files are not modules of their own
sys.path[0] = str(Path(__file__).parents[1])

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from opdb import report, support
from opdb.databases import DATABASES, Unit
from opdb.op_checks import DTYPES
from opdb.schedule import ROOT, Results, Schedule, sources


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="\n".join(__doc__.splitlines()[2:]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    names = lambda text: tuple(text.split(","))
    parser.add_argument(
        "--db", type=names, default=tuple(DATABASES), help=f"of {','.join(DATABASES)}; default: all"
    )
    parser.add_argument(
        "--ops", metavar="REGEX", default=".*", help="entries whose whole name matches"
    )
    parser.add_argument(
        "--dtypes", type=names, help="such as float32,int64; default: all that the CPU supports"
    )
    parser.add_argument("--checks", type=names, help="such as forward,backward; default: all")
    parser.add_argument(
        "--jobs", type=int, default=2, help="worker processes (default: %(default)s)"
    )
    parser.add_argument(
        "--timeout", type=float, default=120, help="seconds without progress that count as a hang"
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=ROOT / "build" / "opdb.jsonl",
        help="default: build/opdb.jsonl",
    )
    parser.add_argument(
        "--fresh", action="store_true", help="run again what has run on these sources"
    )
    parser.add_argument(
        "--publish",
        action="store_true",
        help="write a full run of the databases into tests/opdb/support.json",
    )
    parser.add_argument(
        "--details", action="store_true", help="also print all fallbacks and failed compilations"
    )
    return parser.parse_args()


def selected(options: argparse.Namespace) -> list[Unit]:
    """Return the selected units: first the primary ones of all entries, then dtype by dtype."""
    found: list[tuple[int, Unit]] = []
    pattern = re.compile(options.ops)
    order = [str(dtype).removeprefix("torch.") for dtype in DTYPES]
    for name in options.db:
        seen: set[str] = set()
        for unit in DATABASES[name].units(name):
            rank = order.index(unit.dtype) if unit.entry in seen else -1
            seen.add(unit.entry)
            if not pattern.fullmatch(unit.entry) or (
                options.dtypes and unit.dtype not in options.dtypes
            ):
                continue
            checks = tuple(
                check for check in unit.checks if not options.checks or check in options.checks
            )
            if checks:
                found.append((rank, replace(unit, checks=checks)))
    return [unit for _, unit in sorted(found, key=lambda pair: pair[0])]


def publish(databases: tuple[str, ...], records: list[dict[str, Any]]) -> None:
    """Writes the committed summary: what docs/ops.md shows and the subset in `make test` holds the
    device to. Other databases' entries stay as they are."""
    names = [(db, name) for db in databases for name in DATABASES[db].entries()]
    entries = [
        entry for entry in support.load() if entry["db"] not in databases
    ] + support.condense(names, records)
    support.save(sorted(entries, key=lambda entry: list(DATABASES).index(entry["db"])))


def run(units: list[Unit], results: Results, options: argparse.Namespace, console: Console) -> None:
    """Runs `units` with a progress bar and live counts."""
    counts: Counter[str] = Counter()
    lock = threading.Lock()
    columns = (
        BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("{task.description}"),
    )  # fmt: skip
    with Progress(*columns, console=console, refresh_per_second=4) as progress:
        task = progress.add_task("", total=sum(len(unit.checks) for unit in units))

        def told(unit: Unit, check: str, record: dict[str, Any]) -> None:
            with lock:
                counts[record["status"]] += 1
                counts["native"] += record["native"]
                shown = "  ".join(
                    f"{name} {counts[name]}"
                    for name in ("right", "native", "wrong", "crash", "hang")
                )
                progress.update(task, advance=1, description=f"{shown}  {unit.entry} {unit.dtype}")
                if record["status"] in ("wrong", "crash", "hang"):
                    report.say(progress.console, report.line(unit, check, record), "red")

        Schedule(units, results, options.jobs, options.timeout, told=told).run()


def _interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Run the selected checks; return the exit code."""
    signal.signal(signal.SIGINT, _interrupted)  # also where a shell starts it in the background
    signal.signal(signal.SIGTERM, _interrupted)
    options = arguments()
    partial = options.ops != ".*" or options.dtypes or options.checks
    if options.publish and partial:
        sys.exit("--publish takes a full run: no --ops, --dtypes, --checks")
    console = Console()
    results = Results(options.results, sources())
    asked = selected(options)
    units = asked if options.fresh else [unit for unit in map(results.rest, asked) if unit.checks]
    if len(units) < len(asked):
        console.print(
            f"{len(asked) - len(units)} of {len(asked)} units have run on these sources already"
        )
    try:
        run(units, results, options, console)
    except KeyboardInterrupt:
        console.print("interrupted; the same command resumes")
        return 130
    records = [
        results.records[unit.db, unit.entry, unit.dtype, check]
        for unit in asked
        for check in unit.checks
    ]
    report.summarize(records, console, options.details)
    if options.publish:
        publish(options.db, records)
    return 1 if report.unexpected(records) else 0


if __name__ == "__main__":
    sys.exit(main())
