"""The layers know only what is below them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from layers.dependencies import cycle, import_edges, imported

ROOT = Path(__file__).parents[2]

_PASSES = ("ftm_backend.frontend", "ftm_backend.midend", "ftm_backend.codegen")
_IR = ("ftm_backend.ir.linalg", "ftm_backend.ir.tile", "ftm_backend.ir.asm")
_BACK = (
    "ftm_backend.target",
    "ftm_backend.ir.asm",
    "ftm_backend.assembler",
    "ftm_backend.machine",
    "ftm_backend.perf_model",
)

FORBIDDEN = {
    "backend": ("torch", "ftm_lazy"),
    "backend/ftm_backend/symbolic": (*_PASSES, *_IR, *_BACK, "ftm_backend.mlir"),
    "backend/ftm_backend/ir/trace": (*_PASSES, *_IR, *_BACK),
    "backend/ftm_backend/ir/linalg": (*_PASSES, "ftm_backend.ir.tile", *_BACK),
    "backend/ftm_backend/ir/tile": (  # its instructions have the operands of assembly
        *_PASSES,
        "ftm_backend.assembler",
        "ftm_backend.mlir",
    ),
    "backend/ftm_backend/ir/asm": (
        *_PASSES,
        "ftm_backend.ir.linalg",
        "ftm_backend.ir.tile",
        "ftm_backend.assembler",
        "ftm_backend.mlir",
    ),
    "backend/ftm_backend/frontend": (
        "ftm_backend.midend",
        "ftm_backend.codegen",
        "ftm_backend.ir.tile",
        *_BACK,
    ),
    "backend/ftm_backend/midend": (
        "ftm_backend.frontend",
        "ftm_backend.codegen",
        "ftm_backend.ir.asm",
        "ftm_backend.assembler",
    ),
    "backend/ftm_backend/codegen": (
        "ftm_backend.frontend",
        "ftm_backend.midend",
        "ftm_backend.mlir",
    ),
    "backend/ftm_backend/assembler": (
        *_PASSES,
        "ftm_backend.ir.linalg",
        "ftm_backend.ir.tile",
        "ftm_backend.mlir",
    ),
    "backend/ftm_backend/target": (*_PASSES, *_IR, "ftm_backend.assembler", "ftm_backend.mlir"),
    "backend/ftm_backend/machine": (
        *_PASSES,
        "ftm_backend.ir.linalg",
        "ftm_backend.ir.tile",
        "ftm_backend.mlir",
    ),
    "backend/ftm_backend/perf_model": (
        *_PASSES,
        "ftm_backend.ir.linalg",
        "ftm_backend.ir.tile",
        "ftm_backend.mlir",
    ),
    "ftm_lazy": (
        "torch_mlir",
        "ftm_backend.mlir",
        "ftm_backend.frontend.trace_to_torch_dialect",
        "ftm_backend.midend",
    ),
}
"""Folder -> modules that nothing in it may import."""

DOORS = {"backend/ftm_backend/mlir.py", "ftm_lazy/torch_xla/stablehlo.py"}
"""Files that may import the MLIR bindings by their own name; the second when a program exports,
which needs torch as well."""


def within(name: str, module: str) -> bool:
    return name == module or name.startswith(module + ".")


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_layer_imports_nothing_above(folder: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in imported(path)
        if any(within(name, module) for module in FORBIDDEN[folder])
        and not (within(name, "torch_mlir") and str(path.relative_to(ROOT)) in DOORS)
    ]
    assert wrong == []


OPS = ROOT / "backend/ftm_backend/frontend/ops"
FAMILIES = sorted(path.name for path in OPS.iterdir() if (path / "__init__.py").is_file())


@pytest.mark.parametrize("room", ["oplib", *(f"ops/{family}" for family in FAMILIES)])
def test_records_of_a_family_know_no_other_and_what_they_share_knows_no_records(room: str) -> None:
    own = f"ftm_backend.frontend.{room.replace('/', '.')}"
    wrong = [
        f"{path.relative_to(OPS.parent)} imports {name}"
        for path in sorted((OPS.parent / room).rglob("*.py"))
        for name in imported(path)
        if within(name, "ftm_backend.frontend.ops") and not within(name, own)
    ]
    assert wrong == []


def test_every_module_with_records_is_in_a_family_which_imports_it() -> None:
    from ftm_backend.frontend import ops

    assert sorted(ops.FAMILIES) == FAMILIES
    assert [path.name for path in OPS.glob("*.py")] == ["__init__.py"]
    for family in FAMILIES:
        modules = {
            f"ftm_backend.frontend.ops.{family}.{path.stem}" for path in (OPS / family).glob("*.py")
        } - {f"ftm_backend.frontend.ops.{family}.__init__"}
        assert modules == imported(OPS / family / "__init__.py"), family


def test_packages_have_no_cycle() -> None:
    assert cycle(import_edges()) == []


def test_one_door_to_mlir() -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "backend").rglob("*.py"))
        if any(within(name, "torch_mlir") for name in imported(path))
    ]
    assert set(wrong) <= DOORS


def test_recorder_includes_no_compiler() -> None:
    lines = [
        line
        for path in (ROOT / "csrc").rglob("*.*")
        for line in path.read_text().splitlines()
        if line.startswith("#include") and ("mlir" in line or "isa_gen" in line)
    ]
    assert lines == []


def test_users_process_loads_no_mlir() -> None:
    code = "import torch, sys; torch.ones(2).to('ftm').sum().item(); print('torch_mlir' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "False", done.stderr


def test_compiler_loads_no_torch() -> None:
    code = (
        "import ftm_backend.driver, ftm_backend.compile_server, sys; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "False", done.stderr


def lines_of_code(path: Path) -> int:
    """The lines of a source without blank lines, comments and docstrings."""
    text = path.read_text()
    docstrings: set[int] = set()
    if path.suffix == ".py":
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return sum(
        bool(line.strip())
        and not line.lstrip().startswith(("#", "//"))
        and number not in docstrings
        for number, line in enumerate(text.splitlines(), 1)
    )


def test_files_hold_one_idea() -> None:
    files = [
        *ROOT.glob("backend/ftm_backend/**/*.py"),
        *ROOT.glob("ftm_lazy/**/*.py"),
        *ROOT.glob("csrc/*/*"),
    ]
    files += [path for path in ROOT.glob("backend/ftm_backend/machine/src/**/*") if path.is_file()]
    long = {str(path.relative_to(ROOT)): n for path in files if (n := lines_of_code(path)) > 400}
    assert long == {}
