"""The documents are true: generated parts are fresh, links lead somewhere, the README's code
runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
CODE_PATH = re.compile(r"`((?:backend|csrc|ftm_lazy|tests|docs|examples|benchmarks)/[\w./-]*)`")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_resolve(path: Path) -> None:
    text = path.read_text()
    links = [target for target in LINK.findall(text) if "://" not in target]
    broken = [target for target in links if not (path.parent / target).exists()]
    broken += [target for target in CODE_PATH.findall(text) if not (ROOT / target).exists()]
    assert broken == []


@pytest.mark.parametrize(
    "generator", [["docs/generate.py"], ["-m", "ftm_backend.docgen.isa_manual"]]
)
def test_generated_parts_are_fresh(generator: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, *generator, "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_readme_program_runs() -> None:
    program = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    losses = [float(line.split()[1]) for line in done.stdout.splitlines()]
    assert len(losses) == 5 and all(0 < loss < 10 for loss in losses)


def test_documents_say_the_same_numbers() -> None:
    """README and CHANGELOG say by hand how many of PyTorch's ops compile; the table in docs/ops.md
    is made from the last full run."""
    found = re.search(
        r"\| (\d+) entries, forward and backward in float32 \| (\d+) \|",
        (ROOT / "docs/ops.md").read_text(),
    )
    assert found
    said = [
        re.findall(
            r"(\d+) of (?:the|PyTorch's) (\d+) (?:entries of PyTorch's )?`op_db`",
            (ROOT / name).read_text(),
        )
        for name in ("README.md", "CHANGELOG.md")
    ]
    assert said == [[(found[2], found[1])]] * 2
