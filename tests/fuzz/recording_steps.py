"""Steps of recorded programs, see ``recordings.py``: a name, what it does with tensors and numbers,
and what is known of it."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

Tensors = list[Tensor]
Numbers = Sequence[int]
DTYPES = (
    torch.float32, torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip
SHAPES: tuple[tuple[int, ...], ...] = (
    (), (0,), (1,), (3,), (5,), (2, 3), (3, 3), (4, 1), (0, 3), (3, 0), (2, 0, 3), (2, 3, 4),
    (1, 1, 1), (3, 3, 2, 2), (2, 1, 4, 4), (17,), (6, 33),
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """``run(device, operands, numbers)`` makes tensors; ``operands``: how many of the first numbers
    name one."""

    run: Callable[[str, Tensors, Numbers], Sequence[object]]
    operands: int = 1
    writes: bool = False
    exact: bool = True  # of exact operands it makes exact results
    decides: bool = False  # small differences of operands are large ones of results
    special: str = ""
    weight: float = 1.0


STEPS: dict[str, Step] = {}


def _many(functions: dict[str, Callable[..., object]], operands: int, **known: object) -> None:
    """Steps of operands and at most two numbers."""

    def of(function: Callable[..., object]) -> Callable[[str, Tensors, Numbers], Sequence[object]]:
        def run(device: str, tensors: Tensors, numbers: Numbers) -> Sequence[object]:
            made = function(*tensors, numbers)
            return made if isinstance(made, (tuple, list)) else (made,)

        return run

    for name, function in functions.items():
        STEPS[name] = Step(of(function), operands, **known)


def _dim(t: Tensor, n: int) -> int:
    """A dimension, and now and then one that is not there."""
    return n % (t.dim() + 1) - (n // 7 % 2) * t.dim() if n % 31 else 9


def _small(n: int) -> int:
    return n % 7 - 3


def _values(device: str, shape: Sequence[int], dtype: torch.dtype, seed: int) -> Tensor:
    count = torch.Size(shape).numel()
    numbers = torch.tensor(
        [(seed * 7 + k * 3 + k * k % 5) % 7 for k in range(count)], dtype=torch.int64
    ).reshape(list(shape))
    numbers = numbers if dtype in (torch.bool, torch.uint8) else numbers - 3
    return (numbers % 2 if dtype == torch.bool else numbers).to(dtype).to(device)


def _fresh(device: str, _: Tensors, n: Numbers) -> Sequence[object]:
    made = _values(device, SHAPES[n[0] % len(SHAPES)], DTYPES[n[1] % len(DTYPES)], n[2])
    if n[3] % 5 == 0 and made.dtype.is_floating_point:
        made.requires_grad_()
    return (made,)


def _factory(device: str, _: Tensors, n: Numbers) -> Sequence[object]:
    shape, dtype = SHAPES[n[0] % len(SHAPES)], DTYPES[n[1] % len(DTYPES)]
    makers: tuple[Callable[[], Tensor], ...] = (
        lambda: torch.zeros(shape, dtype=dtype, device=device),
        lambda: torch.ones(shape, dtype=dtype, device=device),
        lambda: torch.full(shape, 2, dtype=dtype, device=device),
        lambda: torch.arange(_small(n[2]), 9, device=device),
        lambda: torch.eye(n[2] % 5, n[3] % 5, dtype=dtype, device=device),
        lambda: torch.linspace(0, 4, 5, device=device),
        lambda: torch.empty(0, dtype=dtype, device=device),
        lambda: torch.tensor(n[2] % 4, device=device),
        lambda: torch.tril_indices(3, n[2] % 4, device=device),
        lambda: torch.empty_strided((2, 3), (n[2] % 4, n[3] % 4), device=device).zero_(),
    )
    return (makers[n[4] % len(makers)](),)


def _indices(t: Tensor, dim: int, n: Numbers) -> Tensor:
    """Places along a dimension, from both ends where they may be."""
    size = t.size(dim) if t.dim() else 1
    count = n[1] % 4
    places = [(n[2] + 3 * k) % max(size, 1) for k in range(count)]
    return torch.tensor(places, dtype=torch.int64).to(t.device)


def _within(t: Tensor, n: int) -> int:
    dim = _dim(t, n)
    return dim % t.dim() if t.dim() else 0


def _as_strided(t: Tensor, n: Numbers) -> Tensor:
    """A view that may overlap itself, or reach out of the storage."""
    return t.as_strided((n[0] % 4, n[1] % 4), (n[2] % 4, n[3] % 3), n[4] % 3)


def _around(t: Tensor, n: Numbers) -> object:
    """Through a file and back, with all that shares its storage; on the CPU, too, into memory that
    can be resized."""
    file = io.BytesIO()
    torch.save([t, t.detach()], file)
    file.seek(0)
    back = copy.deepcopy(torch.load(file, weights_only=True))
    return back[n[0] % 2]


def _storage(t: Tensor, n: Numbers) -> object:
    storage = t.untyped_storage()
    if n[0] % 5 == 0 and n[1] % 4 == 0:
        return torch.empty(0, dtype=t.dtype, device=t.device).set_(storage, 0, (0,), (1,))
    if n[0] % 5 == 1:
        return torch.empty(0, dtype=t.dtype, device=t.device).set_(
            storage, t.storage_offset(), t.shape, t.stride()
        )
    if n[0] % 5 == 2:
        clone = storage.clone()
        return torch.empty(0, dtype=t.dtype, device=t.device).set_(
            clone, t.storage_offset(), t.shape, t.stride()
        )
    if n[0] % 5 == 3:
        return torch.tensor([storage.nbytes(), t.data_ptr() == 0 and t.numel() > 0]).to(t.device)
    return torch.tensor(list(storage[: n[1] % 9])).to(t.device)


def _backward(t: Tensor, n: Numbers) -> Sequence[object]:
    t.sum().backward(retain_graph=bool(n[0] % 2)) if n[0] % 3 else t.backward(torch.ones_like(t))
    return ()


def _assign(t: Tensor, source: Tensor, n: Numbers) -> Sequence[object]:
    places: tuple[object, ...] = (
        n[1] % 3,
        slice(n[1] % 3, None),
        slice(None, None, n[1] % 3 + 1),
        None,
        ...,
        (slice(None), n[2] % 3),
        (..., slice(1, None)),
    )
    # what overlaps there is not defined
    shared = t.untyped_storage()._cdata == source.untyped_storage()._cdata
    # a number on the CPU alone is filled in, and takes its history even to integers
    if not t.is_floating_point():
        source = source.detach()
    t[places[n[0] % len(places)]] = (
        (source.clone() if shared else source) if n[3] % 3 else _small(n[3])
    )
    return ()


def _take(t: Tensor, n: Numbers) -> Tensor:
    places: tuple[object, ...] = (
        n[1] % 3,
        slice(n[1] % 4, n[2] % 6),
        slice(None, None, n[1] % 3 + 1),
        None,
        ...,
        (slice(None), n[2] % 3),
        _indices(t, 0, n),
        (slice(None), _indices(t, 1, n) if t.dim() > 1 else 0),
        [0, -1],
    )
    return t[places[n[0] % len(places)]]


def _with_data(t: Tensor, other: Tensor, n: Numbers) -> Sequence[object]:
    t.data = other.detach()
    return ()


def _nothing(device: str, tensors: Tensors, numbers: Numbers) -> Sequence[object]:
    return ()


STEPS["fresh"] = Step(_fresh, 0, weight=4)
STEPS["factory"] = Step(_factory, 0, weight=2)
for _name, _weight in (("read", 1.5), ("sync", 0.7), ("interrupt", 0.15), ("thread", 0.3)):
    STEPS[_name] = Step(_nothing, 0, special=_name, weight=_weight)

_many(
    {
        "add": lambda a, b, n: a + b,
        "sub": lambda a, b, n: torch.sub(a, b, alpha=_small(n[0])),
        "mul": lambda a, b, n: a * b,
        "maximum": lambda a, b, n: torch.maximum(a, b),
        "cat": lambda a, b, n: torch.cat([a, b, a], _dim(a, n[0])),
        "stack": lambda a, b, n: torch.stack([a, b], _dim(a, n[0])),
        "matmul": lambda a, b, n: a @ b,
        "mm": lambda a, b, n: torch.mm(a, b),
        "where": lambda a, b, n: torch.where(a == b, a, b),
        "expand as": lambda a, b, n: a.expand_as(b),
        "view as": lambda a, b, n: a.view_as(b),
        "linear": lambda a, b, n: F.linear(a, b),
        "outer": lambda a, b, n: torch.outer(a.flatten()[:9], b.flatten()[:9]),
        "broadcast": lambda a, b, n: torch.broadcast_tensors(a, b),
        "type as": lambda a, b, n: a.type_as(b),
        "to device": lambda a, b, n: a.to(b),
        "conv": lambda a, b, n: F.conv2d(a, b, padding=n[0] % 2),
    },
    2,
)
_many(
    {
        "eq": lambda a, b, n: a == b,
        "lt": lambda a, b, n: a < b,
        "masked select": lambda a, b, n: torch.masked_select(a, b > 0),
        "by mask": lambda a, b, n: a[b > 0],
    },
    2,
    decides=True,
)
_many(
    {
        "div": lambda a, b, n: a / (b.abs() + 1),
        "softmax": lambda a, b, n: torch.softmax(a.float(), _dim(a, n[0])),
        "attention": lambda a, b, n: F.scaled_dot_product_attention(a, b, b),
        "layer norm": lambda a, b, n: F.layer_norm(a, a.shape[-1:]),
    },
    2,
    exact=False,
)
_many(
    {
        "neg": lambda a, n: -a,
        "abs": lambda a, n: a.abs(),
        "relu": lambda a, n: torch.relu(a),
        "scaled": lambda a, n: a * _small(n[0]),
        "clamp": lambda a, n: a.clamp(_small(n[0]), 2),
        "to": lambda a, n: a.to(DTYPES[n[0] % len(DTYPES)]),
        "sum": lambda a, n: a.sum(),
        "sum of": lambda a, n: a.sum(_dim(a, n[0]), keepdim=bool(n[1] % 2)),
        "clone": lambda a, n: a.clone(),
        "contiguous": lambda a, n: a.contiguous(),
        "detach": lambda a, n: a.detach(),
        "amax": lambda a, n: a.amax(_dim(a, n[0])),
        "cumsum": lambda a, n: a.cumsum(_dim(a, n[0])),
        "flip": lambda a, n: a.flip(_dim(a, n[0])),
        "roll": lambda a, n: a.roll(_small(n[0]), 0),
        "pad": lambda a, n: F.pad(a, (n[0] % 3 - 1, n[1] % 2)),
        "repeat": lambda a, n: a.repeat(n[0] % 3, *(a.dim() * [1])),
        "index select": lambda a, n: a.index_select(
            _within(a, n[0]), _indices(a, _within(a, n[0]), n)
        ),
        "tril": lambda a, n: a.tril(_small(n[0])),
        "zeros like": lambda a, n: torch.zeros_like(a),
        "new": lambda a, n: a.new_ones(n[0] % 4),
        "deepcopy": lambda a, n: copy.deepcopy(a.detach()),
        "pickle": lambda a, n: pickle.loads(pickle.dumps(a.detach())),
        "file": _around,
        "item": lambda a, n: a.item() * 0,
        "list": lambda a, n: a.to("cpu", copy=True).tolist() and a,
        "cpu": lambda a, n: a.cpu().to(a.device, copy=True),
        "numpy": lambda a, n: torch.from_numpy(a.detach().cpu().float().clone().numpy()).to(
            a.device, copy=True
        ),
        "storage": _storage,
        "channels last": lambda a, n: a.contiguous(memory_format=torch.channels_last),
        "pool": lambda a, n: F.max_pool2d(a, 2),
        "one hot": lambda a, n: F.one_hot(a.abs() % 5, 6),
        "embedding": lambda a, n: F.embedding(_indices(a, 0, n), a),
        "norm squared": lambda a, n: (a * a).sum(),
    },
    1,
)
_many(
    {
        "argmax": lambda a, n: a.argmax(),
        "sort": lambda a, n: torch.sort(a, _dim(a, n[0]), stable=True)[0],
        "topk": lambda a, n: a.topk(n[0] % 4)[0],
        "nonzero": lambda a, n: a.nonzero(),
        "unique": lambda a, n: a.unique(),
        "as index": lambda a, n: a.flatten()[a.abs().long().flatten() % max(a.numel(), 1)],
        "bool": lambda a, n: a.any(),
    },
    1,
    decides=True,
)
_many(
    {
        "exp": lambda a, n: torch.exp(a.clamp(-3, 3)),
        "tanh": lambda a, n: torch.tanh(a),
        "mean": lambda a, n: a.mean(),
        "sqrt": lambda a, n: a.abs().sqrt(),
        "var": lambda a, n: a.var(_dim(a, n[0])),
        "gelu": lambda a, n: F.gelu(a),
    },
    1,
    exact=False,
)
_many(
    {
        "view": lambda a, n: a.view(-1),
        "reshape": lambda a, n: a.reshape(n[0] % 4, -1),
        "transpose": lambda a, n: a.transpose(0, -1),
        "select": lambda a, n: a.select(_dim(a, n[0]), n[1] % 4 - 1),
        "narrow": lambda a, n: a.narrow(_dim(a, n[0]), n[1] % 3, n[2] % 3),
        "slice": lambda a, n: a[n[0] % 3 : n[1] % 6 : n[2] % 3 + 1],
        "expand": lambda a, n: a.expand(n[0] % 4, *a.shape),
        "unsqueeze": lambda a, n: a.unsqueeze(_dim(a, n[0])),
        "squeeze": lambda a, n: a.squeeze(),
        "diagonal": lambda a, n: a.diagonal(_small(n[0])),
        "unfold": lambda a, n: a.unfold(_dim(a, n[0]), n[1] % 3 + 1, n[2] % 3 + 1),
        "as strided": _as_strided,
        "flatten": lambda a, n: a.flatten(),
        "split": lambda a, n: a.split(n[0] % 3 + 1, _dim(a, n[1])),
        "chunk": lambda a, n: a.chunk(n[0] % 3 + 1),
        "unbind": lambda a, n: a.unbind(),
        "permute": lambda a, n: a.permute(*reversed(range(a.dim()))),
        "view of real": lambda a, n: a.view(torch.int32),
        # whose stride may be any
        "bytes": lambda a, n: a.view(torch.uint8) if a.shape[-1:] != (1,) else a,
        "take": _take,
        "move": lambda a, n: a.movedim(0, -1),
        "data": lambda a, n: a.data,
    },
    1,
    weight=1.5,
)
_many(
    {
        "add_": lambda a, b, n: a.add_(b, alpha=_small(n[0])),
        "mul_": lambda a, b, n: a.mul_(b),
        "copy_": lambda a, b, n: a.copy_(b),
        "assign": _assign,
        "masked fill_": lambda a, b, n: a.masked_fill_(b == b, _small(n[0])),
        "out": lambda a, b, n: torch.add(a, b, out=a),
        "index add_": lambda a, b, n: a.index_add_(0, _indices(a, 0, n), b),
        "index copy_": lambda a, b, n: a.index_copy_(0, _indices(a, 0, n), b),
        "scatter_": lambda a, b, n: a.scatter_(
            0, (b.abs() % max(a.shape[0] if a.dim() else 1, 1)).long(), 2
        ),
        "index put_": lambda a, b, n: a.index_put_((_indices(a, 0, n),), b, accumulate=True),
        "with data": _with_data,
    },
    2,
    writes=True,
    weight=1.5,
)
_many(
    {
        "zero_": lambda a, n: a.zero_(),
        "fill_": lambda a, n: a.fill_(_small(n[0])),
        "clamp_": lambda a, n: a.clamp_(-2, 2),
        "neg_": lambda a, n: a.neg_(),
        "add one_": lambda a, n: a.add_(1),
        "transpose_": lambda a, n: a.t_(),
        "resize_": lambda a, n: a.resize_(n[0] % 5).zero_(),
        "shift_": lambda a, n: a[1:].copy_(a[:-1]) if a.is_contiguous() else a,
        "shifted add_": lambda a, n: a[1:].add_(a[:-1]) if a.is_contiguous() else a,
        "unsqueeze_": lambda a, n: a.unsqueeze_(0),
        "index fill_": lambda a, n: a.index_fill_(0, _indices(a, 0, n), _small(n[3])),
        "fill diagonal_": lambda a, n: a.fill_diagonal_(2),
        "requires grad_": lambda a, n: a.detach_().requires_grad_(bool(n[0] % 2)),
        "backward": _backward,
        "set_": lambda a, n: a.set_(),
        "foreach_": lambda a, n: torch._foreach_add_([a, a.detach()], 1) or (),
    },
    1,
    writes=True,
)
