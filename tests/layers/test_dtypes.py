"""What is said of element types is said in one table, `ftm_backend.dtypes`; the rest follows from
it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from ftm_backend.assembler import isa_header
from ftm_backend.dtypes import DTYPES, MACHINE
from ftm_backend.target import element_types

ROOT = Path(__file__).parents[2]
MOST = 3
"""Element types that code may name in a row; more are a table."""

TABLES = {
    "backend/ftm_backend/dtypes.py": "the table",
    "backend/ftm_backend/target/element_types.py": "what the matrix unit takes, a fact of the machine",
    "backend/ftm_backend/frontend/float8.py": "how the bits of each 8-bit format are laid out",
}
OPS = ("backend/ftm_backend/frontend/ops/", "backend/ftm_backend/frontend/oplib/")
"""Records say which dtypes an op takes, and how exact it is in each."""

WORDS = {
    *(
        word
        for facts in DTYPES.values()
        for word in (facts.token, facts.name, facts.torch, facts.numpy, facts.suffix)
        if word
    ),
    *("bool_", "half", "double"),
}
CPP = re.compile(
    r'"(b?f16|f32|f64|[iu](?:8|16|32|64)|i1)"|(?:\bk|ScalarType::)(Double|Float|Half|BFloat16|Long|Int|Short|Char|Byte|Bool)\b'
)


def word(node: ast.expr | None) -> str | None:
    """The element type that an expression names."""
    if isinstance(node, ast.Call) and node.args:  # np.dtype("float32")
        return word(node.args[0])
    if isinstance(node, ast.Attribute):  # torch.float32
        return node.attr if node.attr in WORDS else None
    text = (
        node.value.lstrip("<|")
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        else ""
    )
    return text if text in WORDS else None


def rows(tree: ast.Module) -> Iterator[tuple[int, set[str]]]:
    """(line, element types) of every literal collection, of a dictionary's keys and of its values,
    of a table's first column."""
    for node in ast.walk(tree):
        columns: list[list[ast.expr | None]] = []
        if isinstance(node, ast.Dict):
            columns = [list(node.keys), list(node.values)]
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            columns = [
                list(node.elts),
                [e.elts[0] for e in node.elts if isinstance(e, (ast.Tuple, ast.List)) and e.elts],
            ]
        for column in columns:
            yield node.lineno, {name for e in column if (name := word(e))}


def tables(path: Path) -> list[int]:
    """The lines of a source where more than `MOST` element types stand in a row."""
    return [line for line, names in rows(ast.parse(path.read_text())) if len(names) > MOST]


def test_no_other_table_of_dtypes() -> None:
    sources = [*ROOT.glob("backend/ftm_backend/**/*.py"), *ROOT.glob("ftm_lazy/**/*.py")]
    found = {str(path.relative_to(ROOT)): lines for path in sources if (lines := tables(path))}
    assert {
        name: lines
        for name, lines in found.items()
        if name not in TABLES and not name.startswith(OPS)
    } == {}
    assert set(TABLES) <= set(found)


def test_no_other_table_of_dtypes_in_the_recorder_or_the_machine() -> None:
    """A `switch` over all of them: six lines of a source in a row that each name another one."""
    wrong = []
    for path in [*ROOT.glob("csrc/*/*"), *ROOT.glob("backend/ftm_backend/machine/src/**/*.*")]:
        if path.name.endswith("_gen.h") or not path.is_file():
            continue
        lines = [frozenset(map(max, CPP.findall(line))) for line in path.read_text().splitlines()]
        wrong += [
            f"{path}:{i + 1}"
            for i in range(len(lines) - 5)
            if len(frozenset().union(*lines[i : i + 6])) > 5
        ]
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    [
        '_X = {"f64": 8, "f32": 4, "i64": 8, "i1": 1}',
        "_X = [np.float64, np.float32, np.int8, np.int64]",
        '_X = (("f64", 7), ("f32", 6), ("bf16", 15), ("i1", 11))',
        "_X = {1: torch.half, 2: torch.bool, 3: torch.int8, 4: torch.int16}",
    ],
)
def test_a_table_is_seen(text: str, tmp_path: Path) -> None:
    path = tmp_path / "table.py"
    path.write_text(text)
    assert tables(path)


def test_the_table_is_right_about_torch_and_numpy() -> None:
    for facts in DTYPES.values():
        dtype = getattr(torch, facts.name)
        assert dtype.itemsize == facts.bytes == np.dtype(facts.numpy).itemsize, facts
        assert (dtype.is_complex, dtype.is_floating_point) == (
            facts.kind == "complex",
            facts.kind.startswith("float"),
        ), facts
        assert facts.signed == (dtype.is_signed if facts.kind in ("int", "bool") else True), facts
        assert _by_number(facts.number) == dtype, facts
        if facts.kind in ("float", "float8"):
            counted = torch.tensor([2**facts.digits - 1, 2**facts.digits + 1])
            assert (counted.to(dtype).to(torch.int64) == counted).tolist() == [True, False], facts
    assert [facts.code for facts in MACHINE] == list(range(len(MACHINE)))
    assert [t.token for t in element_types.TYPES] == [facts.token for facts in MACHINE]


def _by_number(number: int) -> torch.dtype:
    """PyTorch's dtype of a ScalarType number, as TorchScript reads it."""
    function = torch.jit.CompilationUnit(f"def f():\n    return torch.empty([0], dtype={number})\n")
    made: torch.Tensor = function.f()
    return made.dtype


def test_headers_are_fresh() -> None:
    assert isa_header.main(["--check"]) == 0
    done = subprocess.run(
        [sys.executable, "csrc/generate_dtypes.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
