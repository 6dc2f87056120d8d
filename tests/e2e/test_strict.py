"""FTM_STRICT refuses whatever would compute beside compiled programs; without it each is counted under a name of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

import ftm_lazy
from ftm_backend.frontend.ops import native_ops
from ftm_lazy import _C, registration


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    registration.initialize()
    yield
    _C._set_strict(False)
    _C._set_native_ops({name: list(dtypes) for name, dtypes in native_ops().items()})


def counted(name: str) -> int:
    return ftm_lazy.metrics.counters()[name]


def uncompiled() -> torch.Tensor:
    """The result of a program that does not compile: of an op that is said to be native and has no record."""
    _C._set_native_ops({"*": []})
    return torch.linalg.cholesky_ex(4 * torch.eye(3).to("ftm"))[0]


def test_a_program_that_does_not_compile() -> None:
    programs, runs = counted("compile_failures"), counted("op_by_op_runs")
    with pytest.warns(UserWarning, match="could not be compiled and runs op by op"):
        assert uncompiled().cpu().tolist() == (2 * torch.eye(3)).tolist()
    assert (counted("compile_failures"), counted("op_by_op_runs")) == (programs + 1, runs + 1)
    _C._set_strict(True)
    result = uncompiled()  # found in memory
    with pytest.raises(RuntimeError, match=r"(?s)FTM_STRICT forbids to run it op by op on the CPU: .*cholesky"):
        result.cpu()
    assert counted("op_by_op_runs") == runs + 1


def test_a_fault_that_would_be_run_again() -> None:
    def embed() -> torch.Tensor:
        return nn.functional.embedding(torch.tensor([4]).to("ftm") + 0, torch.ones(4, 2, device="ftm"))

    replays = counted("fault_replays")
    with pytest.raises(IndexError):
        embed().cpu()
    assert counted("fault_replays") == replays + 1
    _C._set_strict(True)
    with pytest.raises(RuntimeError, match="FTM_STRICT forbids to run the program again") as caught:
        embed().cpu()
    assert f"what can fail in it was recorded at {__file__}:{embed.__code__.co_firstlineno + 1})" in str(caught.value)
    assert counted("fault_replays") == replays + 1


def test_a_fill_on_the_cpu() -> None:
    fills = counted("cpu_fills")
    x = torch.full((3,), 1 + 2j, device="ftm")
    assert counted("cpu_fills") == fills + 1 and x.cpu().tolist() == [1 + 2j] * 3
    _C._set_strict(True)
    with pytest.raises(NotImplementedError, match=r"a fill of .* FTM_STRICT forbids to compute it on the CPU"):
        torch.full((3,), 1 + 2j, device="ftm")
    assert (torch.full((3,), 2.0, device="ftm") + 1).tolist() == [3, 3, 3]


def test_places_of_a_mask() -> None:
    """How large the result is has to be known; what is taken from the places is computed by a program, in strict mode as well."""
    x, mask = torch.arange(4.0).to("ftm"), torch.tensor([True, False, True, True]).to("ftm")
    _C._set_strict(True)
    before, fallbacks = counted("places_on_cpu"), sum(n for name, n in ftm_lazy.metrics.counters().items() if name.startswith("fallback::"))
    assert (x[mask] * 2).tolist() == [0, 4, 6]
    assert counted("places_on_cpu") == before + 1
    assert sum(n for name, n in ftm_lazy.metrics.counters().items() if name.startswith("fallback::")) == fallbacks
