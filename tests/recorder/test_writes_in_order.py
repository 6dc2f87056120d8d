"""If an index is written twice the last value stays, for any number of CPU threads and any
determinism setting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

ROWS, WIDTH = 2000, 1000  # so much that the kernels divide it


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("deterministic", [False, True])
def test_rows_that_are_written_twice(threads: None, deterministic: bool) -> None:
    index = torch.randint(ROWS, (2 * ROWS,))
    values = torch.arange(2.0 * ROWS)[:, None].expand(-1, WIDTH).contiguous()
    last = torch.zeros(ROWS)
    for place, value in zip(index.tolist(), range(2 * ROWS), strict=True):
        last[place] = value
    x, i, v = torch.zeros(ROWS, WIDTH).to("ftm"), index.to("ftm"), values.to("ftm")
    torch.use_deterministic_algorithms(deterministic)
    found = {
        "index_copy": x.index_copy(0, i, v),
        "index_put": x.index_put((i,), v),
        "in place": x.clone().index_copy_(0, i, v),
    }
    torch.use_deterministic_algorithms(False)  # before they run
    for name, result in found.items():
        assert torch.equal(result.cpu(), last[:, None].expand(-1, WIDTH)), name
    assert torch.get_num_threads() == 4
