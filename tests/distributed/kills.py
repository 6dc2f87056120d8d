"""Kills one of two training processes at a random moment; the other must end with a named error.

``python tests/distributed/kills.py --runs 200`` repeats this, and prints what went wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from distributed.ranks import start_ranks

TIMEOUT = 60.0
"""Seconds within which the process that is left must end."""
CHILDREN_TIMEOUT = 10.0
"""Seconds within which what the two have started must end, such as compilers."""

PROGRAM = """
import faulthandler, os, signal, torch, torch.distributed as dist
from datetime import timedelta
from pathlib import Path
os.setsid()  # a process group for what it starts
faulthandler.register(signal.SIGUSR1)
dist.init_process_group("ftm", timeout=timedelta(seconds=30))
x = torch.ones(4, device="ftm")
dist.all_reduce(x)
x.sum().item()
Path(f"started_{os.environ['RANK']}").touch()
while True:
    dist.all_reduce(x)
    x.mul_(0.5)
    x.sum().item()
"""


@dataclass
class Outcome:
    """How a run ended."""

    killed: int
    """The rank that was killed."""
    status: int | None
    """Exit status of the other; None if it did not end in time."""
    seconds: float
    """From the kill to the end of the other."""
    errors: str
    """What the other printed to stderr."""
    left: list[str]
    """Processes and files in shared memory that the two have left behind."""

    def fault(self) -> str:
        """Return what is wrong with it, or ""."""
        if self.status is None:
            return f"rank {1 - self.killed} still runs after {TIMEOUT:.0f} s:\n{self.errors}"
        if self.status != 1 or "all_reduce of Float[4]" not in self.errors:
            return f"rank {1 - self.killed} ended with status {self.status}:\n{self.errors[-2000:]}"
        return f"left behind: {self.left}" if self.left else ""


def _is_alive(group: int) -> bool:
    """Return whether a process group has processes."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def _threads(process: int) -> str:
    """Return the threads of a process: what each waits for, and how long it ran and was ready.

    A process that is long ready, and does not run, is not to blame: the host is overloaded.
    """
    lines = []
    for thread in Path(f"/proc/{process}/task").glob("*"):
        with contextlib.suppress(OSError):
            files = ("comm", "wchan", "schedstat")
            name, place, times = ((thread / file).read_text().strip() for file in files)
            ran, ready = (int(time) / 1e9 for time in times.split()[:2])
            lines.append(f"{name}: {place}, ran {ran:.1f} s, was ready {ready:.1f} s")
    return "\n".join(lines)


def _is_true_within(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for a condition; return whether it has become true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def kill_one(chance: random.Random) -> Outcome:
    """Start two processes, kill one after up to 2 s of training, and wait for the other."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = set(os.listdir("/dev/shm"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "program.py"
        file.write_text(PROGRAM)
        processes = start_ranks(
            file, ranks=2, folder=folder, MASTER_ADDR="127.0.0.1", MASTER_PORT=port, FTM_CORES="1"
        )
        killed = chance.randrange(2)
        left = processes[1 - killed]
        started = [folder / f"started_{rank}" for rank in range(2)]
        if not _is_true_within(lambda: all(path.exists() for path in started), TIMEOUT):
            for process in processes:
                process.kill()
            raise RuntimeError("no training:\n" + "".join(p.wait().stderr for p in processes))
        time.sleep(chance.uniform(0.0, 2.0))
        processes[killed].kill()
        begin = time.monotonic()
        ended = bool(select.select([left], [], [], TIMEOUT)[0])
        seconds = time.monotonic() - begin
        threads = ""
        if not ended:
            threads = _threads(left.process)
            with contextlib.suppress(ProcessLookupError):
                os.kill(left.process, signal.SIGUSR1)  # it prints its Python stacks
            time.sleep(2.0)
            left.kill()
        done = left.wait()
        processes[killed].wait()
    groups = [process.process for process in processes]
    _is_true_within(lambda: not any(map(_is_alive, groups)), CHILDREN_TIMEOUT)
    behind = [f"a child of process {group}" for group in groups if _is_alive(group)]
    behind += [
        f"/dev/shm/{name}"
        for name in sorted(set(os.listdir("/dev/shm")) - shared)
        if any(str(group) in name for group in groups)
    ]
    status = done.returncode if ended else None
    return Outcome(killed, status, seconds, done.stderr + threads, behind)


def main() -> None:
    """Run it many times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    faults, longest = 0, 0.0
    for run in range(options.runs):
        outcome = kill_one(chance)
        longest = max(longest, outcome.seconds)
        if fault := outcome.fault():
            faults += 1
            print(f"run {run}: {fault}", flush=True)
    print(f"{options.runs} runs, {faults} faults, at most {longest:.1f} s to the error")


if __name__ == "__main__":
    main()
