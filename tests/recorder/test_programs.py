"""Programs: equal ones run the same executable, different ones never do."""

import random
from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ftm_lazy import _C
from ftm_lazy.compile.trace_importer import trace_of

pytestmark = pytest.mark.usefixtures("forgotten")

INSTANCE_BYTES = 32 << 20


def hits() -> int:
    return _C._counters().get("cache_hits_memory", 0)


def runs() -> int:
    return _C._counters().get("executions", 0)


def pair() -> tuple[Tensor, Tensor]:
    return torch.tensor([1.0, 2.0]).to("ftm"), torch.tensor([10.0, 30.0]).to("ftm")


def run(
    compute: Callable[[Tensor, Tensor], tuple[Tensor, ...]], a: Tensor, b: Tensor
) -> list[list[float]]:
    results = compute(a, b)
    _C._sync(True)
    return [result.cpu().tolist() for result in results]


@pytest.fixture
def few_programs() -> Iterator[int]:
    """How many are kept."""
    _C._set_program_limit(3, INSTANCE_BYTES)
    yield 3
    _C._set_program_limit(256, INSTANCE_BYTES)


def test_the_longest_unused_is_forgotten(few_programs: int) -> None:
    rows = [torch.ones(n).to("ftm") for n in range(1, 8)]
    for row in rows:
        assert (row + 1).cpu().tolist() == [2.0] * row.numel()
        (rows[0] + 1).cpu()  # in use all the time
    assert _C._program_count() == few_programs
    before = hits()
    assert [(rows[i] + 1).cpu().numel() for i in (0, 5, 6)] == [1, 6, 7]
    assert hits() == before + 3
    (rows[1] + 1).cpu()
    assert hits() == before + 3 and _C._program_count() == few_programs


def test_empty_cache_forgets_programs() -> None:
    x = torch.ones(3).to("ftm")
    assert (x + 1).sum().item() == 6 and _C._program_count() > 0
    y = x * 2
    torch.ftm.empty_cache()
    assert _C._program_count() == 0
    assert y.cpu().tolist() == [2.0] * 3 and (x + 1).sum().item() == 6
    with pytest.raises(ValueError, match="at least one program"):
        _C._set_program_limit(0, INSTANCE_BYTES)
    with pytest.raises(ValueError, match="number of bytes"):
        _C._set_program_limit(1, -1)


def test_swapped_operands_are_another_program() -> None:
    a, b = pair()
    assert run(lambda a, b: (a.sum(), b.sum(), a - b), a, b) == [3, 40, [-9, -28]]
    assert run(lambda a, b: (a.sum(), b.sum(), b - a), a, b) == [3, 40, [9, 28]]
    assert hits() == 0


def test_swapped_inputs_are_the_same_program() -> None:
    a, b = pair()
    assert run(lambda a, b: (a - b,), a, b) == [[-9, -28]]
    assert run(lambda a, b: (a - b,), b, a) == [[9, 28]]
    assert hits() == 1


def test_one_input_twice_is_another_program() -> None:
    a, b = pair()
    assert run(lambda a, b: (a - b,), a, b) == [[-9, -28]]
    assert run(lambda a, b: (a - b,), a, a) == [[0, 0]]
    assert run(lambda a, b: (a - b,), a, a.clone()) == [[0, 0]]
    assert hits() == 1  # an unwritten clone has the same value


def test_order_of_results() -> None:
    a, b = pair()
    assert run(lambda a, b: (a + b, a * b), a, b) == [[11, 32], [10, 60]]
    assert run(lambda a, b: (a * b, a + b), a, b) == [[10, 60], [11, 32]]
    assert hits() == 0


@pytest.mark.parametrize(
    "values", [(0.5, 0.25), (0.0, 1.0), (1.0, 0.0), (1e-8, 1e-8), (float("inf"), -0.0)]
)
def test_scalars_never_make_another_program(values: tuple[float, float]) -> None:
    a, _ = pair()
    for first, second in ((2.0, 3.0), values):
        expected = (torch.tensor([1.0, 2.0]) * first + second).tolist()
        assert (a * first + second).tolist() == expected
    assert (runs(), hits()) == (2, 1)


def test_attributes_make_another_program() -> None:
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).to("ftm")
    assert a.sum(0).tolist() == [4, 6]
    assert a.sum(1).tolist() == [3, 7]
    assert a.softmax(0).tolist() != a.softmax(1).tolist()
    assert hits() == 0


def test_loops_settle() -> None:
    x = torch.ones(3, device="ftm")
    for step in range(6):
        x.mul_(1.0 - 0.1 * step)
        if step == 3:
            _C._reset_counters()
        x.sum().item()
    assert hits() == runs() == 3


def _random_program(seed: int) -> tuple[str, Callable[[list[Tensor]], list[Tensor]]]:
    """A program on three inputs as a canonical description and a function."""
    generator = random.Random(seed)
    steps: list[tuple[str, int, int]] = []
    for _ in range(generator.randint(1, 4)):
        known = 3 + len(steps)
        steps.append(
            (
                generator.choice(["sub", "mul", "view", "scale"]),
                generator.randrange(known),
                generator.randrange(known),
            )
        )
    wanted = sorted({3 + generator.randrange(len(steps)) for _ in range(2)})

    def compute(inputs: list[Tensor]) -> list[Tensor]:
        values = list(inputs)
        for op, i, j in steps:
            a, b = values[i], values[j]
            values.append(
                {
                    "sub": lambda: a - b,
                    "mul": lambda: a * b,
                    "view": lambda: a.t() - b,
                    "scale": lambda: a * 3,
                }[op]()
            )
        return [values[index] for index in wanted]

    return repr((steps, wanted)), compute


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 120), st.integers(0, 120), st.permutations(range(3)), st.booleans())
def test_equal_hash_exactly_for_equal_programs(
    first: int, second: int, order: list[int], duplicate: bool
) -> None:
    """Two random programs: the second hits the cache exactly when its text is the first one's."""
    cpu = [torch.arange(4.0).reshape(2, 2) + 10 * i for i in range(3)]
    inputs = [tensor.to("ftm") for tensor in cpu]
    _C._reset()
    seen: list[str] = []
    for seed, chosen in (
        (first, [0, 1, 2]),
        (second, [order[0], order[1], order[0] if duplicate else order[2]]),
    ):
        _, compute = _random_program(seed)
        results = compute([inputs[i] for i in chosen])
        text = str(trace_of(_C._trace([])))
        before = hits()
        _C._sync(True)
        assert (hits() > before) == (text in seen), text
        seen.append(text)
        for mine, theirs in zip(results, compute([cpu[i] for i in chosen]), strict=True):
            assert mine.cpu().tolist() == theirs.tolist()
