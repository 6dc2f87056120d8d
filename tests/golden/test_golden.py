"""What each pass changes in a few small programs, as text.

`NAME.trace` is a program. `NAME.stages` has its linalg, then a section for each pass that changes
something: the stage whole, or its diff against the stage before if that is shorter. The last
section of `dense.stages` is the whole assembly. The others end with the tiles of their kernels: the
passes on tiles (addresses, waits, buffers) do the same to all. To store what the compiler does now:

    python -m pytest tests/golden --accept

A pass runs as `ftm opt --PASS FILE` does, on the text that the pass before has printed. What a
pass must do is specified in `tests/passes`.
"""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from difflib import SequenceMatcher
from io import StringIO
from pathlib import Path

import pytest

from ftm_backend.tools import ftm_opt, ftm_translate

HERE = Path(__file__).parent
PROGRAMS = sorted(path.stem for path in HERE.glob("*.trace"))
TO_ASSEMBLY = "dense"
MACHINE = ["--machine", "m7032", "--cores", "2"]  # its DMA overlaps compute

STAMP = re.compile(r'^@stage .*\n|ftm\.stage = "[^"]*"(?:, )?', re.MULTILINE)
"""The stage's name in its text: the only change that most passes make to most programs."""

VALUE = re.compile(r"%\w+(#\d+)?")


def unnumbered(line: str) -> str:
    """`line` without indentation and numbers of SSA values, which shift below each change."""
    return VALUE.sub("%", line).strip()


def changes(before: list[str], after: list[str]) -> list[str]:
    """Hunks of a unified diff with one line of context that ignore SSA numbers and indentation."""
    matcher = SequenceMatcher(
        None, [unnumbered(line) for line in before], [unnumbered(line) for line in after], False
    )
    hunks = []
    for group in matcher.get_grouped_opcodes(1):
        hunks.append("@@")
        for kind, begin, end, new_begin, new_end in group:
            if kind != "equal":
                hunks += [f"-{line}" for line in before[begin:end]]
            sign = " " if kind == "equal" else "+"
            hunks += [sign + line for line in after[new_begin:new_end]]
    return hunks


def stages(trace: Path, folder: Path) -> str:
    """The text of a `.stages` file; `folder` takes the stages that the tools write."""
    passes = PASSES if trace.stem == TO_ASSEMBLY else PASSES[: PASSES.index("lower-kernels") + 1]
    stage = folder / "stage"
    assert ftm_translate.main(["--to", "linalg", str(trace), "-o", str(stage)]) == 0
    before = stage.read_text().splitlines()
    sections = ["## linalg", *before]
    for name in passes:
        assert ftm_opt.main([f"--{name}", *MACHINE, str(stage), "-o", str(stage)]) == 0
        text = STAMP.sub("", stage.read_text()).replace("module attributes {} {", "module {")
        after = text.splitlines()
        if diff := changes(before, after):
            if len(diff) < len(after) and name != PASSES[-1]:
                sections += [f"## {name}: diff", *diff]
            else:
                sections += [f"## {name}", *after]
        before = after
    return "\n".join(sections) + "\n"


def list_passes() -> list[str]:
    with redirect_stdout(StringIO()) as printed:
        assert ftm_opt.main(["--list-passes", *MACHINE]) == 0
    applying, *_ = printed.getvalue().split("\n\n")  # then the passes of other machines
    return [line.split()[0] for line in applying.splitlines()]


PASSES = list_passes()


@pytest.mark.parametrize("program", PROGRAMS)
def test_stages(program: str, tmp_path: Path, accept: bool) -> None:
    text, golden = stages(HERE / f"{program}.trace", tmp_path), HERE / f"{program}.stages"
    if accept:
        golden.write_text(text)
    assert text.splitlines() == golden.read_text().splitlines(), "review the change, then --accept"


def test_no_golden_is_left_over(accept: bool) -> None:
    stale = [path for path in HERE.glob("*.stages") if path.stem not in PROGRAMS]
    if accept:
        for path in stale:
            path.unlink()
    else:
        assert stale == []
