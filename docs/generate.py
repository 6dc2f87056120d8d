"""Writes the generated parts of the documents, or checks that they are fresh.

    python docs/generate.py           # rewrite
    python docs/generate.py --check   # exit 1 and say what is stale

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`; `PARTS` says what
makes it. `docs/isa.md` is generated whole, by `python -m ftm_backend.docgen.isa_manual`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch

import ftm_lazy
from ftm_backend import codegen, pass_manager
from ftm_backend.midend import pipeline
from ftm_lazy import settings
from ftm_lazy.torch_xla import _environment, _table

DOCS = Path(__file__).parent
sys.path[1:1] = [str(DOCS.parent / "tests"), str(DOCS.parent / "benchmarks")]

import scaling  # noqa: E402
import step_time  # noqa: E402
from session import torch_xla_session  # noqa: E402

from frontends import hugging_face  # noqa: E402
from layers import dependencies  # noqa: E402
from opdb import table  # noqa: E402

MARKED = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)

WALK = """\
x = torch.ones(8, 16).to("ftm")
w = torch.ones(4, 16).to("ftm")
b = torch.ones(4).to("ftm")
y = torch.relu(x @ w.t() + b)
"""
"""The small program that docs/architecture.md follows."""

TUTORIAL = """\
x = torch.ones(4, 8).to("ftm")
w = torch.ones(8, 2).to("ftm")
y = torch.relu(x @ w)
"""
"""The program of docs/tutorials/look-at-a-step.md."""


@cache
def recorded(program: str) -> torch.Tensor:
    """The result `y` of a program, recorded and not yet run."""
    names: dict[str, torch.Tensor] = {}
    exec(program, {"torch": torch}, names)
    return names["y"]


def stage(name: str, language: str, program: str = WALK) -> Callable[[], str]:
    """Makes the part that shows a program at stage `name`."""
    return lambda: (
        f"```{language}\n{ftm_lazy.debug.text([recorded(program)], name).rstrip()}\n```\n"
    )


def drawing(edges: set[dependencies.Edge]) -> Callable[[], str]:
    """Makes a drawing of who knows whom, without the edges that follow from others."""
    arrows = "".join(f"    {above} --> {below}\n" for above, below in dependencies.direct(edges))
    return lambda: f"```mermaid\nflowchart TD\n{arrows}```\n"


def passes() -> str:
    """The table of all passes: IRs, requirements and the sentence that the tools print."""
    short = {pass_manager.OVERLAPPING_DMA: "DMA"}
    rows = [
        f"| `{step.name}` | {step.ir} | {', '.join(map(short.__getitem__, step.requires))} "
        f"| {step.doc} |\n"
        for step in (*pipeline.PASSES, *codegen.PASSES, codegen.EMIT)
    ]
    return "| pass | IR | needs | effect |\n|---|---|---|---|\n" + "".join(rows)


PARTS: dict[str, Callable[[], str]] = {
    "walk-program": lambda: f"```python\n{WALK}```\n",
    "walk-trace": stage("trace", "text"),
    "walk-torch": stage("torch", "mlir"),
    "walk-linalg": stage("linalg", "mlir"),
    "walk-kernels": stage("fuse-ops", "mlir"),
    "walk-tiles": stage("insert-waits", "text"),
    "walk-asm": stage("asm", "text"),
    "tutorial-trace": stage("trace", "text", TUTORIAL),
    "tutorial-asm": stage("asm", "text", TUTORIAL),
    "passes": passes,
    "layers-recorder": drawing(dependencies.folder_edges()),
    "layers-python": drawing(dependencies.import_edges()),
    "settings": lambda: settings.table(),
    "scaling": lambda: scaling.table(scaling.stored()),
    "step-times": lambda: step_time.Record.stored().table(),
    "step-times-bfloat16": lambda: step_time.Record.stored("bfloat16").table(),
    "step-range": lambda: step_time.Record.stored().summary(),
    "torch-xla-names": _table.table,
    "torch-xla-environment": _environment.table,
    "torch-xla-session": torch_xla_session,
    "hugging-face": hugging_face.table,
    "ops-totals": table.totals,
    "ops-entries": table.ops,
    "ops-fallbacks": table.fallbacks,
    "ops-modules": table.modules,
    "ops-optims": table.optims,
}


def regenerate(text: str) -> str:
    """`text` with every generated part made anew."""
    return MARKED.sub(lambda m: m[1] + PARTS[m["name"]]() + m[3], text)


def stale() -> list[Path]:
    """The documents whose generated parts are not what they would be now."""
    return [
        path
        for path in sorted(DOCS.rglob("*.md"))
        if regenerate(path.read_text()) != path.read_text()
    ]


def main() -> int:
    """Rewrites or checks; returns the exit code."""
    parser = argparse.ArgumentParser(description="Write the generated parts of the documents.")
    parser.add_argument(
        "--check", action="store_true", help="change nothing; exit 1 if something is stale"
    )
    is_check, found = parser.parse_args().check, stale()
    if is_check:
        for path in found:
            print(f"{path.name} is stale: run `python docs/generate.py`")
        return 1 if found else 0
    for path in found:
        path.write_text(regenerate(path.read_text()))
        print(f"wrote {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
