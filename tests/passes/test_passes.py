"""What each pass must do, in files that are written by hand, in the manner of LLVM's lit and
FileCheck.

A file is the input of the pass that it is named after. Its `RUN` lines say how the pass is run and
what checks its output; the `CHECK` lines say what the pass must do and nothing else. Outputs under
the prefix `KEPT` are those of a machine for which the pass changes nothing. `tests/golden` holds
whole outputs.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options, parse_argv_options
from filecheck.parser import Parser

from ftm_backend import codegen
from ftm_backend.midend import pipeline
from ftm_backend.target import presets
from ftm_backend.tools import ftm_opt

HERE = Path(__file__).parent
PASSES = (*pipeline.PASSES, *codegen.PASSES, codegen.EMIT)
BEFORE = dict(
    zip(
        (step.name for step in PASSES),
        (pipeline.FUNCTION, *(step.form for step in PASSES)),
        strict=False,
    )
)
"""Pass -> the form of what it takes."""

RUN = re.compile(r"// RUN: ftm-opt (.*) %s \| (filecheck %s.*)")
FILES = sorted(path for path in HERE.iterdir() if path.suffix in (".mlir", ".tiles"))


def runs(path: Path) -> list[tuple[list[str], Options]]:
    """(arguments of ftm-opt, options of filecheck) of each RUN line."""
    found = []
    for line in path.read_text().splitlines():
        if line.startswith("// RUN:"):
            match = RUN.fullmatch(line)
            assert match, f"{path.name}: not of the form `ftm-opt .. %s | filecheck %s ..`: {line}"
            check = match[2].replace("%s", str(path))
            found.append(
                ([*shlex.split(match[1]), str(path)], parse_argv_options(shlex.split(check)))
            )
    return found


RUNS = [
    pytest.param(arguments, check, id=f"{path.stem}-{number}")
    for path in FILES
    for number, (arguments, check) in enumerate(runs(path))
]


def holds(check: Options, output: str) -> bool:
    """Whether `output` is what the CHECK lines say; they print where it is not."""
    return Matcher(check, FInput("output", output), Parser.from_opts(check)).run() == 0


def is_kept(check: Options) -> bool:
    return check.check_prefixes == ["KEPT"]


@pytest.mark.parametrize("step", PASSES, ids=lambda step: step.name)
def test_every_pass_has_a_file_with_checks_of_its_own(step: pipeline.Pass) -> None:
    path = HERE / (step.name + BEFORE[step.name].suffix)
    lines = runs(path)
    assert any(not is_kept(check) for _, check in lines)
    assert all(f"--{step.name}" in arguments for arguments, _ in lines)


@pytest.mark.parametrize(("arguments", "check"), RUNS)
def test_pass(arguments: list[str], check: Options, tmp_path: Path) -> None:
    output = tmp_path / "output"
    assert ftm_opt.main([*arguments, "-o", str(output)]) == 0
    assert holds(check, output.read_text())


@pytest.mark.parametrize(("arguments", "check"), RUNS)
def test_the_checks_fail_without_the_pass(arguments: list[str], check: Options) -> None:
    """The input as it would be printed after a pass that did nothing: what the checks say is the
    pass's doing."""
    path = Path(arguments[-1])
    form = BEFORE[path.stem]
    machine = presets.load(arguments[arguments.index("--machine") + 1])
    assert holds(check, form.write(form.read(path.read_text(), machine), path.stem)) == is_kept(
        check
    )
