"""The documents are true: generated parts are fresh, links lead somewhere, the README's code
runs."""

from __future__ import annotations

import html
import inspect
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import ftm_lazy
from python_process import run_python

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    *(ROOT / f"{name}.md" for name in ("README", "SECURITY", "CONTRIBUTING", "CHANGELOG")),
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts),
]
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
CODE_PATH = re.compile(r"`((?:backend|csrc|ftm_lazy|tests|docs|examples|benchmarks)/[\w./-]*)`")


def anchors(path: Path) -> set[str]:
    """The names that links to a page's headings may have, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        found.add(name if name not in found else f"{name}-1")
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_resolve(path: Path) -> None:
    text = path.read_text()
    broken = []
    for target, anchor in LINK.findall(text):
        if "://" in target:
            host = urlsplit(target)
            is_good = host.scheme == "https" and "." in host.netloc
        else:
            page = path.parent / target if target else path
            is_good = page.exists() and (not anchor or anchor in anchors(page))
        if not is_good:
            broken.append(f"{target}#{anchor}")
    named = [
        target
        for target in CODE_PATH.findall(text)
        if not {"NAME", "_build"} & set(re.split(r"\W+", target))
    ]
    broken += [target for target in named if not (ROOT / target).exists()]
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
    done = run_python(program)
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


def test_the_picture_of_all_stages_shows_the_program_s_assembly() -> None:
    """docs/figures/stages.html draws the program of docs/tutorials/look-at-a-step.md."""
    picture = (ROOT / "docs" / "figures" / "stages.html").read_text()
    shown = [html.unescape(line) for line in re.findall(r'<text class="code"[^>]*>(.*?)<', picture)]
    assembly = (ROOT / "docs" / "tutorials" / "look-at-a-step.md").read_text()
    lines = {line.strip() for line in assembly.splitlines()}
    drawn = [line.strip() for line in shown if re.match(r" *(?:@map|[A-Z]+[. ])", line)]
    assert len(drawn) == 8 and set(drawn) <= lines


def test_the_reference_has_every_public_function() -> None:
    """docs/reference/python.md names what the users' modules export; Sphinx reads the docstrings."""
    text = (ROOT / "docs" / "reference" / "python.md").read_text()
    modules = {name for name in ftm_lazy.__all__ if inspect.ismodule(getattr(ftm_lazy, name))}
    names = set(ftm_lazy.__all__) - modules
    for module in (ftm_lazy.debug, ftm_lazy.metrics):
        names |= {name for name in module.__all__ if callable(getattr(module, name))}
    assert {name for name in names if not re.search(rf"\b{name}\b", text)} == set()
    assert {name for name in modules if f"ftm_lazy.{name}" not in text} == set()
