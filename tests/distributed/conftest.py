"""A fixture that runs a program in several processes, as torchrun does."""

from __future__ import annotations

import select
from collections.abc import Callable
from pathlib import Path

import pytest
import torch.distributed

from python_process import Program


@pytest.fixture
def torchrun(tmp_path: Path) -> Callable[..., str]:
    """Runs a program's text, or a file, in `ranks` processes, and gives what they print.

    They are forks of a process that has imported PyTorch, and Dynamo, which optimizers import. The
    code of docs/distributed.md runs by torchrun itself.
    """

    def call(program: str | Path, *arguments: str, ranks: int = 2, **environment: str) -> str:
        file = program
        if isinstance(program, str):
            file = tmp_path / "program.py"
            file.write_text(program)
        store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        shared = {
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": str(store.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RUN_ID": "tests",
            "WORLD_SIZE": str(ranks),
            **environment,
        }
        # A process has as many devices as there are processes.
        at_import = {
            "LOCAL_RANK": "0",
            "LOCAL_WORLD_SIZE": str(ranks),
            "OMP_NUM_THREADS": "1",
            **{name: value for name, value in environment.items() if name.startswith("TORCH_")},
        }
        programs = [
            Program(
                file,
                arguments,
                library="torch._dynamo",
                environment={**shared, "RANK": rank, "LOCAL_RANK": rank},
                folder=tmp_path,
                at_import=at_import,
            )
            for rank in map(str, range(ranks))
        ]
        return _outputs(programs, timeout=300)

    return call


def _outputs(programs: list[Program], timeout: float) -> str:
    """What programs print, if all end with status 0. Where one fails, the others are killed."""
    running, done = list(programs), {}
    while running:
        ended = select.select(running, [], [], timeout)[0]
        for program in ended:
            running.remove(program)
            done[program] = program.wait()
        if not ended or any(result.returncode for result in done.values()):
            for program in running:
                program.kill()
    results = [done[program] for program in programs]
    shown = "".join(result.stdout for result in results)
    assert all(result.returncode == 0 for result in results), shown + "".join(
        result.stderr for result in results
    )
    return shown
