"""docs/troubleshooting.md has a section for each warning, and its titles are texts of messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "troubleshooting.md").read_text()
TITLES = re.findall(r"^### (.*)$", TEXT.partition("\n## Slow\n")[0], re.MULTILINE)
PYTHON = [
    path
    for folder in ("ftm_lazy", "backend/ftm_backend")
    for path in (ROOT / folder).rglob("*.py")
    if "torch_xla" not in path.parts
]
OURS = ("capture", "compile", "dispatch", "execute", "program", "torch")
"""Folders of csrc/ whose warnings are ftm's own; the others repeat those of eager PyTorch."""
CPP = [path for folder in OURS for path in (ROOT / "csrc" / folder).rglob("*.cpp")]
WARNS = {"warn", "warn_user", "_warn_once"}
SHORTEST = 20
"""Characters of a message: a shorter one consists of parts that other code has written."""


def literal(node: ast.AST) -> str:
    """The text of a string, with "..." for what is computed."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(part) or "..." for part in node.values)
    return ""


def python_warnings() -> Iterator[str]:
    for path in PYTHON:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if name in WARNS:
                    yield max(map(literal, node.args), key=len, default="")


def cpp_warnings() -> Iterator[str]:
    for path in CPP:
        for call in re.findall(r"TORCH_WARN(?:_ONCE)?\((.*?)\);", path.read_text(), re.DOTALL):
            yield "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', call))


def is_in(title: str, message: str) -> bool:
    return all(part in message for part in title.split(" ... "))


def test_each_warning_has_a_section() -> None:
    found = [*python_warnings(), *cpp_warnings()]
    messages = [message for message in found if len(message.replace("...", "")) >= SHORTEST]
    assert len(messages) > 15
    missing = [m for m in messages if not any(is_in(title, m) for title in TITLES)]
    assert missing == []


@pytest.mark.parametrize("title", TITLES)
def test_each_title_is_part_of_a_message(title: str) -> None:
    """Strings of several lines count as one."""
    sources = [*PYTHON, ROOT / "setup.py", ROOT / "ftm_autoload.py"]
    for folder in ("csrc", "backend/ftm_backend/machine/src"):
        sources += [path for kind in ("*.cpp", "*.h") for path in (ROOT / folder).rglob(kind)]
    joined = "".join(re.sub(r'"\s*\n\s*f?"', "", path.read_text()) for path in sources)
    assert all(part in joined for part in title.rstrip(":").split(" ... ")), title
