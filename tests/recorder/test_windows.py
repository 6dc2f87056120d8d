"""Views of values in memory: one program for all offsets, and eager's values."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ftm_lazy import _C
from ftm_lazy.compile.trace_importer import trace_of

pytestmark = pytest.mark.usefixtures("forgotten")

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool]

WINDOWS: dict[str, Callable[[Tensor], Tensor]] = {
    "rows": lambda x: x[3:6],
    "last rows": lambda x: x[-2:],
    "one row": lambda x: x[5],
    "one element": lambda x: x[2, 3, 1],
    "last element": lambda x: x[-1, -1, -1],
    "columns": lambda x: x[:, 1:3],
    "every second": lambda x: x[1::2, ::2],
    "transposed": lambda x: x[1:4].transpose(0, 2),
    "expanded": lambda x: x[4].expand(3, -1, -1),
    "overlapping": lambda x: x[2:7].flatten().unfold(0, 8, 3),
    "diagonal": lambda x: x[1].diagonal(),
    "of a window": lambda x: x[1:6][2:4][:, 2],
    "flipped": lambda x: x[2:5].flip(0),
}


def programs() -> int:
    """Programs that were needed so far."""
    return _C._counters()["executions"] - _C._counters().get("cache_hits_memory", 0)


def data(dtype: torch.dtype = torch.float32) -> Tensor:
    values = torch.arange(7 * 5 * 3).remainder(101)
    return (values % 2 == 0 if dtype == torch.bool else values.to(dtype)).reshape(7, 5, 3)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", WINDOWS)
def test_values_are_those_of_eager(name: str, dtype: torch.dtype) -> None:
    window, x = WINDOWS[name], data(dtype)
    on_device = x.to("ftm")
    assert torch.equal((window(on_device) * 2).cpu(), window(x) * 2)
    assert torch.equal((window(on_device) + window(on_device + 1)).cpu(), window(x) + window(x + 1))
    assert torch.equal(window(on_device).clone().cpu(), window(x).clone())
    assert torch.equal(on_device.cpu(), x)


@pytest.mark.parametrize("other", [torch.int32, torch.uint8, torch.float16], ids=str)
def test_windows_of_another_dtype(other: torch.dtype) -> None:
    x = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    expected, seen = x.view(other)[1:3, 2:], x.to("ftm").view(other)[1:3, 2:]
    assert torch.equal((seen + seen).cpu(), expected + expected)
    assert torch.equal(
        seen.view(torch.uint8).to(torch.int32).cpu(), expected.view(torch.uint8).to(torch.int32)
    )


def test_batches_of_a_data_set_run_one_program() -> None:
    x = torch.randn(50, 4)
    on_device = x.to("ftm")
    for start in range(0, 50, 10):
        batch, expected = on_device[start : start + 10], x[start : start + 10]
        torch.testing.assert_close((batch @ batch.T).sum().cpu(), (expected @ expected.T).sum())
    assert programs() == 1


def test_elements_in_a_loop_run_one_program() -> None:
    x = torch.randn(4, 5)
    on_device = x.to("ftm")
    for i in range(4):
        for j in range(5):
            assert (on_device[i, j] * 2).item() == x[i, j].item() * 2
    assert programs() == 1


def test_a_program_tells_windows_apart() -> None:
    x = data()
    on_device = x.to("ftm")
    results = {}
    for a, b in ((0, 1), (1, 0), (2, 2), (5, 3)):
        results[a, b] = (on_device[a] - 2 * on_device[b], x[a] - 2 * x[b])
        assert torch.equal(results[a, b][0].cpu(), results[a, b][1])
    assert programs() == 2  # another one where both windows are the same


def test_a_window_outlives_its_tensor_and_what_is_written_there() -> None:
    x = data()
    on_device = x.to("ftm")
    kept, copied, doubled = on_device[2:4], on_device[2:4].clone(), on_device[2:4] * 2
    moved = torch.empty_like(x[2:4].transpose(0, 1), device="ftm").copy_(
        on_device[2:4].transpose(0, 1)
    )
    on_device.mul_(3)
    on_device[3] = -1
    del on_device
    assert torch.equal(copied.cpu(), x[2:4])
    assert torch.equal(moved.cpu(), x[2:4].transpose(0, 1))
    assert torch.equal(doubled.cpu(), x[2:4] * 2)
    assert torch.equal(kept.cpu(), torch.stack([x[2] * 3, torch.full((5, 3), -1.0)]))
    assert torch.equal((copied[0] + copied[1]).cpu(), x[2] + x[3])


def test_state_is_still_donated(executor: str) -> None:
    if executor == "reference":
        pytest.skip("the reference executor donates nothing")
    state = torch.zeros(64, 8).to("ftm")
    for step in range(5):
        assert (state[step] + 1).sum() == 8 * (step + 1)
        state.add_(1)
        _C._sync(True)
    assert _C._counters()["donations"] >= 4


def test_gradients_through_batches() -> None:
    x, w = torch.randn(12, 3), torch.randn(3, 2)
    for device in ("cpu", "ftm"):
        data_, weight = x.to(device), w.to(device, copy=True).requires_grad_()
        for start in (0, 4, 8):
            (data_[start : start + 4] @ weight).square().sum().backward()
        if device == "cpu":
            expected = weight.grad
    torch.testing.assert_close(weight.grad.cpu(), expected)


def test_a_value_that_was_written_over_before_it_was_in_memory_is_no_state() -> None:
    """Positions of a text: made in two steps, they are read as those that another program made."""
    for n in range(3, 7):
        positions = torch.arange(8.0).to("ftm") * 2
        positions[0] = 1.0
        positions.sum().item()
        for k in range(2):
            assert (positions[n + k - 2 : n + k] + 1).tolist() == [2 * (n + k) - 3, 2 * (n + k) - 1]
    assert programs() == 2


def test_a_write_through_an_index_stays_one_where_it_covers_all() -> None:
    """A search records each new token in the same way if there is only one."""

    def noted(tokens: int) -> Tensor:
        found = torch.zeros(2, 3, tokens, device="ftm") + 1
        found[:, :, tokens - 1] = torch.arange(6.0).reshape(2, 3).to("ftm")
        return found

    several, one = (str(trace_of(_C._trace([noted(tokens)]))) for tokens in (5, 1))
    assert [line.count("ftm.update") for line in (several, one)] == [1, 1]
    assert noted(1).tolist() == [[[0], [1], [2]], [[3], [4], [5]]]
    whole = torch.zeros(2, 3, 1, device="ftm") + 1
    whole.view(6).copy_(torch.arange(6.0).to("ftm"))
    assert "ftm.update" not in str(trace_of(_C._trace([whole])))
    assert whole.tolist() == noted(1).tolist()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_in_memory_are_read_by_no_program(dtype: torch.dtype) -> None:
    x = data(dtype).to("ftm") + 0
    x.cpu()
    _C._reset_counters()
    y = x.float() + 1
    parts = [x[2:4].clone(), x.clone(), x[3, 2].clone()]
    for part, expected in zip(
        parts, (data(dtype)[2:4], data(dtype), data(dtype)[3, 2]), strict=True
    ):
        assert torch.equal(part.cpu(), expected)
    assert _C._counters().get("executions", 0) == 0
    parts[0].zero_()
    assert torch.equal(x.cpu(), data(dtype))
    assert torch.equal((parts[1].float() + y).cpu(), 2 * data(dtype).float() + 1)
    assert _C._counters()["executions"] == 1
