"""Tensors that were never written."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from ftm_lazy import _C


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32, torch.bfloat16, torch.complex64, torch.int8, torch.int64, torch.uint64,
        torch.bool,
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "make",
    [
        lambda **options: torch.empty(3, 5, **options),
        lambda **options: torch.empty_strided((4, 2), (1, 6), **options),
        lambda **options: torch.empty_like(torch.ones(2, 3, **options)),
        lambda **options: torch.ones(2, 3, **options).resize_(4, 3),
        lambda **options: torch.ones(2, 3, **options).resize_(1, 3),
    ],
)
def test_unwritten_memory_is_filled_where_that_is_asked_for(
    make: Callable[..., Tensor], dtype: torch.dtype
) -> None:
    expected, actual = (make(dtype=dtype, device=device).cpu() for device in ("cpu", "ftm"))
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "fill",
    [
        lambda out: torch.arange(0, 4, out=out),
        lambda out: torch.linspace(0, 3, 4, out=out),
        lambda out: torch.logspace(0, 3, 4, out=out),
        lambda out: torch.arange(0, 6, out=out),
    ],
)
def test_a_row_keeps_the_shape_of_what_it_fits(fill: Callable[[Tensor], Tensor]) -> None:
    seen = []
    for device in ("cpu", "ftm"):
        base = torch.zeros(2, 3, device=device)
        out = base.narrow(1, 1, 2)
        fill(out)
        seen.append((out.shape, out.cpu(), base.cpu()))
    (shape, values, base), expected = seen[1], seen[0]
    assert shape == expected[0]
    assert torch.equal(values, expected[1])
    assert torch.equal(base, expected[2])


def test_what_shares_memory_is_set_to_it() -> None:
    x = torch.ones(4, 3, device="ftm")
    assert torch.empty(0, device="ftm").set_(x).is_set_to(x)
    assert x[1:].is_set_to(x[1:])
    assert not x[1:].is_set_to(x[:-1])
    assert not x.clone().is_set_to(x)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        (torch.uint16, 2**16 - 1),
        (torch.uint32, 3),
        (torch.uint64, 2**64 - 1),
        (torch.float8_e4m3fn, 2),
    ],
)
def test_rare_dtypes_are_filled_without_a_program(dtype: torch.dtype, number: int) -> None:
    filled, expected = (
        torch.full((3,), number, dtype=dtype, device=device).cpu() for device in ("ftm", "cpu")
    )
    assert torch.equal(filled.view(torch.uint8), expected.view(torch.uint8))
    assert not torch.ones(3, dtype=dtype, device="ftm").zero_().cpu().view(torch.uint8).any()


@pytest.mark.parametrize("arguments", [(5,), (6, False), (6, True, 8.0)])
def test_kaiser_windows(arguments: tuple[object, ...]) -> None:
    torch.testing.assert_close(
        torch.kaiser_window(*arguments, device="ftm").cpu(), torch.kaiser_window(*arguments)
    )


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.int8])
def test_the_value_of_a_bool_makes_no_program(dtype: torch.dtype) -> None:
    x = torch.arange(4.0, device="ftm")
    _C._sync(True)
    _C._reset()
    for value in (True, False, True):
        filled = torch.full((4,), value, dtype=dtype, device="ftm")
        assert torch.where(x > 1, filled, filled == 0).tolist() == [not value] * 2 + [value] * 2
    assert _C._program_count() == 1
