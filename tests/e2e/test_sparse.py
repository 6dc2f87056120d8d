"""Sparse matrices and sparse gradients: as on the CPU, with products, sums and scalings on the
device."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
import torch
from torch import Tensor

import ftm_lazy
from e2e.counting import fallbacks
from strangers import sparse_arithmetic

PLACES = torch.tensor([[0, 1, 1, 2, 0], [2, 0, 2, 1, 2]])
NUMBERS = torch.tensor([3.0, 4, 5, 6, 7])


def matrix(device: str) -> Tensor:
    """3 x 4, with one place twice."""
    return torch.sparse_coo_tensor(PLACES.to(device), NUMBERS.to(device), (3, 4))


def rows(device: str) -> Tensor:
    return (torch.arange(8.0) - 3).view(4, 2).to(device)


def compressed(device: str) -> Tensor:
    parts = (torch.tensor([0, 2, 3, 3]), torch.tensor([1, 2, 0]), torch.tensor([1.0, 2, 3]))
    return torch.sparse_csr_tensor(*(p.to(device) for p in parts), (3, 4))


NATIVE: dict[str, Callable[[str], Tensor]] = {
    "moved": lambda d: matrix("cpu").to(d).cpu().to_dense(),
    "coalesce": lambda d: matrix(d).coalesce().values(),
    "coalesced places": lambda d: matrix(d).coalesce().indices(),
    "mm": lambda d: torch.sparse.mm(matrix(d), rows(d)),
    "matmul": lambda d: matrix(d) @ rows(d),
    "transposed": lambda d: matrix(d).t() @ rows(d)[:3],
    "dense by sparse": lambda d: rows(d)[:3].t() @ matrix(d),
    "addmm": lambda d: torch.sparse.addmm(
        torch.ones(3, 2, device=d), matrix(d), rows(d), beta=2.0, alpha=3.0
    ),
    "mv": lambda d: torch.mv(matrix(d), rows(d)[:, 0]),
    "scaled": lambda d: (-(matrix(d) * 2) / 3).to_dense(),
    "sum of two": lambda d: (matrix(d) + matrix(d) * 0.5 - matrix(d)).to_dense(),
    "added to dense": lambda d: torch.ones(3, 4, device=d).add_(matrix(d), alpha=-0.5),
    "from dense": lambda d: torch.tensor([[0, 1.0, 0], [2, 0, 3]]).to(d).to_sparse().values(),
    "masked": lambda d: (
        torch.arange(12.0, device=d).view(3, 4).sparse_mask(matrix(d).coalesce()).to_dense()
    ),
    "compressed rows": lambda d: compressed(d) @ rows(d),
    "compressed rows, moved": lambda d: compressed("cpu").to(d) @ rows(d),
}
COUNTED: dict[str, Callable[[str], Tensor]] = {
    "sparse by sparse": lambda d: torch.sparse.mm(matrix(d), matrix(d).t()).to_dense(),
    "softmax": lambda d: torch.sparse.softmax(matrix(d), 1).to_dense(),
    "to compressed rows": lambda d: matrix(d).coalesce().to_sparse_csr().to_dense(),
}


@pytest.mark.parametrize("name", NATIVE)
def test_on_the_device(name: str) -> None:
    torch.testing.assert_close(NATIVE[name]("ftm").cpu(), NATIVE[name]("cpu"))
    assert not fallbacks(ftm_lazy.metrics.counters())


@pytest.mark.filterwarnings("ignore:.*it runs on the CPU")
@pytest.mark.parametrize("name", COUNTED)
def test_on_the_cpu(name: str) -> None:
    torch.testing.assert_close(COUNTED[name]("ftm").cpu(), COUNTED[name]("cpu"))
    assert fallbacks(ftm_lazy.metrics.counters())


def test_gradients_of_a_product() -> None:
    found = []
    for device in ("cpu", "ftm"):
        adjacency, x = matrix(device).coalesce().requires_grad_(), rows(device).requires_grad_()
        torch.sparse.mm(adjacency, x).square().sum().backward()
        found.append((adjacency.grad.to_dense().cpu(), x.grad.cpu()))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("optimizer", ["SparseAdam", "SGD", "Adagrad"])
def test_embeddings_with_sparse_gradients(optimizer: str) -> None:
    found = []
    for device in ("cpu", "ftm"):
        torch.manual_seed(0)
        table = torch.nn.Embedding(10, 3, sparse=True, padding_idx=2).to(device)
        step = getattr(torch.optim, optimizer)(table.parameters(), lr=0.1)
        for k in range(3):
            loss = (
                table(torch.tensor([1, 2, 1 + k, 5]).to(device)).square().sum()
                + table(torch.tensor([3]).to(device)).sum()
            )
            step.zero_grad()
            loss.backward()
            assert table.weight.grad.is_sparse
            step.step()
        found.append(table.weight.detach().cpu())
    torch.testing.assert_close(found[1], found[0])
    assert not fallbacks(ftm_lazy.metrics.counters())


def test_a_graph_convolution_learns() -> None:
    found = []
    for device in ("cpu", "ftm"):
        torch.manual_seed(0)
        edges = torch.randint(0, 20, (2, 60))
        adjacency = torch.sparse_coo_tensor(edges, torch.rand(60), (20, 20)).to(device)
        features, labels, train = (
            torch.randn(20, 8).to(device),
            torch.randint(0, 3, (20,)).to(device),
            (torch.rand(20) < 0.5).to(device),
        )
        first, second = torch.nn.Linear(8, 16).to(device), torch.nn.Linear(16, 3).to(device)
        adam = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01)
        losses = []
        for _ in range(4):
            hidden = torch.relu(torch.sparse.mm(adjacency, first(features)))
            scores = torch.sparse.mm(adjacency, second(hidden))
            loss = torch.nn.functional.cross_entropy(scores[train], labels[train])
            adam.zero_grad()
            loss.backward()
            adam.step()
            losses.append(loss.item())
        found.append(losses)
    assert found[1] == pytest.approx(found[0], rel=1e-4)
    counters = ftm_lazy.metrics.counters()
    assert not fallbacks(counters)
    # the mask came from the CPU
    assert not any(n for name, n in counters.items() if name.startswith("sync::"))


@pytest.mark.parametrize("reduce", ("amax", "amin", "mean"))
def test_gradients_of_products_that_reduce_otherwise(reduce: str) -> None:
    """The CPU's kernel notes where a maximum comes from only if it is told that a gradient is
    wanted."""
    found = []
    for device in ("cpu", "ftm"):
        left, right = compressed(device).requires_grad_(), rows(device).requires_grad_()
        torch.sparse.mm(left, right, reduce).square().sum().backward()
        found.append([left.grad.to_dense().cpu(), right.grad.cpu()])
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.filterwarnings("ignore:.*it runs on the CPU")
def test_a_dense_tensor_is_scaled_by_a_sparse_one_in_place() -> None:
    x = torch.ones(3, device="ftm")
    assert x.mul_(torch.tensor([0.0, 2, 0]).to("ftm").to_sparse()) is x
    assert x.tolist() == [0, 2, 0]


@pytest.mark.filterwarnings("ignore:.*it runs on the CPU")
@pytest.mark.parametrize("name", ["add_", "sub_", "mul_", "div_"])
def test_results_that_the_dtype_does_not_hold_are_refused(name: str) -> None:
    whole, broken = (
        torch.tensor([0, 3.0, 0]).to(dtype).to("ftm").to_sparse()
        for dtype in (torch.int64, torch.float32)
    )
    with pytest.raises(RuntimeError, match=r"(?i)convert|cast|divis"):
        getattr(whole, name)(broken)
    assert whole.to_dense().tolist() == [0, 3, 0]


@pytest.mark.filterwarnings("ignore:.*it runs on the CPU")
def test_the_cpu_may_change_how_many_elements_a_sparse_argument_has() -> None:
    for make in (Tensor.to_sparse_coo, Tensor.to_sparse_csr):
        out, x = make(torch.zeros(2, 3)).to("ftm"), make(torch.eye(2, 3)).to("ftm")
        assert torch.mul(x, x, out=out) is out
        assert out.to_dense().tolist() == torch.eye(2, 3).tolist()


def test_binary_ops_agree_with_the_cpu() -> None:
    """The start of campaign ``tests/strangers/sparse_arithmetic.py``."""
    assert [fault for seed in range(300) if (fault := sparse_arithmetic.check(Random(seed)))] == []
