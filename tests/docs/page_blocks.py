"""The fenced blocks of a page, and the program that a test makes of them.

- ``python`` blocks are one program; ``sh`` blocks run between them, in the same directory.
- A ``text`` block after one is its output.
- A comment before a block says that it is something else:
  ``<!-- file: train.py -->``: the contents of a file that later blocks use;
  ``<!-- insert: PATH, after: TEXT -->``: lines that belong after a line of a source, or before it
  (``\\n`` stands for a new line);
  ``<!-- source: PATH -->``: lines that are in a source;
  ``<!-- not run: REASON -->``.
- ``<!-- in a copy of the compiler -->`` on a page: files and insertions change a copy of it.

Generated blocks are what ``docs/generate.py`` has run.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["COPY", "MARK", "Block", "Page"]

ROOT = Path(__file__).parents[2]
COPY = "<!-- in a copy of the compiler -->"
MARK = "--- the next block ---"
RUN = {"python", "sh"}
DRAWN = {"mermaid"}
GENERATED = re.compile(r"^<!-- generated: .*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(
    r"^(?:<!-- (?P<role>file|insert|source|not run): (?P<what>[^\n]*?) -->\n)?"
    r"```(?P<language>[^\n]+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
PROGRAM = f"""\
import subprocess as _subprocess

def _block(script=None):
    print({MARK!r}, flush=True)
    if script is not None:
        _subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], check=True)

"""


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, and what a comment says of it."""

    language: str
    text: str
    role: str = ""
    what: str = ""

    @property
    def is_run(self) -> bool:
        return self.language in RUN and not self.role


@dataclass
class Page:
    """A page's blocks in order, without generated ones.

    Attributes:
        outputs: For each block that runs, the output that the page shows; empty if it shows none.
        unknown: The blocks that neither run nor have a comment that says what they are.
    """

    path: Path
    blocks: list[Block] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    unknown: list[Block] = field(default_factory=list)
    in_copy: bool = False

    @classmethod
    def read(cls, path: Path) -> Page:
        """Read a page."""
        text = path.read_text()
        page = cls(path, in_copy=COPY in text)
        generated = [found.span() for found in GENERATED.finditer(text)]
        for found in BLOCK.finditer(text):
            block = Block(
                found["language"], found["text"], found["role"] or "", found["what"] or ""
            )
            is_output = block.language == "text" and not block.role and page.outputs
            if is_output and not page.outputs[-1]:
                page.outputs[-1] = block.text
            elif any(begin <= found.start() < end for begin, end in generated):
                continue
            elif block.is_run:
                page.outputs.append("")
            elif not block.role and block.language[0] != "{" and block.language not in DRAWN:
                page.unknown.append(block)
            page.blocks.append(block)
        return page

    def program(self) -> str:
        """Return a program that prints `MARK` and runs a block, for each block that runs."""
        parts = [PROGRAM]
        for block in self.blocks:
            if block.is_run and block.language == "python":
                parts.append(f"_block()\n{block.text}")
            elif block.is_run:
                parts.append(f"_block({block.text!r})\n")
        return "".join(parts)

    def prepare(self, folder: Path) -> None:
        """Write the page's files into a folder, in which its program then runs."""
        if self.in_copy:
            unwanted = shutil.ignore_patterns("__pycache__", "build")
            package = folder / "backend" / "ftm_backend"
            shutil.copytree(ROOT / "backend" / "ftm_backend", package, ignore=unwanted)
        unwanted = shutil.ignore_patterns("run_model", "__pycache__")
        shutil.copytree(ROOT / "examples", folder / "examples", ignore=unwanted)
        for block in self.blocks:
            if block.role == "file":
                (folder / block.what).parent.mkdir(parents=True, exist_ok=True)
                (folder / block.what).write_text(block.text)
            elif block.role == "insert":
                _insert(folder, block)


def _insert(folder: Path, block: Block) -> None:
    name, _, place = block.what.partition(", ")
    side, _, text = place.partition(": ")
    text = text.replace("\\n", "\n")
    source = (folder / name).read_text()
    assert source.count(text) == 1, f"{name} has {source.count(text)} times {text!r}"
    begin, end = source.index(text), source.index(text) + len(text)
    at = source.index("\n", end) + 1 if side == "after" else source.rindex("\n", 0, begin) + 1
    (folder / name).write_text(source[:at] + block.text + source[at:])
