"""Runs the campaigns: ``python tests/strangers/run.py [NAME ...] [--scale 0.1] [--jobs 2]``.

A campaign is another script of this folder (see ``campaign.py``). Each runs in processes of its
own, some of its cases in each; a table of counts ends the run, and the exit status is 1 if a case
failed. With ``--resume`` a run goes on where the last one was stopped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from campaign import FOUND

HERE = Path(__file__).resolve().parent
CASES: dict[str, int] = {
    "tools": 5000, "expressions": 1000, "networks": 4000, "chains": 6000, "draws": 2000,
    "functions": 9000, "sparse_arithmetic": 6000, "linear_systems": 1000, "outputs": 4000,
    "strides": 10000,
}  # fmt: skip
"""Each campaign, and how many cases make it whole."""

PROGRESS = FOUND / "progress.json"
SHARE, LEAST = 0.02, 20
"""Cases for a process: a share of the campaign's, at least 20. A stopped run loses those of one."""


@dataclass
class Counts:
    """What a campaign has tried so far. The seeds are 1, 2, ..."""

    cases: int = 0
    failures: int = 0
    seconds: float = 0.0

    def try_next(self, name: str, count: int) -> None:
        """Try `count` more cases; a process that dies is a failure."""
        done = subprocess.run(
            [sys.executable, HERE / f"{name}.py", f"--seed={self.cases + 1}", f"--count={count}"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            outcome = json.loads(done.stdout.strip().splitlines()[-1])
        except (IndexError, ValueError):
            print(f"{name}: a process ended with {done.returncode}", file=sys.stderr, flush=True)
            outcome = {"failures": 1, "seconds": 0.0}
        self.cases += count
        self.failures += outcome["failures"]
        self.seconds += outcome["seconds"]


class Run:
    """Counts of all campaigns, in memory and in `PROGRESS`."""

    def __init__(self, names: list[str], scale: float, resume: bool) -> None:
        saved = json.loads(PROGRESS.read_text()) if resume and PROGRESS.exists() else {}
        self.counts = {name: Counts(**saved.get(name, {})) for name in CASES}
        self.totals = {name: max(1, round(CASES[name] * scale)) for name in names}
        self._lock = threading.Lock()

    def finish(self, name: str) -> None:
        """Try the cases of a campaign that are left."""
        counts, total = self.counts[name], self.totals[name]
        while counts.cases < total:
            counts.try_next(name, min(max(LEAST, round(SHARE * total)), total - counts.cases))
            self._save()

    def _save(self) -> None:
        with self._lock:
            FOUND.mkdir(parents=True, exist_ok=True)
            new = PROGRESS.with_suffix(".new")
            new.write_text(json.dumps({name: asdict(c) for name, c in self.counts.items()}))
            new.replace(PROGRESS)

    def table(self) -> str:
        """The counts, a row for each campaign."""
        rows = [f"{'campaign':18} {'cases':>12} {'failures':>9} {'seconds':>8}"]
        for name, total in self.totals.items():
            counts = self.counts[name]
            cases = f"{counts.cases}/{total}"
            rows.append(f"{name:18} {cases:>12} {counts.failures:>9} {counts.seconds:>8.0f}")
        return "\n".join(rows)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"campaigns (default: all of {', '.join(CASES)})")
    parser.add_argument("--scale", type=float, default=1.0, help="share of each campaign's cases")
    parser.add_argument("--jobs", type=int, default=2, help="campaigns at once")
    parser.add_argument("--resume", action="store_true", help=f"go on from {PROGRESS.name}")
    given = parser.parse_args()
    unknown = set(given.names) - set(CASES)
    if unknown:
        parser.error(f"no campaign {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    run = Run(given.names or list(CASES), given.scale, given.resume)
    with ThreadPoolExecutor(given.jobs) as pool:
        list(pool.map(run.finish, run.totals))
    print(run.table())
    sys.exit(any(run.counts[name].failures for name in run.totals))


if __name__ == "__main__":
    main()
