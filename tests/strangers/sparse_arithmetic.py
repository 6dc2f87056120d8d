"""Campaign: binary ops between sparse and dense tensors give the CPU's results, promotions and
exceptions.

A case is an op (functional, in place or with ``out=``), two operands (COO, CSR, dense,
0-dimensional, number) and their dtypes.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random

import torch
from torch import Tensor

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from strangers import campaign

Operand = Tensor | float
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.bool)
COMMON = ("add", "sub", "mul", "div")
NAMES = (
    *COMMON,
    "true_divide",
    "floor_divide",
    "remainder",
    "pow",
    "maximum",
    "minimum",
    "eq",
    "lt",
    "atan2",
    "logical_and",
    "rsub",
)
IN_PLACE = ("floor_divide", "remainder", "pow", "copysign", "eq", "copy")
OPTIONS: dict[str, tuple[dict[str, float | str], ...]] = {
    "add": ({}, {"alpha": 2}, {"alpha": 0.5}, {"alpha": 0}),
    "sub": ({}, {"alpha": 2}, {"alpha": 0.5}),
    "div": ({}, {"rounding_mode": "trunc"}, {"rounding_mode": "floor"}),
}


def _elements(random: Random, dtype: torch.dtype, count: int) -> Tensor:
    return torch.tensor([random.randrange(-4, 5) or 3 for _ in range(count)]).to(dtype)


def _coo(random: Random, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    """Some elements, at times with repeated places."""
    count = random.choice([0, 1, 3, 6])
    places = torch.tensor([[random.randrange(size) for _ in range(count)] for size in shape]).view(
        len(shape), count
    )
    made = torch.sparse_coo_tensor(
        places, _elements(random, dtype, count), shape, check_invariants=True
    )
    return made if random.random() < 0.5 or dtype is torch.bool else made.coalesce()


def _dense(random: Random, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    return _elements(random, dtype, int(torch.Size(shape).numel())).view(shape)


def _csr(random: Random, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    kept = torch.tensor([random.random() < 0.4 for _ in range(torch.Size(shape).numel())]).view(
        shape
    )
    return (_dense(random, dtype, shape) * kept).to_sparse_csr()


def _operand(random: Random, kind: str, shape: tuple[int, ...]) -> Operand:
    dtype = torch.float32 if random.random() < 0.5 else random.choice(DTYPES)
    if kind == "number":
        return random.choice([2, 2.5, True])
    if kind == "csr" and len(shape) == 2:
        return _csr(random, dtype, shape)
    if kind in ("coo", "csr"):
        return _coo(random, dtype, shape)
    return _dense(
        random, dtype, () if kind == "0-dim" else (1, *shape[1:]) if kind == "row" else shape
    )


def _operation(random: Random) -> tuple[str, Callable[[Operand, Operand], Tensor]]:
    """A name to report, and the op that it stands for."""
    form, is_common = random.choice(["new", "in place", "out"]), random.random() < 0.8
    name = random.choice(COMMON if is_common else IN_PLACE if form == "in place" else NAMES)
    options = random.choice(OPTIONS.get(name, ({},)))
    if form == "in place":
        return f"{name}_ {options}", lambda x, y: getattr(x, f"{name}_")(y, **options)
    if form == "new":
        return f"{name} {options}", lambda x, y: getattr(torch, name)(x, y, **options)
    dtype, layout = random.choice(DTYPES), random.choice(["dense", "coo", "like the result"])

    def with_out(x: Operand, y: Operand) -> Tensor:
        device = next(v.device for v in (x, y) if isinstance(v, Tensor))
        shape = next(v.shape for v in (x, y) if isinstance(v, Tensor) and v.dim())
        out = (
            torch.zeros(shape, dtype=dtype, device=device)
            if layout == "dense"
            else torch.sparse_coo_tensor(shape, dtype=dtype, device=device)
            if layout == "coo"
            else getattr(torch, name)(x, y).clone()
        )
        return getattr(torch, name)(x, y, out=out, **options)

    return f"{name} out={layout} {dtype} {options}", with_out


def _described(x: Operand) -> tuple[object, ...]:
    """Layout, dtype and elements."""
    if not isinstance(x, Tensor):
        return (x,)
    host = x.cpu()
    return (host.layout, host.dtype, tuple(host.shape), host.to_dense().double().tolist())


def _outcome(
    op: Callable[[Operand, Operand], Tensor], operands: list[Operand], device: str
) -> object:
    moved = [v.to(device, copy=True) if isinstance(v, Tensor) else v for v in operands]
    try:
        result = op(moved[0], moved[1])
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        return type(error).__name__
    return _described(result), _described(moved[0])


def check(random: Random) -> str | None:
    """One op on one pair of operands, at least one of them sparse."""
    shape = random.choice([(3,), (3, 4), (2, 3, 2), (1, 4)])
    kinds = [
        random.choice(["coo", "csr"]),
        random.choice(["coo", "csr", "dense", "0-dim", "row", "number"]),
    ]
    if random.random() < 0.5 and kinds[1] != "number":
        kinds.reverse()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        operands = [_operand(random, kind, shape) for kind in kinds]
        name, op = _operation(random)
        eager, ours = (_outcome(op, operands, device) for device in ("cpu", "ftm"))
    # Eager adds into its operand where the sum has another dtype than ``out``.
    if "add out" in name or "sub out" in name:
        eager, ours = (found if isinstance(found, str) else found[0] for found in (eager, ours))
    return (
        None
        if str(eager) == str(ours)
        else f"{name} {[_described(v) for v in operands]}: {eager} on the CPU, {ours} on ftm"
    )


if __name__ == "__main__":
    campaign.main("sparse_arithmetic", check, count=3000)
