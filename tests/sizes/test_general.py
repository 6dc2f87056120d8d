"""Which dynamic-shape program serves which trace, when to compile another, and reuse."""

from __future__ import annotations

import pytest

from ftm_backend.assembler.image_template import TemplateError
from ftm_backend.driver import compile
from ftm_backend.executable import Executable
from ftm_backend.ir.trace.trace import Trace
from ftm_lazy.dynamic_shapes.dynamic_programs import DynamicCandidate, TraceFamilies


def _trace(rows: int, columns: int = 12) -> Trace:
    return Trace.parse(
        f"trace\n  %0 = param f32[{rows},{columns}]\n  $0 = scalar f64\n"
        f"  %1 = aten::mul.Scalar(self=%0, other=$0) : f32[{rows},{columns}]\n  return %1\n"
    )


class _Store:
    def __init__(self) -> None:
        self.entries: dict[str, bytes] = {}
        self.removed: list[str] = []

    def families(self) -> TraceFamilies:
        """Those of a new process."""
        return TraceFamilies((self.entries.get, self.entries.__setitem__, self._remove))

    def _remove(self, text: str, reason: str) -> None:
        del self.entries[text]
        self.removed.append(reason)


def _asked(families: TraceFamilies, trace: Trace) -> str:
    """What a process does that wants a program: ``instance``, ``special``, or ``general``."""
    if families.instance(trace) is not None:
        return "instance"
    for proposal in families.propose(trace):
        families.keep(proposal, compile(str(proposal.trace)))
        return "general"
    return "special"


def test_the_second_member_makes_the_program_of_all() -> None:
    families = _Store().families()
    assert [_asked(families, _trace(rows)) for rows in (30, 6, 19, 64, 130, 7)] == [
        "special",
        "general",
        *["instance"] * 4,
    ]


def test_a_program_is_chosen_for_more_than_the_largest() -> None:
    families = _Store().families()
    families.note(_trace(30))
    first, second = families.propose(_trace(6))
    assert (first.values, first.chosen_for) == ((6,), (128,))
    assert (second.values, second.chosen_for) == ((6,), (6,))
    assert "  size s0 = 128, 1\n" in str(first.trace)
    assert families.keep(first, compile(str(first.trace))) == families.instance(_trace(6))


def test_members_that_are_far_get_a_program_when_there_are_several() -> None:
    families = _Store().families()
    # chosen for 80
    assert [_asked(families, _trace(rows)) for rows in (4, 5)] == ["special", "general"]
    assert [_asked(families, _trace(rows)) for rows in range(700, 707)] == ["instance"] * 7
    # the same one again is no other
    assert [_asked(families, _trace(700)) for _ in range(9)] == ["instance"] * 9
    assert _asked(families, _trace(707)) == "general"  # chosen for 1414
    assert [_asked(families, _trace(rows)) for rows in (708, 2000, 60, 4)] == ["instance"] * 4


@pytest.mark.parametrize("in_another_process", [False, True])
def test_what_varied_once_varies_in_later_programs(in_another_process: bool) -> None:
    """Members that came last often differ in one size alone: lengths of texts, batch by batch."""
    store = _Store()
    families = store.families()
    assert [_asked(families, _trace(*sizes)) for sizes in ((4, 12), (5, 12), (5, 13))] == [
        "special",
        "general",
        "general",
    ]
    if in_another_process:
        families = store.families()
    assert [_asked(families, _trace(rows, 14)) for rows in range(700, 708)] == [
        *["instance"] * 7,
        "general",
    ]
    assert [
        _asked(families, _trace(rows, columns))
        for rows in range(1000, 1010)
        for columns in (13, 15, 40)
    ] == ["instance"] * 30


def test_sizes_that_alternate_between_small_and_large_end_with_a_program_for_each() -> None:
    families = _Store().families()
    asked = [
        _asked(families, _trace(rows)) != "instance"
        for k in range(30)
        for rows in (5000 + k, 4 + k % 12)
    ]
    assert sum(asked) <= 4
    assert not any(asked[-20:])


def test_a_program_that_serves_others_alone_is_not_kept() -> None:
    families = _Store().families()
    families.note(_trace(30))
    proposal = families.propose(_trace(6))[0]
    made = compile(str(proposal.trace))
    with pytest.raises(TemplateError, match="s0-1 >= 0 does not hold where s0 = 0"):
        families.keep(
            DynamicCandidate(
                proposal.trace, proposal.relation, proposal.family, (0,), proposal.chosen_for
            ),
            made,
        )
    with pytest.raises(TemplateError, match="it has no sizes"):
        families.keep(proposal, Executable(made.image, made.asm, made.machine))
    assert families.instance(_trace(6)) is None


def test_a_family_without_success_is_left_alone() -> None:
    families = _Store().families()
    families.note(_trace(30))
    for rows in (6, 7):
        families.fail(families.propose(_trace(rows))[-1])
    assert families.propose(_trace(8)) == []


def test_after_a_while_another_attempt_is_made() -> None:
    """Each time twice as many members come in between: what has no program for all sizes costs few
    attempts, and what has one gets it."""
    families = _Store().families()
    families.note(_trace(30))
    waited = []
    for rows in range(40, 90):
        proposals = families.propose(_trace(rows))
        if proposals:
            families.fail(proposals[-1])
        waited.append(bool(proposals))
    assert [k for k, tried in enumerate(waited) if tried] == [0, 1, 6, 15, 32]
    assert (
        next(
            answer
            for rows in range(100, 200)
            if (answer := _asked(families, _trace(rows))) != "special"
        )
        == "general"
    )
    assert _asked(families, _trace(300)) == "instance"


def test_why_a_program_does_not_serve() -> None:
    families = _Store().families()
    assert families.refusal(_trace(3)) == ""
    for rows in (30, 6):
        _asked(families, _trace(rows))
    assert families.refusal(_trace(3)) == ""
    assert families.refusal(_trace(1)) == ""
    assert families.refusal(_trace(0)) == "its numbers are related otherwise"
    assert families.refusal(_trace(1 << 20)).startswith("-")
    assert "does not hold where s0 = 1048576 (codegen/allocate_scratchpad.py:" in families.refusal(
        _trace(1 << 20)
    )
    assert families.refusal(_trace(6, 13)).startswith(
        "its numbers are related otherwise: `%0 = param f32[6,13]`; "
    )


def test_other_processes_find_them() -> None:
    store = _Store()
    families = store.families()
    for rows in (4, 5):
        _asked(families, _trace(rows))
    other = store.families()
    assert [_asked(other, _trace(rows)) for rows in range(700, 708)] == [
        *["instance"] * 7,
        "general",
    ]
    assert _asked(store.families(), _trace(708)) == "instance"
    assert not store.removed


@pytest.mark.parametrize(
    "change",
    [lambda d: d[: len(d) // 2], lambda d: d.replace(b"[80]", b"[]", 1), lambda d: b"[[1]]\n"],
)
def test_damaged_entries_are_removed(change: object) -> None:
    store = _Store()
    families = store.families()
    for rows in (4, 5):
        _asked(families, _trace(rows))
    assert any(b"[80]" in data for data in store.entries.values())
    store.entries = {text: change(data) for text, data in store.entries.items()}  # type: ignore[operator]
    other = store.families()
    assert other.instance(_trace(6)) is None
    assert len(store.removed) == 1
    assert "damaged" in store.removed[0]
