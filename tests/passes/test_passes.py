"""What each pass must do, in files that are written by hand, in the manner of LLVM's lit and
FileCheck.

A file is the input of the pass that it is named after, up to the first dot. Its `RUN` lines say how
the pass is run and what checks its output; the `CHECK` lines say what the pass must do and nothing
else. Outputs under the prefix `KEPT` are those of a machine for which the pass does not pay.
`tests/golden` holds whole outputs.
"""

from __future__ import annotations

import itertools
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
BY_NAME = {step.name: step for step in PASSES}

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
    path = HERE / (step.name + step.ir.before.suffix)
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
    form = BY_NAME[path.name.split(".")[0]].ir.before
    machine = presets.load(arguments[arguments.index("--machine") + 1])
    assert holds(check, form.write(form.read(path.read_text(), machine), path.stem)) == is_kept(
        check
    )


def test_each_pass_takes_the_ir_that_the_one_before_it_leaves() -> None:
    for machine in map(presets.load, presets.NAMES):
        steps = (*pipeline.pipeline(machine), *codegen.pipeline.pipeline(machine), codegen.EMIT)
        assert steps[0].ir.before == pipeline.LINALG
        for first, second in itertools.pairwise(steps):
            assert first.ir.after == second.ir.before, second.name


@pytest.mark.parametrize("step", PASSES, ids=lambda step: step.name)
def test_a_pass_works_in_place_if_it_is_declared_so(step: pipeline.Pass) -> None:
    path = HERE / (step.name + step.ir.before.suffix)
    machine = presets.load("m7032")
    value = step.ir.before.read(path.read_text(), machine)
    assert (step.run(value, machine) is value) == step.ir.in_place


@pytest.mark.parametrize("step", PASSES, ids=lambda step: step.name)
def test_a_sentence_says_what_a_pass_does(step: pipeline.Pass) -> None:
    assert step.doc[0].isupper() and step.doc.endswith(".") and len(step.doc) <= 90


LEFT_OUT = [step for step in PASSES if step.missing(presets.load("host"))]


def test_a_machine_s_pipeline_has_the_passes_that_apply(capsys: pytest.CaptureFixture[str]) -> None:
    host, m7032 = (
        {step.name for step in pipeline.pipeline(presets.load(name))} for name in ("host", "m7032")
    )
    assert "fuse-ops" in host and "pack-operands" in m7032 - host
    assert host <= m7032
    assert ftm_opt.main(["--list-passes", "--machine", "host"]) == 0
    listed, left_out = capsys.readouterr().out.split("\n\n")
    assert "outline-kernels buffers -> calls, in place Outline kernels" in " ".join(listed.split())
    names = ", ".join(step.name for step in LEFT_OUT)
    assert left_out == f"Not on host, which lacks DMA that overlaps compute: {names}.\n"


@pytest.mark.parametrize("step", LEFT_OUT, ids=lambda step: step.name)
def test_a_pass_that_does_not_apply_is_refused(
    step: pipeline.Pass, capsys: pytest.CaptureFixture[str]
) -> None:
    path = HERE / (step.name + step.ir.before.suffix)
    assert ftm_opt.main([f"--{step.name}", "--machine", "host", str(path)]) == 2
    assert (
        f"pass {step.name}: the pass is not in the pipeline of machine 'host': "
        "it needs DMA that overlaps compute" in capsys.readouterr().err
    )


def test_what_a_pass_changes_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    path = HERE / "fuse-attention.mlir"
    again = ["--fuse-attention", "--fuse-attention"]
    assert ftm_opt.main(["--print-changed", *again, "--machine", "m7032", str(path)]) == 0
    shown = capsys.readouterr().err
    assert '+    }) {kind = "attention' in shown and "ftm.stage" not in shown
    assert shown.endswith("pass fuse-attention: no change\n")
