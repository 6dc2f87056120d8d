"""What is checked is checked under ``python -O`` as well: ``assert`` tells the type checker what
holds, and refuses nothing."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from layers import dependencies

SOURCES = sorted(
    path
    for folder in ("ftm_lazy", "backend/ftm_backend")
    for path in (dependencies.ROOT / folder).rglob("*.py")
)


def narrows(test: ast.expr) -> bool:
    """Whether a condition is about types alone: ``is not None``, ``isinstance``, and such
    together."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return all(narrows(part) for part in test.values)
    if isinstance(test, ast.Compare):
        return isinstance(test.ops[0], ast.IsNot)
    return (
        isinstance(test, ast.Call)
        and isinstance(test.func, ast.Name)
        and test.func.id == "isinstance"
    )


def test_asserts_only_narrow_types() -> None:
    wrong = [
        f"{path.relative_to(dependencies.ROOT)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assert) and not narrows(node.test)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("x is not None", True),
        ("isinstance(x, int) and y is not None", True),
        ("x > 0", False),
        ("not x", False),
        ("x is not None or y", False),
    ],
)
def test_conditions_are_told_apart(text: str, right: bool) -> None:
    assert narrows(ast.parse(text, mode="eval").body) == right


TRAINING = """
import torch, ftm_lazy
assert False, "not under -O"
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 3)).to("ftm")
x, y = torch.randn(32, 8).to("ftm"), torch.arange(32).to("ftm") % 3
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
print(loss.item() < 2)
try:
    torch.embedding(model[0].weight, torch.tensor([99]).to("ftm"))
except IndexError:
    print("refused")
"""


def test_training_without_asserts() -> None:
    done = subprocess.run(
        [sys.executable, "-O", "-c", TRAINING], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.split() == ["True", "refused"], done.stderr
