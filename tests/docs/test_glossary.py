"""One word for one thing: glossary, documents, tools and code use the same names of stages and passes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ftm_lazy
from ftm_backend import codegen
from ftm_backend.midend import pipeline
from ftm_backend.tools import ftm_opt

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
PASSES = {step.name: step for step in (*pipeline.PASSES, *codegen.PASSES, codegen.EMIT)}
DOCUMENTS = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def terms(section: str) -> list[str]:
    """The first column of the table under a heading."""
    body = GLOSSARY.split(f"## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| (?!term|-)([^|]+?) \|", body, re.MULTILINE)


def test_representations_are_those_of_the_passes() -> None:
    between = dict.fromkeys(
        ir.name for step in PASSES.values() for ir in (step.ir.before, step.ir.after)
    )
    assert terms("Representations") == ["trace", *between, "image"]


def test_tools_list_the_passes_of_the_glossary(capsys: pytest.CaptureFixture[str]) -> None:
    assert ftm_opt.main(["--list-passes", "--machine", "m7032"]) == 0
    listed, *left_out = capsys.readouterr().out.split("\n\n")
    names = [line.split()[0] for line in listed.splitlines()]
    assert re.findall(r"^\| `([\w-]+)` \|", GLOSSARY, re.MULTILINE) == list(PASSES)
    assert names == [name for name in PASSES if not any(name in line for line in left_out)]


def test_dumps_name_stages_after_passes() -> None:
    stages = set(ftm_lazy.debug.STAGES)
    assert stages - {"trace", "torch", "linalg", "asm"} <= {step.stage for step in PASSES.values()}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_passes_that_exist(path: Path) -> None:
    named = re.findall(r"\bpass(?:es)? `([\w-]+)`", path.read_text())
    assert [name for name in named if name not in PASSES and name != "NAME"] == []
