"""Calls to test margin losses, distances, products of three tensors and gates."""

from __future__ import annotations

import math
from typing import Any

import torch

from ops.samples import Calls, Source, name_of, sampler

aten = torch.ops.aten


@sampler("margin_loss", "margin_loss_backward")
def margin_loss(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in ((3, 5), (4,), (2, 1)):
        for reduction, p, weighted in ((0, 1, True), (1, 2, False), (2, 2, True), (1, 1, True)):
            x, target = source.tensor(shape, dtype), source.indices(shape[:-1], shape[-1])
            weight = source.tensor(shape[-1:], dtype, 0.5, 2) if weighted else None
            args = (x, target, p, 0.8, weight, reduction)
            if "backward" in name_of(op):
                args = (source.tensor(tuple(aten.multi_margin_loss(*args).shape), dtype), *args)
            yield args, {}


@sampler("multilabel_margin_loss", "multilabel_margin_loss_backward")
def multilabel_margin_loss(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    several = torch.tensor([[1, 0, -1, 2], [3, -1, 0, 0], [-1, 2, 0, 0], [2, 1, 0, 3]])
    for target in (several, several[0], torch.tensor([[0], [-1]])):
        for reduction in (0, 1, 2):
            x = source.tensor(tuple(target.shape), dtype)
            if "backward" not in name_of(op):
                yield (x, target, reduction), {}
                continue
            out, is_target = aten.multilabel_margin_loss_forward(x, target, reduction)
            yield (source.tensor(tuple(out.shape), dtype), x, target, reduction, is_target), {}


@sampler("cdist", "cdist_backward")
def cdist(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for p in (0.0, 0.5, 1.0, 2.0, 3.0, math.inf):
        for lead, rows, others, width in (
            ((2,), 4, 3, 5),
            ((), 3, 3, 1),
            ((), 0, 3, 2),
            ((), 2, 3, 0),
        ):
            x, y = (
                source.tensor((*lead, rows, width), dtype),
                source.tensor((*lead, others, width), dtype),
            )
            if rows == 4:
                y[0, 1] = x[0, 2]
            if "backward" not in name_of(op):
                yield (x, y, p, None), {}
            else:
                yield (
                    (
                        source.tensor((*lead, rows, others), dtype),
                        x,
                        y,
                        p,
                        aten._cdist_forward(x, y, p, None),
                    ),
                    {},
                )


@sampler("pdist", "pdist_backward")
def pdist(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for p in (0.0, 0.5, 1.0, 2.0, 3.0, math.inf):
        for rows, width in ((5, 3), (2, 1), (1, 3), (4, 0)):
            x = source.tensor((rows, width), dtype)
            if rows == 5:
                x[3] = x[1]
            if "backward" not in name_of(op):
                yield (x, p), {}
            else:
                yield (
                    (
                        source.tensor((rows * (rows - 1) // 2,), dtype),
                        x,
                        p,
                        aten._pdist_forward(x, p),
                    ),
                    {},
                )


@sampler("trilinear")
def trilinear(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    x, w, y = (
        source.tensor((4, 3), dtype),
        source.tensor((2, 3, 5), dtype),
        source.tensor((4, 5), dtype),
    )
    yield (x, w, y, [1, 3], [0], [1, 2], [2, 3]), {}
    yield (
        (
            source.tensor((2, 3), dtype),
            source.tensor((2, 3), dtype),
            source.tensor((2, 3), dtype),
            [],
            [],
            [],
            [1],
        ),
        {},
    )


@sampler("glu")
def glu(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape, dim in (((4, 6), -1), ((4, 6), 0), ((2, 2, 3), 1), ((2,), 0)):
        x = source.tensor(shape, dtype, -6, 6)
        y = aten.glu(x, dim)
        if name_of(op) == "glu":
            yield (x, dim), {}
        elif name_of(op) == "glu_backward":
            yield (source.tensor(tuple(y.shape), dtype), x, dim), {}
        else:
            yield (y, x, source.tensor(shape, dtype), dim), {}


@sampler("logit_backward")
def logit_backward(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for eps in (None, 0.1):
        for shape in ((3, 4), (), (0, 2)):
            yield (source.tensor(shape, dtype), source.tensor(shape, dtype, -0.2, 1.2), eps), {}
    yield (
        (
            torch.tensor([1.0, 2.0, -1.0], dtype=dtype),
            torch.tensor([0.0, 1.0, math.nan], dtype=dtype),
        ),
        {},
    )


@sampler("int_mm")
def int_mm(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for rows, inner, columns in ((17, 8, 16), (32, 24, 8)):
        yield (
            (
                source.tensor((rows, inner), dtype, -100, 100),
                source.tensor((inner, columns), torch.int8, -100, 100),
            ),
            {},
        )


@sampler("weight_int8")
def weight_int8(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    if dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return
    weight = source.tensor((16, 32), torch.int8, -100, 100)
    yield (source.tensor((4, 32), dtype), weight, source.tensor((16,), dtype, 0.01, 0.1)), {}


@sampler("fake_quantize")
def fake_quantize(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    if not dtype.is_floating_point:
        return
    x = source.tensor((3, 5), dtype, -4, 4)
    if "per_channel" in name_of(op):
        for axis in (0, 1, -1):
            scale = source.tensor((x.shape[axis],), torch.float32, 0.01, 0.3)
            yield (
                (x, scale, source.tensor((x.shape[axis],), torch.int32, -3, 3), axis, -128, 127),
                {},
            )
    elif "qparams" in name_of(op):
        for on in (0, 1):
            yield (
                (
                    x,
                    torch.tensor([0.07]),
                    torch.tensor([3], dtype=torch.int32),
                    torch.tensor([on]),
                    0,
                    15,
                ),
                {},
            )
    else:
        for shape in ((3, 5), (), (0, 2)):
            yield (source.tensor(shape, dtype, -4, 4), 0.07, 3, -8, 7), {}


@sampler("observed")
def observed(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    """Observers that see their first values and later ones, are off, or choose for values of one
    sign, none, or tiny ones."""
    if dtype != torch.float32:
        return

    def at(*numbers: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.tensor(numbers, dtype=dtype)

    for low, high in ((-4, 4), (1, 3), (-3, -1), (0, 0), (-1e-4, 2e-4), (0, 1e-5), (-1e-5, 0)):
        x = source.tensor((3, 5), dtype, low, high) if low < high else torch.zeros(3, 5)
        for bounds in ((0, 255), (-128, 127), (0, 127)):
            yield (
                (
                    x,
                    at(1),
                    at(1),
                    at(float("inf")),
                    at(-float("inf")),
                    at(1.0),
                    at(0, dtype=torch.int32),
                    0.01,
                    *bounds,
                    0,
                    False,
                    bounds[0] < 0,
                ),
                {},
            )
    for on, rounds in ((1, 0), (0, 1), (0, 0)):
        yield (
            (
                x + 1,
                at(on, dtype=torch.int64),
                at(rounds, dtype=torch.int64),
                at(-0.3),
                at(0.7),
                at(0.1),
                at(3, dtype=torch.int32),
                0.3,
                -8,
                7,
                0,
                False,
                False,
            ),
            {},
        )
    for shape in ((3, 5), (3, 2, 4)):
        yield (
            (
                source.tensor(shape, dtype, -2, 2),
                at(1, dtype=torch.uint8),
                at(1, dtype=torch.uint8),
                torch.full((3,), -0.5),
                torch.full((3,), 0.5),
                torch.ones(3),
                torch.zeros(3, dtype=torch.int32),
                0.01,
                -128,
                127,
                0,
                True,
                True,
            ),
            {},
        )
