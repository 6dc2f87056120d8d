"""Runs the campaigns: ``python tests/strangers/run.py [NAME ...] [--scale 0.1] [--jobs 2]``.

A campaign is another script of this folder (see ``campaign.py``). Each runs in a process of its
own; a table of counts ends the run, and the exit status is 1 if a case failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
CASES: dict[str, int] = {
    "tools": 5000, "expressions": 1000, "networks": 4000, "chains": 6000, "draws": 2000,
    "functions": 9000, "sparse_arithmetic": 6000, "linear_systems": 1000, "outputs": 4000,
    "strides": 10000,
}  # fmt: skip
"""Each campaign, and how many cases make it whole."""


def run(name: str, count: int) -> dict[str, object]:
    """One campaign's outcome: its name, cases, failures and seconds; a process that dies is a
    failure."""
    done = subprocess.run(
        [sys.executable, str(HERE / f"{name}.py"), "--count", str(count)],
        stdout=subprocess.PIPE,
        text=True,
    )
    lines = done.stdout.strip().splitlines()
    try:
        return json.loads(lines[-1])
    except (IndexError, ValueError):
        return {
            "campaign": name,
            "cases": 0,
            "failures": f"ended with {done.returncode}",
            "seconds": 0,
        }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"campaigns (default: all of {', '.join(CASES)})")
    parser.add_argument("--scale", type=float, default=1.0, help="share of each campaign's cases")
    parser.add_argument("--jobs", type=int, default=2, help="campaigns at once")
    given = parser.parse_args()
    unknown = set(given.names) - set(CASES)
    if unknown:
        parser.error(f"no campaign {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    names = given.names or list(CASES)
    with ThreadPoolExecutor(given.jobs) as pool:
        outcomes = list(
            pool.map(lambda name: run(name, max(1, round(CASES[name] * given.scale))), names)
        )
    print(f"{'campaign':16} {'cases':>8} {'failures':>10} {'seconds':>9}")
    for outcome in outcomes:
        print(
            f"{outcome['campaign']:16} {outcome['cases']:>8} {outcome['failures']:>10} {outcome['seconds']:>9}"
        )
    sys.exit(any(outcome["failures"] for outcome in outcomes))


if __name__ == "__main__":
    main()
