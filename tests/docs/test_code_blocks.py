"""The code on all pages runs, and prints what the page shows.

In an output any number may stand for a number: losses differ between computers.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from docs.page_blocks import MARK, ROOT, Page
from python_process import Program

DOCS = ROOT / "docs"
RUN_ELSEWHERE = {"shapes": "tests/docs/test_shapes.py counts the programs of each example"}
MEASURES = {"profiling"}
"""Pages whose code compares measured times."""
PAGES = [Page.read(path) for path in sorted(DOCS.rglob("*.md")) if path.parent.name != "_build"]
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]\d+)?")


def name_of(page: Page) -> str:
    return str(page.path.relative_to(DOCS))


def unoptimizing_compiler(folder: Path) -> Path:
    """Make a C++ compiler that builds the emulator, which a page may do, in a third of the time."""
    compiler = folder / "unoptimizing-compiler"
    compiler.write_text(f'#!/bin/sh\nexec {os.environ.get("CXX", "g++")} "$@" -O0\n')
    compiler.chmod(0o755)
    return compiler


def run(page: Page, folder: Path) -> list[str]:
    """The output of each block of a page that runs."""
    page.prepare(folder)
    (folder / "page_program.py").write_text(page.program())
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    copy = {"PYTHONPATH": str(folder / "backend"), "CXX": str(unoptimizing_compiler(folder))}
    done = Program(
        folder / "page_program.py",
        environment={"PATH": path, "FTM_CACHE_DIR": str(folder / "cache")},
        folder=folder,
        at_import=copy if page.in_copy else None,
    ).wait(500)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "UserWarning" not in done.stderr, done.stderr
    return done.stdout.split(f"{MARK}\n")[1:]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.alone if page.path.stem in MEASURES else ())
        for page in PAGES
        if page.outputs and page.path.stem not in RUN_ELSEWHERE
    ],
    ids=name_of,
)
def test_code_runs_and_prints_what_the_page_shows(page: Page, tmp_path: Path) -> None:
    for shown, printed in zip(page.outputs, run(page, tmp_path), strict=True):
        if shown:
            assert NUMBER.sub("N", printed).rstrip() == NUMBER.sub("N", shown).rstrip()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_runs_or_says_why_not(page: Page) -> None:
    assert page.unknown == []
    assert all(block.what for block in page.blocks if block.role == "not run")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_readers_see_the_names_of_files(page: Page) -> None:
    """Comments are not shown, so the text names each file that a block belongs to."""
    hidden = re.compile(r"<!--.*?-->|^```.*?^```$", re.DOTALL | re.MULTILINE)
    shown = hidden.sub("", page.path.read_text())
    for block in page.blocks:
        if block.role in ("file", "insert", "source"):
            assert Path(block.what.partition(",")[0]).name in shown, block.what


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_lines_of_sources_are_in_the_sources(page: Page) -> None:
    for block in page.blocks:
        if block.role == "source":
            assert "".join(block.text.split()) in "".join((ROOT / block.what).read_text().split())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_say_what_the_reader_will_be_able_to_do(page: Page) -> None:
    paragraphs = re.sub(r"<!-- Generated.*-->\n\n", "", page.path.read_text()).split("\n\n")
    if name_of(page) in ("index.md", "tutorials/index.md", "contributing.md", "changelog.md"):
        return  # lists of pages, and pages that include a file of the project's folder
    assert paragraphs[1].startswith("After this "), paragraphs[1]
