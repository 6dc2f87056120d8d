"""The example session of torch_xla.md: runs its commands in a temporary directory."""

from __future__ import annotations

import difflib
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

__all__ = ["torch_xla_session"]

PROGRAM = '''\
"""Learns which points of a plane are near its origin."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


def points(count):
    x = 2 * torch.rand(count, 2, generator=torch.Generator().manual_seed(0)) - 1
    return TensorDataset(x, (x.norm(dim=1) < 0.8).long())


torch.manual_seed(0)
device = xm.xla_device()
print("training on", torch_xla.real_devices())
model = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
loader = pl.MpDeviceLoader(DataLoader(points(640), batch_size=64), device)
for epoch in range(4):
    for x, y in loader:
        with torch_xla.step():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            xm.optimizer_step(optimizer)
    xm.add_step_closure(
        lambda epoch, loss: print(f"epoch {epoch}: loss {loss.item():.2f}"), args=(epoch, loss)
    )
    xm.mark_step()
xm.save(model.state_dict(), "points.pt")
'''

BY_HAND = {"import ftm_lazy.torch_xla as torch_xla\n": "", "torch_xla.real_devices()": "device"}
"""What is edited in the end: what ftm migrate has reported."""

COMMANDS = {
    "python": [sys.executable, "-W", "ignore::DeprecationWarning"],
    "ftm": [sys.executable, "-m", "ftm_lazy"],
}


def _shown(line: str, directory: Path) -> str:
    name, *arguments = line.split()
    done = subprocess.run(
        [*COMMANDS[name], *arguments], cwd=directory, capture_output=True, text=True, timeout=600
    )
    if "Traceback" in done.stderr:
        raise RuntimeError(f"{line}: {done.stderr}")
    return f"$ {line}\n{done.stdout}{done.stderr}"


def _console(directory: Path, *lines: str) -> str:
    return "```console\n" + "".join(_shown(line, directory) for line in lines) + "```\n"


def _losses(console: str) -> list[str]:
    return [line for line in console.splitlines() if line.startswith("epoch ")]


@cache
def torch_xla_session() -> str:
    """The session as Markdown."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        program = directory / "points.py"
        program.write_text(PROGRAM)
        unchanged = _console(directory, "python -m ftm_lazy.torch_xla points.py")
        migrated = _console(
            directory,
            "ftm migrate points.py",
            "ftm migrate --write points.py",
            "ftm migrate --check points.py",
        )
        before = program.read_text()
        after = before
        for old, new in BY_HAND.items():
            after = after.replace(old, new)
        program.write_text(after)
        edit = "".join(
            difflib.unified_diff(
                before.splitlines(True), after.splitlines(True), "a/points.py", "b/points.py", n=1
            )
        )
        finished = _console(directory, "python points.py")
    if _losses(unchanged) != _losses(finished):
        raise RuntimeError(f"the losses of the session differ:\n{unchanged}{finished}")
    return (
        f"```python\n{PROGRAM}```\n\nIt runs as it is:\n\n{unchanged}\n"
        f"`ftm migrate` shows what it would change, then changes it:\n\n{migrated}\n"
        f"It reported what is left to do:\n\n```diff\n{edit}```\n\n"
        f"Then the program is plain PyTorch, with the same losses:\n\n{finished}"
    )
