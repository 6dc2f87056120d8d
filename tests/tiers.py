"""The tiers of tests: `unit` never imports PyTorch, `torch` is the rest.

A file of a folder in `UNIT` is in the tier `unit` if neither it nor a helper of `tests/` that it
imports mentions PyTorch or a package that imports it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

TIERS = ("unit", "torch")
UNIT = set("cache codegen frontend golden isa layers machine midend passes sizes".split())
"""Folders with tests of the tier `unit`. Tests of the others start programs that import PyTorch."""

LONG = tuple(
    f"{file}.py"
    for file in (
        "docs/test_code_blocks",
        "torch_xla_names/test_programs",
        "e2e/test_examples",
        "torch_xla_names/test_unchanged",
        "midend/test_target_rows",
        "recorder/test_equal_layers",
        "recorder/test_unrolled",
        "distributed/test_training",
        "torch_xla_names/test_processes",
        "e2e/test_processes",
        "e2e/test_lightning",
        "frontends/test_conformance",
        "frontends/test_hugging_face",
        "e2e/test_hugging_face",
        "e2e/test_sized_by_values",
        "e2e/test_sharing",
        "torch_xla_names/test_migrate_fsdp",
        "torch_xla_names/test_exit",
        "distributed/test_faults",
        "torch_xla_names/test_libraries",
        "frontends/test_readme",
    )
)
"""Files with a few tests that take half a minute or more. They start first: if one started last,
all other processes would wait for it."""

_HERE = Path(__file__).parent
_MENTIONS_TORCH = re.compile(
    r"\b(?:import|from) (?:torch|ftm_lazy|ftm_autoload|accelerate|lightning|transformers)\b"
    r"|\bbenchmarks\b"
)


def needs_torch(folder: Path) -> bool:
    """Whether no test of a folder is in the tier `unit`, so that its conftest is not loaded."""
    return folder.parent == _HERE and folder.name not in UNIT


@cache
def tier(file: Path) -> str:
    """The tier of a test file."""
    if file.parent.name not in UNIT:
        return "torch"
    pending, seen = [file, file.parent / "conftest.py"], set()
    while pending:
        path = pending.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        source = path.read_text()
        if _MENTIONS_TORCH.search(source):
            return "torch"
        pending += [_HERE / (name.replace(".", "/") + ".py") for name in _imports(source)]
    return "unit"


def chosen(items: Iterable[Any]) -> list[Any]:
    """The tests that CI runs: of those marked `one_in(n)`, each n-th combination of parameters.

    n has no divisor in common with the numbers of values, so that each value occurs: of 11 shapes
    with 5 counts of cores, `one_in(3)` runs each shape with one or two counts. `make nightly` runs
    all.
    """
    kept, position = [], Counter[tuple[Path, str]]()
    for item in items:
        mark, function = item.get_closest_marker("one_in"), (item.path, item.originalname)
        if mark is None or position[function] % mark.args[0] == 0:
            kept.append(item)
        position[function] += 1
    return kept


def start_order(files: list[Path]) -> dict[Path, int]:
    """The order in which files with tests start: the long ones, then those with most tests.

    Args:
        files: The file of each test, so one with three tests occurs three times.
    """
    rank = {_HERE / name: position - len(LONG) for position, name in enumerate(LONG)}
    count = Counter(files)
    return {
        file: position
        for position, file in enumerate(
            sorted(count, key=lambda file: (rank.get(file, 0), -count[file], file))
        )
    }


def _imports(source: str) -> list[str]:
    """What `from A import B` may name: the modules A and A.B."""
    return [
        name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module
        for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    ]
