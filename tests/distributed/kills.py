"""Kills one of two training processes at a random moment; the other must end with a named error.

``python tests/distributed/kills.py --runs 200`` repeats this, and prints what went wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

TIMEOUT = 60.0
"""Seconds within which the process that is left must end."""

PROGRAM = """
import faulthandler, signal, torch, torch.distributed as dist
from datetime import timedelta
faulthandler.register(signal.SIGUSR1)
dist.init_process_group("ftm", timeout=timedelta(seconds=30))
x = torch.ones(4, device="ftm")
dist.all_reduce(x)
print("started", x.sum().item(), flush=True)
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


def kill_one(chance: random.Random) -> Outcome:
    """Start two processes, kill one after up to 2 s of training, and wait for the other."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = set(os.listdir("/dev/shm"))
    processes = []
    for rank in range(2):
        environment = {
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "OMP_NUM_THREADS": "1",
            "FTM_CORES": "1",
        }
        processes.append(
            subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", PROGRAM],
                env=os.environ | environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
    killed = chance.randrange(2)
    for process in processes:
        process.stdout.readline()
    time.sleep(chance.uniform(0.0, 2.0))
    processes[killed].send_signal(signal.SIGKILL)
    left = processes[1 - killed]
    try:
        _, errors = left.communicate(timeout=TIMEOUT)
        status = left.returncode
    except subprocess.TimeoutExpired:
        status = None
        threads = _threads(left.pid)
        with contextlib.suppress(ProcessLookupError):
            left.send_signal(signal.SIGUSR1)  # it prints its Python stacks
        time.sleep(2.0)
        left.kill()
        errors = left.communicate()[1] + threads
    processes[killed].communicate()
    behind = [f"a child of process {p.pid}" for p in processes if _is_alive(p.pid)]
    behind += [
        f"/dev/shm/{name}"
        for name in sorted(set(os.listdir("/dev/shm")) - shared)
        if any(str(p.pid) in name for p in processes)
    ]
    return Outcome(killed, status, errors, behind)


def main() -> None:
    """Run it many times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    faults = 0
    for run in range(options.runs):
        if fault := kill_one(chance).fault():
            faults += 1
            print(f"run {run}: {fault}", flush=True)
    print(f"{options.runs} runs, {faults} faults")


if __name__ == "__main__":
    main()
