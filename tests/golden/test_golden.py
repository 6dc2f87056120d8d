"""What each pass makes of a small program, as text.

A folder is a program: its trace, and after it what the lowering and each pass leave, in order. A
pass is run alone on the file before its own, as `ftm-opt --PASS FILE` does, and must leave its own
file. A golden changes only when someone says so:

    python -m pytest tests/golden --accept
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ftm_backend import codegen
from ftm_backend.midend import pipeline
from ftm_backend.pass_manager import Pass
from ftm_backend.tools import ftm_opt, ftm_translate

HERE = Path(__file__).parent
PROGRAMS = sorted(path.parent.name for path in HERE.glob("*/0-program.trace"))
PASSES = (*pipeline.PASSES, *codegen.PASSES, codegen.EMIT)
MACHINE = ["--machine", "m7032", "--cores", "2"]  # transfers overlap there


def place(program: str, number: int) -> Path:
    """The file that pass `number` leaves; 0 is the lowering of the trace."""
    if number == 0:
        return HERE / program / "1-linalg.mlir"
    step = PASSES[number - 1]
    return HERE / program / f"{number + 1}-{step.name}{step.ir.after.suffix}"


def compare(left: Path, golden: Path, accept: bool) -> None:
    """Fails, with the first lines that differ, unless `left` is the golden or becomes it."""
    if accept:
        golden.write_text(left.read_text())
        return
    assert left.read_text().splitlines() == golden.read_text().splitlines(), (
        f"{golden.name}: look at it, then --accept"
    )


@pytest.mark.parametrize("program", PROGRAMS)
def test_lowering(program: str, tmp_path: Path, accept: bool) -> None:
    left = tmp_path / "left"
    assert (
        ftm_translate.main(
            ["--to", "linalg", str(HERE / program / "0-program.trace"), "-o", str(left)]
        )
        == 0
    )
    compare(left, place(program, 0), accept)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("number", range(1, len(PASSES) + 1), ids=[step.name for step in PASSES])
def test_pass(program: str, number: int, tmp_path: Path, accept: bool) -> None:
    step: Pass = PASSES[number - 1]
    left = tmp_path / "left"
    assert (
        ftm_opt.main([f"--{step.name}", *MACHINE, str(place(program, number - 1)), "-o", str(left)])
        == 0
    )
    compare(left, place(program, number), accept)


def test_every_pass_is_listed_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert ftm_opt.main(["--list-passes", *MACHINE]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        step.name for step in PASSES
    ]


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_golden_is_left_over(program: str, accept: bool) -> None:
    wanted = {
        "0-program.trace",
        *(place(program, number).name for number in range(len(PASSES) + 1)),
    }
    stale = [path for path in (HERE / program).iterdir() if path.name not in wanted]
    if accept:  # of passes that were renamed or removed
        for path in stale:
            path.unlink()
    else:
        assert stale == []
    assert {path.name for path in (HERE / program).iterdir()} == wanted
