"""What all campaigns share: options, the loop over cases, and the count at the end.

A campaign is a script with a function that tries one case::

    def check(random: Random) -> str | None:
        "Try one random case; return what is wrong with it, or None."

    if __name__ == "__main__":
        campaign.main("expressions", check, count=1000)

Each case has a seed of its own, so ``--seed 1234 --count 1`` tries one case again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

FOUND = Path(__file__).resolve().parents[2] / "build" / "strangers"
OUTCOME = '{"failed"'
"""How a line begins that ``--every-case`` prints."""


def main(name: str, check: Callable[[Random], str | None], count: int) -> None:
    """Try cases, and exit with 1 if one failed.

    Args:
        name: The campaign's name; failures are kept in ``build/strangers/NAME.log``.
        check: Tries the case that its random numbers describe. An exception counts as a failure.
        count: Cases to try unless the command line says otherwise.
    """
    parser = argparse.ArgumentParser(description=f"campaign {name}")
    parser.add_argument("--count", type=int, default=count, help="cases to try")
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the first case; each next case adds one"
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument(
        "--every-case", action="store_true", help="print a line for each case, for run.py"
    )
    given = parser.parse_args()
    begin, tried, failures = time.monotonic(), 0, 0
    for seed in range(given.seed, given.seed + given.count):
        start = time.monotonic()
        if start - begin > given.seconds:
            break
        tried += 1
        try:
            fault = check(Random(seed))
        except Exception:
            fault = traceback.format_exc()
        if fault is not None:
            failures += 1
            record(name, seed, fault)
        if given.every_case:
            seconds = time.monotonic() - start
            print(
                json.dumps({"failed": fault is not None, "seconds": round(seconds, 4)}), flush=True
            )
    seconds = time.monotonic() - begin
    if not given.every_case:
        counts = {"campaign": name, "cases": tried, "failures": failures}
        print(json.dumps({**counts, "seconds": round(seconds, 1)}), flush=True)
    # Threads of the device need no orderly end here, and a campaign's exit code should not depend
    # on them.
    os._exit(1 if failures else 0)


def record(name: str, seed: int, fault: str) -> None:
    """Append a failure to the campaign's log, and print its last line."""
    FOUND.mkdir(parents=True, exist_ok=True)
    with open(FOUND / f"{name}.log", "a") as log:
        log.write(f"--seed {seed} --count 1\n{fault}\n\n")
    print(f"{name}: seed {seed}: {fault.strip().splitlines()[-1]}", file=sys.stderr, flush=True)
