"""docs/troubleshooting.md has each warning and each error of ftm's own, by its text.

An error of ftm's own is no wrong argument (ValueError, TypeError), whose message names the right
one, and no error of eager PyTorch. Those of commands have a section, by their three kinds.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "troubleshooting.md").read_text()
BY_TITLE, _, BY_TEXT = TEXT.partition("\n## Slow\n")[0].partition("\n## Errors by their text\n")
TITLES = re.findall(r"^### (.*)$", BY_TITLE, re.MULTILINE)
CELLS = re.findall(r"^\| (`.*?) \|", BY_TEXT.partition("\n### Commands\n")[0], re.MULTILINE)
FAULTS = BY_TEXT.partition("\n### Faults of ftm\n")[2].partition("\n### ")[0].partition(": `")[2]
TITLES += [
    " ".join(text.split()) for cell in (*CELLS, f"`{FAULTS}") for text in cell.split("`")[1::2]
]
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
HANDLED = {"tools", "migrate", "compile_server.py", "trusted_files.py", "forked_process_handle.py"}
"""Where errors end in another message: that of a command, of a warning, of the compiler process."""
ARGUMENTS = {
    "ValueError",
    "TypeError",
    "AttributeError",
    "AssertionError",
    "KeyError",
    "IndexError",
}
OWN = re.compile(r"\bftm\b|FTM_|\bmachine\b|\bprogram\b|\bcapture")
EAGER = {
    "Expected all tensors to be on the same device, but found at least two devices, ftm:0 and !"
}
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


def python_errors() -> Iterator[str]:
    for path in PYTHON:
        if path.is_relative_to(ROOT / "ftm_lazy") and not HANDLED & set(path.parts):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                    name = getattr(node.exc.func, "attr", getattr(node.exc.func, "id", ""))
                    if not (name in ARGUMENTS or name.startswith("_")):
                        yield max(map(literal, node.exc.args), key=len, default="")


def cpp_errors() -> Iterator[str]:
    """The messages that name ftm or its parts; eager's do not."""
    for kind in ("*.cpp", "*.h", "*.inc"):
        for path in (ROOT / "csrc").rglob(kind):
            calls = re.findall(
                r"(?:TORCH_CHECK(?!_VALUE)\w*|throw [\w:]+)\s*\((.*?)\);",
                path.read_text(),
                re.DOTALL,
            )
            for call in calls:
                message = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', call))
                if OWN.search(message):
                    yield message


def is_in(title: str, message: str) -> bool:
    return all(part in message for part in title.split(" ... "))


def test_each_warning_has_a_section() -> None:
    found = [*python_warnings(), *cpp_warnings()]
    messages = [message for message in found if len(message.replace("...", "")) >= SHORTEST]
    assert len(messages) > 15
    missing = [m for m in messages if not any(is_in(title, m) for title in TITLES)]
    assert missing == []


def test_each_error_has_a_text() -> None:
    found = {*python_errors(), *cpp_errors()} - EAGER
    messages = [message for message in found if len(message.replace("...", "")) >= SHORTEST]
    assert len(messages) > 60
    missing = [m for m in messages if not any(is_in(title, m) for title in TITLES)]
    assert sorted(missing) == []


@pytest.mark.parametrize("title", TITLES)
def test_each_title_is_part_of_a_message(title: str) -> None:
    """Strings of several lines count as one."""
    sources = [*PYTHON, ROOT / "setup.py", ROOT / "ftm_autoload.py"]
    for folder in ("csrc", "backend/ftm_backend/machine/src"):
        sources += [path for kind in ("*.cpp", "*.h") for path in (ROOT / folder).rglob(kind)]
    joined = "".join(re.sub(r'"\s*\n\s*f?"', "", path.read_text()) for path in sources)
    assert all(part in joined for part in title.rstrip(":").split(" ... ")), title
