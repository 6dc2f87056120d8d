"""Runs the campaigns: ``python tests/strangers/run.py [NAME ...] [--scale 0.1] [--jobs 2]``.

A campaign is another script of this folder (see ``campaign.py``). Each runs in one process, so that
imports and tables of samples cost once. If the process dies, the case that it was at counts as a
failure, and a new process continues after it. A table of counts ends the run, and the exit status
is 1 if a case failed. With ``--resume`` a run continues where the last one was stopped.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from campaign import FOUND, OUTCOME, record

HERE = Path(__file__).resolve().parent
CASES: dict[str, int] = {
    "tools": 5000, "expressions": 1000, "networks": 4000, "chains": 6000, "draws": 2000,
    "functions": 9000, "sparse_arithmetic": 6000, "linear_systems": 1000, "outputs": 4000,
    "strides": 10000, "sizes": 3000,
}  # fmt: skip
"""Each campaign, and how many cases make it whole."""

PROGRESS = FOUND / "progress.json"
SAVE_SECONDS = 2.0
"""A stopped run tries the cases of its last seconds again."""


@dataclass
class Counts:
    """What a campaign has tried so far. The seeds are 1, 2, ..."""

    cases: int = 0
    failures: int = 0
    seconds: float = 0.0

    def add(self, failed: bool, seconds: float = 0.0) -> None:
        """Count one more case."""
        self.cases += 1
        self.failures += failed
        self.seconds += seconds


class Run:
    """Counts of all campaigns, in memory and in `PROGRESS`."""

    def __init__(self, names: list[str], scale: float, resume: bool) -> None:
        saved = json.loads(PROGRESS.read_text()) if resume and PROGRESS.exists() else {}
        self.counts = {name: Counts(**saved.get(name, {})) for name in CASES}
        self.totals = {name: max(1, round(CASES[name] * scale)) for name in names}
        self._lock = threading.Lock()
        self._saved = 0.0

    def finish(self, name: str) -> None:
        """Try the cases of a campaign that are left.

        Raises:
            RuntimeError: The campaign's processes end at once.
        """
        counts, total = self.counts[name], self.totals[name]
        ended_at = -1
        while counts.cases < total:
            status = self._try_rest(name)
            if counts.cases == ended_at:
                raise RuntimeError(f"{name} ends at once, with status {status}")
            if counts.cases < total:
                counts.add(failed=True)
                record(name, counts.cases, f"the process ended with {status}")
            ended_at = counts.cases
            self._save()

    def _try_rest(self, name: str) -> int:
        """Try cases in a new process until it ends; return its exit status."""
        counts = self.counts[name]
        first, left = counts.cases + 1, self.totals[name] - counts.cases
        command = [sys.executable, HERE / f"{name}.py", f"--seed={first}", f"--count={left}"]
        with subprocess.Popen([*command, "--every-case"], stdout=subprocess.PIPE, text=True) as run:
            assert run.stdout is not None
            for line in run.stdout:
                if line.startswith(OUTCOME):
                    counts.add(**json.loads(line))
                    self._save(at_least=SAVE_SECONDS)
        return run.returncode

    def _save(self, at_least: float = 0.0) -> None:
        """Write `PROGRESS`, unless it was written in the last `at_least` seconds."""
        with self._lock:
            if time.monotonic() - self._saved < at_least:
                return
            FOUND.mkdir(parents=True, exist_ok=True)
            new = PROGRESS.with_suffix(".new")
            new.write_text(json.dumps({name: asdict(c) for name, c in self.counts.items()}))
            new.replace(PROGRESS)
            self._saved = time.monotonic()

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
