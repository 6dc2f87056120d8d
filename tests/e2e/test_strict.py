"""FTM_STRICT refuses whatever would compute beside compiled programs; without it each is counted
under a name of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

import ftm_lazy
from ftm_backend.frontend.ops import native_ops
from ftm_lazy import _C
from ftm_lazy.device import registration


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    registration.initialize()
    yield
    _C._set_strict(False)
    _C._set_native_ops({name: list(dtypes) for name, dtypes in native_ops().items()})


def counted(name: str) -> int:
    return ftm_lazy.metrics.counters()[name]


def uncompiled() -> torch.Tensor:
    """The result of a program that does not compile: of an op that is said to be native and has no
    record."""
    _C._set_native_ops({"*": []})
    return torch.linalg.householder_product(torch.eye(3).to("ftm"), torch.zeros(3).to("ftm"))


def test_a_program_that_does_not_compile() -> None:
    programs, runs = counted("compile_failures"), counted("op_by_op_runs")
    with pytest.warns(UserWarning, match="could not be compiled and runs op by op"):
        assert uncompiled().cpu().tolist() == torch.eye(3).tolist()
    assert (counted("compile_failures"), counted("op_by_op_runs")) == (programs + 1, runs + 1)
    _C._set_strict(True)
    result = uncompiled()  # found in memory
    with pytest.raises(
        RuntimeError, match=r"(?s)FTM_STRICT forbids to run it op by op on the CPU: .*householder"
    ):
        result.cpu()
    assert counted("op_by_op_runs") == runs + 1


def test_a_fault_that_would_be_run_again() -> None:
    def embed() -> torch.Tensor:
        return nn.functional.embedding(
            torch.tensor([4]).to("ftm") + 0, torch.ones(4, 2, device="ftm")
        )

    replays = counted("fault_replays")
    with pytest.raises(IndexError):
        embed().cpu()
    assert counted("fault_replays") == replays + 1
    _C._set_strict(True)
    with pytest.raises(RuntimeError, match="FTM_STRICT forbids to run the program again") as caught:
        embed().cpu()
    assert (
        f"what can fail in it was recorded at {__file__}:{embed.__code__.co_firstlineno + 1})"
        in str(caught.value)
    )
    assert counted("fault_replays") == replays + 1


def test_a_fill_on_the_cpu() -> None:
    fills = counted("cpu_fills")
    x = torch.full((3,), 1 + 2j, device="ftm")
    assert counted("cpu_fills") == fills + 1 and x.cpu().tolist() == [1 + 2j] * 3
    _C._set_strict(True)
    with pytest.raises(
        NotImplementedError, match=r"a fill of .* FTM_STRICT forbids to compute it on the CPU"
    ):
        torch.full((3,), 1 + 2j, device="ftm")
    assert (torch.full((3,), 2.0, device="ftm") + 1).tolist() == [3, 3, 3]


def test_places_of_a_mask() -> None:
    """How large the result is has to be known, so the CPU looks; in strict mode the reader says so,
    or keeps the size."""
    x, mask = torch.arange(4.0).to("ftm"), torch.tensor([True, False, True, True]).to("ftm")
    before = counted("places_on_cpu")
    # whose elements came from the CPU, and that the device computes
    for known in (mask, mask & True):
        assert (x[known] * 2).tolist() == [0, 4, 6]
    assert torch.nonzero(mask).flatten().tolist() == [0, 2, 3]
    assert counted("places_on_cpu") == before + 3
    _C._set_strict(True)
    for asked in (lambda: x[mask], lambda: x[mask & True], lambda: x.masked_select(mask)):
        with pytest.raises(
            NotImplementedError,
            match=r"aten::index.* FTM_STRICT forbids to\. .* index by mask\.cpu\(\)\.nonzero",
        ):
            asked()
    with pytest.raises(NotImplementedError, match=r"aten::nonzero .* FTM_STRICT forbids to"):
        torch.nonzero(mask)
    assert counted("places_on_cpu") == before + 3
    assert (x[mask.cpu().nonzero(as_tuple=True)] * 2).tolist() == [0, 4, 6]
    assert (torch.where(mask, x, 0) * 2).tolist() == [0, 0, 4, 6]
    x[mask] = 7
    assert x.tolist() == [7, 1, 7, 7]


def test_equal_places_of_a_sparse_tensor() -> None:
    def twice() -> torch.Tensor:
        return torch.sparse_coo_tensor(
            torch.tensor([[1, 1]]), torch.ones(2), (3,), check_invariants=False
        ).to("ftm")

    before = counted("places_on_cpu")
    assert twice().coalesce().to_dense().tolist() == [0, 2, 0]
    assert counted("places_on_cpu") == before + 1
    _C._set_strict(True)
    with pytest.raises(
        NotImplementedError,
        match=r"aten::_coalesce .* FTM_STRICT forbids to\. .* is_coalesced=True",
    ):
        twice().coalesce()


def test_scales_of_dynamic_quantization() -> None:
    x, before = torch.arange(-3.0, 8, device="ftm"), counted("scales_on_cpu")
    assert torch.quantize_per_tensor_dynamic(x, torch.quint8, False).q_zero_point() == 76
    assert counted("scales_on_cpu") == before + 1
    _C._set_strict(True)
    with pytest.raises(
        NotImplementedError,
        match=r"chooses the scale on the CPU, and FTM_STRICT forbids to\. .* quantize_per_tensor,",
    ):
        torch.quantize_per_tensor_dynamic(x, torch.quint8, False)
    assert torch.quantize_per_tensor(x, 0.5, 10, torch.quint8).int_repr().tolist() == [
        4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24,
    ]  # fmt: skip


def test_equal_is_computed_on_the_device() -> None:
    """As eager's: no NaN equals itself, and lazy conjugation counts as what it stands for; so in
    quantization with tensors."""
    x, z = torch.arange(6.0).reshape(2, 3).to("ftm"), torch.tensor([1 + 2j, 3 - 1j]).to("ftm")
    nan, empty = torch.tensor([1.0, float("nan")]).to("ftm"), torch.empty(0, 3, device="ftm")
    _C._set_strict(True)
    runs = counted("executions")
    assert not torch.equal(x, empty.T) and counted("executions") == runs  # nothing to compare
    assert torch.equal(x, x.clone()) and counted("executions") == runs + 1
    assert (
        torch.equal(x, x + 0)
        and torch.equal(x.t(), x.t().contiguous())
        and torch.equal(empty, empty + 0)
    )
    assert (
        not torch.equal(x, x + (x == 4)) and not torch.equal(x, x.t()) and not torch.equal(nan, nan)
    )
    assert torch.equal(z.conj(), z.conj().resolve_conj()) and not torch.equal(z.conj(), z)
    for dtype in (
        torch.bool,
        torch.uint8,
        torch.int64,
        torch.bfloat16,
        torch.float16,
        torch.float64,
    ):
        assert torch.equal(x.to(dtype), (x + 0).to(dtype)) and not torch.equal(
            x.to(dtype), x.logical_not().to(dtype)
        )
    # of two types, as on the CPU
    assert torch.equal(x, x.double()) and not torch.equal(x.double() + 1e-9, x)
    scale, zero = torch.tensor(0.5).to("ftm"), torch.tensor(10).to("ftm")
    first, second = (
        torch.quantize_per_tensor(x, scale, zero, torch.quint8),
        torch.quantize_per_tensor(x, 0.5, 10, torch.quint8),
    )
    assert torch.equal(first, second) and first.int_repr().flatten().tolist() == [
        10, 12, 14, 16, 18, 20,
    ]  # fmt: skip
