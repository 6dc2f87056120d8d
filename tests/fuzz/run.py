"""Runs the fuzzer: ``python tests/fuzz/run.py --seconds 60 [--sanitizer thread] [--seed 1]
[--target images]``.

Each target runs in a process of its own: damaged images, texts and entries with the machine under
address and undefined-behaviour sanitizers (``address``) or the thread sanitizer on machines of
several cores (``thread``); random recorded programs with recorder and machine under the former
(``recorder``), and faster without (``plain``). Damaged programs may have data races, see
``races.supp``; ``programs`` are what the compiler makes, and must have none.

A case that ends the process, raises what is no proper answer, or takes too long, is kept in
``build/fuzz`` with the command that tries it again. Exit status 1 if there was one.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from sanitized import environment

HERE = Path(__file__).resolve().parent
FOUND = HERE.parents[1] / "build" / "fuzz"
PROGRAMS = FOUND / "programs"  # what the compiler made for the next process
TARGETS = {
    "address": ("images", "texts", "entries"),
    "thread": ("programs", "images", "texts"),
    "recorder": ("recordings",),
    "plain": ("recordings",),
}
_SLICE = 60.0  # seconds that one process lives
_HANGS = 60.0  # seconds for one case, of which it has computed a third: a busy machine is no hang
_STUCK = 900.0  # seconds for one case that does not compute


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used; 0 if it has ended."""
    try:
        words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def command(kind: str, target: str, *words: str) -> dict[str, Any]:
    """Arguments of a process that tries cases."""
    return {
        "args": [sys.executable, str(HERE / "worker.py"), kind, target, *words],
        "env": environment(kind, races=target != "programs"),
    }


def attempt(kind: str, target: str, seed: int, seconds: float) -> tuple[int, str]:
    """One process: how many cases it tried, and what it found, or nothing."""
    FOUND.mkdir(parents=True, exist_ok=True)
    if target == "programs":
        subprocess.run(
            [
                sys.executable,
                "-W",
                "ignore",
                str(HERE / "programs.py"),
                str(seed),
                str(seconds / 2),
                str(PROGRAMS),
            ],
            check=True,
        )
    case, log = FOUND / f"case-{target}-{os.getpid()}", FOUND / f"log-{target}-{os.getpid()}"
    with open(log, "wb") as output:
        process = subprocess.Popen(
            **command(kind, target, str(seed), str(seconds), str(case)),
            stdout=subprocess.PIPE,
            stderr=output,
        )
        hangs, since, used = False, 0.0, 0.0
        while process.poll() is None:
            time.sleep(0.2)
            begun = case.stat().st_mtime if case.exists() else time.time()
            if begun != since:
                since, used = begun, cpu_seconds(process.pid)
            seconds = time.time() - begun
            if seconds > _STUCK or (
                seconds > _HANGS and cpu_seconds(process.pid) - used > _HANGS / 3
            ):
                hangs = True
                process.kill()
                process.wait()
        counted = process.stdout.read()
    text = log.read_text(errors="replace")
    log.unlink()
    if process.returncode == 0:
        case.unlink(missing_ok=True)
        return int(counted), ""
    data = case.read_bytes() if case.exists() else b""
    kept = FOUND / f"{target}-{hashlib.blake2b(data, digest_size=6).hexdigest()}"
    kept.write_bytes(data)
    case.unlink(missing_ok=True)
    kept.with_suffix(".log").write_text(text)
    how = "takes too long" if hangs else f"status {process.returncode}"
    return (
        0,
        f"{target}: {how}: {kept}\n  again: python {HERE / 'run.py'} --sanitizer {kind} --target {target} --replay {kept}\n{text[-6000:]}",
    )


def main() -> int:
    """Command line; gives the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="for all targets together (default 60)"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: the time")
    parser.add_argument(
        "--sanitizer",
        choices=TARGETS,
        default="address",
        help="default: address, and undefined behaviour",
    )
    parser.add_argument(
        "--target",
        choices=sorted({target for targets in TARGETS.values() for target in targets}),
        action="append",
        help="default: all of the sanitizer's",
    )
    parser.add_argument("--replay", metavar="CASE", help="try one case that was kept")
    given = parser.parse_args()
    kind, targets = given.sanitizer, given.target or TARGETS[given.sanitizer]
    if given.replay:
        return subprocess.run(**command(kind, targets[0], "--replay", given.replay)).returncode
    end, seed, tried, found = (
        time.monotonic() + given.seconds,
        given.seed,
        dict.fromkeys(targets, 0),
        0,
    )
    while (rest := end - time.monotonic()) > 0.5:
        for target in targets:
            count, finding = attempt(kind, target, seed, min(_SLICE, max(0.5, rest / len(targets))))
            tried[target] += count
            if finding:
                found += 1
                print(finding, flush=True)
            seed += 1
    print(
        f"{kind}, seed {given.seed}: "
        + ", ".join(f"{count:,} {target}" for target, count in tried.items())
        + f"; {found} found"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
