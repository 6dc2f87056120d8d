"""One worker: reads units from stdin, runs their checks, reports on the stream it is given.

    python -m opdb.worker FD

A unit is a line of JSON with `db`, `entry`, `dtype` and `checks`. On the file descriptor FD come
lines of JSON: ``{"at": ...}`` before something that may crash or hang, one record for each check,
``{"end": true}`` after a unit. What the entries print goes to stderr.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from typing import Any

import torch

from ftm_lazy import metrics
from opdb import databases
from opdb.engine import Verdict, run_check

__all__ = ["main", "run_unit_check"]


def run_unit_check(
    db: str, name: str, dtype: str, check: str, tell: Any = lambda at: None
) -> dict[str, Any]:
    """Runs one check of one entry and returns its record."""
    database = databases.DATABASES[db]
    entry = database.entries()[name]
    kind = getattr(torch, dtype)
    start = time.monotonic()
    metrics.reset()
    try:
        verdict = run_check(
            database.cases(entry, kind, check),
            database.tolerance(entry, kind),
            values=database.determined(entry),
            tell=tell,
        )
        status = "wrong" if verdict.wrong else "right" if verdict.cases else "none"
    except Exception as error:
        # of the entry's samples or of the harness: it must not pass for right
        at = traceback.extract_tb(error.__traceback__)[-1]
        verdict = Verdict(
            wrong=[f"{type(error).__name__}: {error} ({os.path.basename(at.filename)}:{at.lineno})"]
        )
        status = "wrong"
    return {
        "status": status,
        "native": verdict.native,
        "cases": verdict.cases,
        "refused": verdict.refused,
        "closeness": dict(verdict.closeness),
        "fallbacks": dict(sorted(verdict.fallbacks.items())),
        "compile_failures": verdict.compile_failures,
        "uncompiled": verdict.uncompiled[:3],
        "wrong": len(verdict.wrong),
        "detail": verdict.wrong[:4],
        "seconds": round(time.monotonic() - start, 3),
    }


def main() -> int:
    """Runs units until stdin ends."""
    warnings.simplefilter("ignore")
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    torch.set_num_threads(1)
    reports = os.fdopen(int(sys.argv[1]), "w", buffering=1)

    def send(record: dict[str, Any]) -> None:
        reports.write(json.dumps(record) + "\n")

    send({"end": True})
    for line in sys.stdin:
        unit = json.loads(line)
        for check in unit["checks"]:
            send({"at": "start", "check": check})
            tell = lambda at, check=check: send({"at": at, "check": check})
            record = run_unit_check(unit["db"], unit["entry"], unit["dtype"], check, tell)
            send({"check": check, **record})
        send({"end": True, "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024})
    return 0


if __name__ == "__main__":
    sys.exit(main())
