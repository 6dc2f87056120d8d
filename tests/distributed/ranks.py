"""Runs a program in several processes, as torchrun does, but as forks of one that imported PyTorch.

The server of these forks has also imported Dynamo, which optimizers import. So a rank starts in
tens of milliseconds instead of seconds. The code of docs/distributed.md runs by torchrun itself.
"""

from __future__ import annotations

import select
from pathlib import Path

import torch.distributed

from python_process import Program


def start_ranks(
    program: Path, *arguments: str, ranks: int, folder: Path, **environment: str
) -> list[Program]:
    """Start a file in `ranks` processes.

    Args:
        program: The file.
        arguments: `sys.argv[1:]` of each process.
        ranks: Their number.
        folder: Their working directory.
        environment: Variables of all of them. Needs MASTER_ADDR and MASTER_PORT.

    Returns:
        The processes, by rank.
    """
    # A process has as many devices as there are processes.
    at_import = {
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": str(ranks),
        "OMP_NUM_THREADS": "1",
        **{name: value for name, value in environment.items() if name.startswith("TORCH_")},
    }
    shared = {"WORLD_SIZE": str(ranks), **environment}
    return [
        Program(
            program,
            arguments,
            library="torch._dynamo",
            environment={**shared, "RANK": rank, "LOCAL_RANK": rank},
            folder=folder,
            at_import=at_import,
        )
        for rank in map(str, range(ranks))
    ]


def run_ranks(
    program: Path,
    *arguments: str,
    ranks: int,
    folder: Path,
    timeout: float = 300,
    **environment: str,
) -> str:
    """Run a file in `ranks` processes, and return what they print, by rank.

    If one fails, or none ends within `timeout` seconds, the others are killed.

    Raises:
        AssertionError: One ended with another status than 0. The message is all output.
    """
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    shared = {
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RUN_ID": "tests",
        **environment,
    }
    programs = start_ranks(program, *arguments, ranks=ranks, folder=folder, **shared)
    running, done = list(programs), {}
    while running:
        ended = select.select(running, [], [], timeout)[0]
        for one in ended:
            running.remove(one)
            done[one] = one.wait()
        if not ended or any(result.returncode for result in done.values()):
            for one in running:
                one.kill()
    results = [done[one] for one in programs]
    shown = "".join(result.stdout for result in results)
    assert all(result.returncode == 0 for result in results), shown + "".join(
        result.stderr for result in results
    )
    return shown
