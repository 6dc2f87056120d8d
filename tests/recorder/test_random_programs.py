"""A sample of the fuzzer's recorded programs (``tests/fuzz/recordings.py``): errors and results are
the CPU's."""

import random

import pytest

from fuzz import recordings


@pytest.mark.parametrize("seed", range(0, 40, 2))
def test_program(seed: int) -> None:
    for each in (seed, seed + 1):
        recordings.attempt(recordings.make(random.Random(each)))


def test_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from fuzz import recording_steps

    broken = recording_steps.Step(
        lambda device, tensors, numbers: (tensors[0] + (device == "ftm"),)
    )
    monkeypatch.setitem(recording_steps.STEPS, "neg", broken)
    with pytest.raises(recordings.Difference, match="tensor 1 value"):
        recordings.attempt(
            b"reference every\nfresh: 3 0 0 1 0 0 0 0\nneg: 0 0 0 0 0 0 0 0\nread: 0"
        )
