"""The code on the pages for users runs, and prints what the page shows.

A page's ``python`` blocks are one program. A ``text`` block after one is its output, in which any
number may stand for a number: losses differ between computers.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    *sorted((DOCS / "tutorials").glob("*.md")),
    *(
        DOCS / f"{name}.md"
        for name in ("start", "performance", "profiling", "troubleshooting", "faq", "notebooks")
    ),
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?\d+(\.\d+)?")
MARK = "--- the next block ---"


def program_and_outputs(text: str) -> tuple[str, list[str]]:
    """The page's program, which prints MARK before each block, and each block's output."""
    program, outputs = "", []
    for language, content in BLOCK.findall(text):
        if language == "python":
            program += f"print({MARK!r})\n{content}"
            outputs.append("")
        elif language == "text" and outputs and not outputs[-1]:
            outputs[-1] = content
    return program, outputs


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.exists()], ids=lambda page: page.stem
)
def test_code_runs_and_prints_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    program, expected = program_and_outputs(page.read_text())
    if not program:
        pytest.skip("no code")
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr
    assert "UserWarning" not in done.stderr, done.stderr
    found = done.stdout.split(f"{MARK}\n")[1:]
    for shown, printed in zip(expected, found, strict=True):
        if shown:
            assert NUMBER.sub("N", printed).rstrip() == NUMBER.sub("N", shown).rstrip()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pages_say_what_the_reader_will_be_able_to_do(page: Path) -> None:
    if page.name == "index.md" or not page.exists():
        pytest.skip("a list of pages")
    first = page.read_text().split("\n\n")[1]
    assert first.startswith("After this "), first
