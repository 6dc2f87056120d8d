"""If an index is written twice the last value stays, for any number of CPU threads and any
determinism setting."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from python_process import run_python

ROWS, WIDTH = 2000, 1000  # so much that the kernels divide it


@pytest.fixture
def threads() -> Iterator[None]:
    """Four threads for this one; `torch.set_num_threads` would change MKL for the whole process."""
    openmp = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libgomp.so.1"))
    before = torch.get_num_threads()
    openmp.omp_set_num_threads(4)
    yield
    openmp.omp_set_num_threads(before)
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


AFTERWARDS = """
import torch
x, index = torch.zeros(2000, 8).to("ftm"), torch.zeros(4000, dtype=torch.long)
x.index_copy(0, index.to("ftm"), torch.ones(4000, 8).to("ftm")).cpu()
a = torch.randn(2, 150, 150, dtype=torch.float64)
for _ in range(50):
    torch.linalg.lu_factor_ex(a)
print(torch.get_num_threads())
"""


def test_factorizations_on_the_cpu_do_not_hang_afterwards() -> None:
    """They do in PyTorch after `torch.set_num_threads(2)`."""
    done = run_python(AFTERWARDS, timeout=60, FTM_EXECUTOR="reference")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == torch.get_num_threads()
