"""A map operation is said in two places: its row in the instruction table, and its kernel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import ftm_backend
from ftm_backend.assembler import isa_header
from ftm_backend.target import instruction_table

PACKAGE = Path(ftm_backend.__file__).parent
ROW = """
    operation("VHYPOT", _FAMILY, "ab", "Length of the vector (a, b).", "d = sqrt(a^2 + b^2)", FLOATS, FMA,
              example("VHYPOT.F64 v0, v1, v9", ("F64", [5, 13]), ("F64", [3, 5]), ("F64", [4, 12])), elements="math.hypot"),
"""
KERNEL = """
template <> struct Function<Op::Hypot> : Present {
  FTM_INLINE_MEMBER float of(float a, float b) { return __builtin_hypotf(a, b); }
  FTM_INLINE_MEMBER double of(double a, double b) { return __builtin_hypot(a, b); }
};
"""
RUN = """
import numpy as np
from ftm_backend import assembler
from ftm_backend.assembler import isa_header
from ftm_backend.docgen import example_programs, isa_manual
from ftm_backend.target import instruction_table
from ftm_backend.machine import Machine, build
from ftm_backend.ir.tile.map_op_selection import RULES

isa_header.main(["--write"])
build.build(more=["-O1"])
row = instruction_table.BY_NAME["VHYPOT"]
example = example_programs.case(row)
halves = example.text.replace("F64", "F16").replace("f64", "f16")
for checked in (False, True):
    with Machine(cores=1, checked=checked) as machine:
        (exact,) = machine.load(assembler.assemble(example.text)).run(example.inputs, example.scalars)
        assert exact.ravel().tolist() == [5.0, 13.0], exact
        a, b = (np.array([[1.0, 3.0]], np.float16).reshape(x.shape) for x in example.inputs[:1] * 2)
        (half,) = machine.load(assembler.assemble(halves)).run([a, b], example.scalars)
        assert half.tolist() == np.hypot(a.astype(np.float32), b.astype(np.float32)).astype(np.float16).tolist(), half
assert "math.hypot" in RULES  # what a body of linalg calls it
assert "VHYPOT" in isa_manual.render()
"""


def insert(path: Path, before: str, text: str) -> None:
    source = path.read_text()
    assert source.count(before) == 1
    path.write_text(source.replace(before, text + before))


def test_a_row_and_a_kernel_make_an_operation(tmp_path: Path) -> None:
    """In a copy of the compiler: assembled, executed in both modes, rounded for halves, in the
    manual, written by the code generator."""
    copy = tmp_path / "ftm_backend"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "build", "*.so"))
    shutil.copy(PACKAGE / "machine" / "build.py", copy / "machine")
    insert(
        copy / "target" / "instructions" / "map_arithmetic.py",
        '    operation(\n        "VCOPYSIGN"',
        ROW,
    )
    insert(
        copy / "machine" / "src" / "kernels" / "math.h",
        "template <Op op>\nvoid put_function(",
        KERNEL,
    )
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr


def test_only_kernels_name_operations_on_strips() -> None:
    """Except for those by which transfers and sums combine elements: copy, add, multiply, least,
    greatest."""
    names = {isa_header.strip_name(row) for row in instruction_table.STRIPS}
    source = PACKAGE / "machine" / "src"
    kernels = {path for path in source.rglob("*.*") if path.parent.name == "kernels"}
    assert {
        name for path in kernels for name in re.findall(r"\bOp::(\w+)", path.read_text())
    } <= names | {"Count", "Name"}
    elsewhere = {
        name
        for path in source.glob("*.*")
        for name in re.findall(r"\b(?:Op|Strip)::(\w+)", path.read_text())
    }
    assert elsewhere == {"Mov", "Add", "Mul", "Min", "Max", "Count"}
