"""Calls to test what neural networks are made of: products, convolutions, pooling, norms, losses,
indexing."""

from __future__ import annotations

from typing import Any

import torch

from ops.samples import Calls, Source, name_of, sampler

aten = torch.ops.aten


@sampler("matmul")
def matmul(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    for m, k, n in ((3, 4, 5), (1, 1, 1), (2, 0, 3), (0, 2, 3), (7, 13, 2)):
        a, b = source.tensor((m, k), dtype), source.tensor((k, n), dtype)
        if name == "mm":
            yield (a, b), {}
            yield (a, source.tensor((n, k), dtype).t()), {}
            yield (source.tensor((k, m), dtype).t(), b), {}
        elif name == "bmm":
            yield (source.tensor((2, m, k), dtype), source.tensor((2, k, n), dtype)), {}
            yield (
                (
                    source.tensor((m, 2, k), dtype).transpose(0, 1),
                    source.tensor((2, n, k), dtype).transpose(1, 2),
                ),
                {},
            )
        elif name == "mv":
            yield (a, source.tensor((k,), dtype)), {}
        else:
            yield (source.tensor((k,), dtype), source.tensor((k,), dtype)), {}


@sampler("addmm")
def addmm(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    for m, k, n in ((3, 4, 5), (2, 0, 3), (1, 6, 1)):
        for extra in ({}, {"beta": 2, "alpha": 3}, {"beta": 0}):
            if name == "addmm":
                for shape in ((n,), (m, n), (1, n)):
                    yield (
                        (
                            source.tensor(shape, dtype),
                            source.tensor((m, k), dtype),
                            source.tensor((k, n), dtype),
                        ),
                        extra,
                    )
            elif name in ("baddbmm", "addbmm"):
                bias = (2, m, n) if name == "baddbmm" else (m, n)
                yield (
                    (
                        source.tensor(bias, dtype),
                        source.tensor((2, m, k), dtype),
                        source.tensor((2, k, n), dtype),
                    ),
                    extra,
                )
            else:
                yield (
                    (
                        source.tensor((m,), dtype),
                        source.tensor((m, k), dtype),
                        source.tensor((k,), dtype),
                    ),
                    extra,
                )


@sampler("recurrent")
def recurrent(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    kind, _, way = name.partition("_")
    forward = way == "forward"
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[kind]
    for steps, batch, width in ((1, 1, 1), (4, 3, 5), (3, 2, 17)):

        def tensor(*shape: int) -> torch.Tensor:
            return source.tensor(shape, dtype).tanh()  # states and activations, as layers make them

        def states() -> torch.Tensor:
            return tensor(steps + 1, batch, width)

        # what is far grows less
        state, weight = tensor(batch, width), tensor(gates * width, width) / 4
        own, grad = tensor(steps, batch, gates * width), tensor(steps, batch, width)
        kept = tensor(steps, batch, 4 * width)
        for backwards in (False, True):
            if kind == "lstm":
                arguments = (
                    (own, state, tensor(batch, width), weight)
                    if forward
                    else (grad, state, tensor(batch, width), states(), kept, weight)
                )
                yield (*arguments, backwards), {}
            elif kind == "gru" and forward:
                yield (own, state, weight, tensor(gates * width), backwards), {}
                yield (own, state, weight, None, backwards), {}
            elif kind == "gru":
                yield (grad, state, states(), kept, weight, backwards), {}
            else:
                for relu in (False, True):
                    yield (
                        ((own, state, weight) if forward else (grad, state, states(), weight))
                        + (relu, backwards),
                        {},
                    )


CONVOLUTIONS = (  # input, weight, stride, padding, dilation, transposed, output padding, groups
    ((2, 3, 5, 6), (4, 3, 3, 2), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    ((2, 3, 7, 6), (4, 3, 3, 3), [2, 1], [1, 2], [1, 2], False, [0, 0], 1),
    ((1, 4, 5, 5), (6, 2, 3, 3), [2, 2], [1, 1], [1, 1], False, [0, 0], 2),
    ((2, 3, 4, 4), (3, 1, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 3),
    ((2, 3, 4, 4), (5, 3, 1, 1), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    ((2, 3, 4, 5), (3, 4, 3, 3), [2, 2], [1, 0], [1, 1], True, [1, 0], 1),
    ((1, 4, 3, 3), (4, 2, 2, 2), [1, 2], [0, 0], [2, 1], True, [0, 0], 2),
    ((2, 3, 9), (4, 3, 3), [2], [1], [1], False, [0], 1),
    ((2, 4, 5), (4, 2, 3), [2], [1], [1], True, [1], 2),
    ((1, 2, 4, 5, 4), (3, 2, 2, 3, 2), [1, 2, 1], [0, 1, 1], [1, 1, 2], False, [0, 0, 0], 1),
    ((2, 3, 6, 6), (4, 3, 3, 3), [4, 3], [0, 0], [1, 1], False, [0, 0], 1),
    ((2, 3, 6, 7), (4, 3, 1, 1), [2, 2], [0, 0], [1, 1], False, [0, 0], 1),
    ((2, 4, 4, 5), (6, 2, 1, 1), [3, 1], [2, 1], [1, 1], False, [0, 0], 2),
    ((2, 3, 4, 5), (3, 4, 1, 1), [3, 2], [1, 1], [1, 1], True, [2, 0], 1),
    ((2, 4, 1), (4, 2, 1), [3], [1], [1], True, [2], 2),
)


@sampler("convolution")
def convolution(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for (
        shape,
        weight,
        stride,
        padding,
        dilation,
        transposed,
        output_padding,
        groups,
    ) in CONVOLUTIONS:
        most = 0.5 if dtype.is_floating_point else 3
        x, w = source.tensor(shape, dtype), source.tensor(weight, dtype, -most, most)
        bias = (
            source.tensor((weight[1] * groups if transposed else weight[0],), dtype)
            if groups != 3
            else None
        )
        yield (x, w, bias, stride, padding, dilation, transposed, output_padding, groups), {}


@sampler("convolution_backward")
def convolution_backward(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for position, (shape, weight, *geometry) in enumerate(CONVOLUTIONS):
        x, w = source.tensor(shape, dtype), source.tensor(weight, dtype, -0.5, 0.5)
        out = aten.convolution(x, w, None, *geometry)
        grad = source.tensor(tuple(out.shape), dtype)
        mask = [position != 4, position != 3, position != 2]
        yield (grad, x, w, [out.shape[1]], *geometry, mask), {}


@sampler("softmax", "safe_softmax")
def softmax(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    extra = () if name_of(op) == "_safe_softmax" else (False,)
    for shape, dim in (((3, 5), 1), ((3, 5), 0), ((2, 1, 4), -1), ((4, 1), 1), ((0, 3), 1)):
        yield (source.tensor(shape, dtype, -20, 20), dim, *extra), {}
    x = source.tensor((3, 4), dtype)
    x[0] = float("-inf")
    x[1, 2] = float("-inf")
    x[2, 0] = float("inf")
    yield (x, 1, *extra), {}
    if extra:
        yield (source.tensor((), dtype), 0, False), {}


@sampler("softmax_backward")
def softmax_backward(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    forward = aten._log_softmax if "log" in name_of(op) else aten._softmax
    for shape, dim in (((3, 5), 1), ((3, 5), 0), ((2, 1, 4), -1), ((0, 3), 1)):
        y = forward(source.tensor(shape, dtype), dim, False)
        yield (source.tensor(shape, dtype), y, dim, dtype), {}


@sampler("layer_norm", "layer_norm_backward")
def layer_norm(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape, normalized, affine in (
        ((4, 6), [6], (True, True)),
        ((2, 3, 5), [3, 5], (True, True)),
        ((3, 7), [7], (False, False)),
        ((2, 3, 8), [8], (True, False)),
        ((5, 1), [1], (True, True)),
    ):
        x = source.tensor(shape, dtype)
        weight = source.tensor(tuple(normalized), dtype) if affine[0] else None
        bias = source.tensor(tuple(normalized), dtype) if affine[1] else None
        if "backward" not in name_of(op):
            yield (x, normalized, weight, bias, 1e-5), {}
            continue
        if normalized == [1]:
            continue  # the gradients are 0; what remains is rounding, magnified by 1 / sqrt(eps)
        _, mean, rstd = aten.native_layer_norm(x, normalized, weight, bias, 1e-5)
        mask = [True, affine[0], affine[1]]
        yield (source.tensor(shape, dtype), x, normalized, mean, rstd, weight, bias, mask), {}
        yield (
            (
                source.tensor(shape, dtype),
                x,
                normalized,
                mean,
                rstd,
                weight,
                bias,
                [False, affine[0], affine[1]],
            ),
            {},
        )


@sampler("batch_norm")
def batch_norm(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    for shape in ((4, 3), (2, 3, 5), (2, 3, 4, 5)):
        for training in (True, False):
            x = source.tensor(shape, dtype)
            affine = (
                (source.tensor((3,), dtype), source.tensor((3,), dtype))
                if len(shape) != 3
                else (None, None)
            )
            running = (source.tensor((3,), dtype), source.tensor((3,), dtype, 0.5, 2))
            if name == "_native_batch_norm_legit_no_training":
                yield (x, *affine, *running, 0.1, 1e-5), {}
            elif name.endswith("no_stats"):
                yield (x, *affine, True, 0.1, 1e-5), {}
            elif name == "_native_batch_norm_legit_functional" or not training:
                yield (x, *affine, *running, training, 0.1, 1e-5), {}
            elif name == "native_batch_norm":
                yield (x, *affine, None, None, True, 0.1, 1e-5), {}


@sampler("batch_norm_backward")
def batch_norm_backward(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in ((4, 3), (2, 3, 5), (2, 3, 4, 5)):
        for training in (True, False):
            x, grad = source.tensor(shape, dtype), source.tensor(shape, dtype)
            weight = source.tensor((3,), dtype) if len(shape) != 3 else None
            running = (source.tensor((3,), dtype), source.tensor((3,), dtype, 0.5, 2))
            _, mean, invstd = aten.native_batch_norm(
                x, weight, None, *(t.clone() for t in running), training, 0.1, 1e-5
            )
            mask = [True, weight is not None, weight is not None]
            yield (grad, x, weight, *running, mean, invstd, training, 1e-5, mask), {}


@sampler("group_norm")
def group_norm(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for n, c, hw, group in ((2, 6, 5, 3), (1, 4, 1, 1), (3, 4, 7, 4)):
        x = source.tensor((n, c, hw), dtype)
        yield (x, source.tensor((c,), dtype), source.tensor((c,), dtype), n, c, hw, group, 1e-5), {}
        yield (x, None, None, n, c, hw, group, 1e-5), {}


@sampler("nll_loss", "nll_loss_backward")
def nll_loss(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    shape = (2, 4, 3, 2) if "2d" in name else (5, 4)
    targets = (2, 3, 2) if "2d" in name else (5,)
    for reduction in (0, 1, 2):
        for weighted in (False, True):
            for ignore in (-100, 1):
                x, target = source.tensor(shape, dtype), source.indices(targets, 4)
                if ignore == -100:
                    target.flatten()[0] = -100
                weight = source.tensor((4,), dtype, 0.5, 2) if weighted else None
                if "backward" not in name:
                    yield (x, target, weight, reduction, ignore), {}
                    continue
                forward = aten.nll_loss2d_forward if "2d" in name else aten.nll_loss_forward
                out, total = forward(x, target, weight, reduction, ignore)
                yield (
                    (
                        source.tensor(tuple(out.shape), dtype),
                        x,
                        target,
                        weight,
                        reduction,
                        ignore,
                        total,
                    ),
                    {},
                )


@sampler("loss", "loss_backward", "probability_loss", "probability_loss_backward", "logits_loss")
def loss(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    probability = name.startswith("binary_cross_entropy") and "logits" not in name
    for shape in ((3, 4), (), (5, 1)):
        for reduction in (0, 1, 2):
            x = (
                source.tensor(shape, dtype, 0.02, 0.98)
                if probability
                else source.tensor(shape, dtype)
            )
            target = source.tensor(shape, dtype, 0, 1)
            extra: tuple[Any, ...] = (0.7,) if name.startswith(("smooth", "huber")) else ()
            weight = source.tensor(shape, dtype, 0.5, 2) if reduction == 1 else None
            args: tuple[Any, ...] = (x, target)
            if name == "binary_cross_entropy_with_logits":
                args += (
                    weight,
                    source.tensor(shape[-1:], dtype, 0.5, 2) if shape else None,
                    reduction,
                )
            elif probability:
                args += (weight, reduction)
            else:
                args += (reduction, *extra)
            if "backward" in name:
                args = (source.tensor(shape if reduction == 0 else (), dtype), *args)
            yield args, {}


@sampler("embedding")
def embedding(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in ((5,), (2, 3), (), (0,)):
        yield (source.tensor((7, 4), dtype), source.indices(shape, 7)), {}
        yield (source.tensor((7, 1), dtype), source.indices(shape, 7, torch.int32), 2), {}


@sampler("embedding_backward")
def embedding_backward(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in ((9,), (2, 3), (0,)):
        for padding in (-1, 2):
            yield (
                (
                    source.tensor((*shape, 4), dtype),
                    source.indices(shape, 5),
                    5,
                    padding,
                    padding == 2,
                ),
                {},
            )


@sampler("index_select", "gather", "take", "index_add", "scatter_add", "scatter")
def along(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    for shape in ((4, 5), (3, 1, 4), (6,)):
        x = source.tensor(shape, dtype)
        for dim in (0, -1):
            if name == "take":
                yield (x, source.indices((2, 3), x.numel()) - x.numel() // 2), {}
                continue
            count = shape[dim]
            some = list(shape)
            some[dim] = 3
            if name in ("index_select", "index_add"):
                index = source.indices((3,), count)
                if name == "index_select":
                    yield (x, dim, index), {}
                else:
                    yield (x, dim, index, source.tensor(tuple(some), dtype)), {"alpha": 2}
                continue
            index = source.indices(tuple(some), count)
            if name == "gather":
                yield (x, dim, index), {}
            elif name == "scatter_add":
                yield (x, dim, index, source.tensor(tuple(some), dtype)), {}
            else:  # places must differ, for their order is not defined
                index = torch.stack(
                    [
                        torch.randperm(count, generator=source.generator)
                        for _ in range(x.numel() // count)
                    ]
                )
                index = index.reshape(
                    [*(n for k, n in enumerate(shape) if k != dim % len(shape)), count]
                ).movedim(-1, dim)
                yield (
                    (
                        (x, dim, index, source.tensor(shape, dtype))
                        if name == "scatter.src"
                        else (x, dim, index, 1)
                    ),
                    {},
                )


@sampler("index", "index_put")
def index(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    x = source.tensor((4, 5, 3), dtype)
    i, j = source.indices((2, 3), 4) - 2, source.indices((3,), 5)
    k = source.indices((2, 1), 3, torch.int32)
    for indices in (
        [i],
        [None, j],
        [i, j],
        [None, j, k],
        [i, None, source.indices((3,), 3)],
        [None, None, k],
    ):
        selected = x[tuple(slice(None) if n is None else n.long() for n in indices)]
        if name_of(op).endswith("index.Tensor"):
            yield (x, indices), {}
        else:
            yield (x, indices, source.tensor(tuple(selected.shape), dtype), True), {}
            yield (x, indices, source.tensor((), dtype), False), {}
    if not name_of(op).endswith("index.Tensor"):
        row, inner, each = (source.tensor(n, torch.bool) for n in ((4,), (5, 3), (4, 5, 3)))
        for mask, indices, rest in (
            (row, [row], (5, 3)),
            (inner, [None, inner], (4,)),
            (each, [each], ()),
        ):
            front = 1 if mask is inner else 0
            counted = (*rest[:front], int(mask.sum()), *rest[front:])
            for accumulate in (False, True):
                yield (x, indices, source.tensor((), dtype), accumulate), {}
                yield (x, indices, source.tensor(counted, dtype), accumulate), {}
        yield (x, [row], source.tensor((1, 3), dtype), False), {}
        yield (x, [row], source.tensor((int(row.sum()), 1, 3), dtype), False), {}
        yield (x, [None, inner], source.tensor((4, 1), dtype), False), {}


@sampler("dropout_backward")
def dropout_backward(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    yield (source.tensor((3, 4), dtype), source.tensor((3, 4), torch.bool), 2.0), {}


@sampler("group_norm_backward")
def group_norm_backward(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for n, c, hw, group in ((2, 6, 5, 3), (3, 4, 7, 4), (1, 4, 6, 1)):
        for affine in (True, False):
            x, grad = source.tensor((n, c, hw), dtype), source.tensor((n, c, hw), dtype)
            weight = source.tensor((c,), dtype) if affine else None
            _, mean, rstd = aten.native_group_norm(x, weight, None, n, c, hw, group, 1e-5)
            yield (grad, x, mean, rstd, weight, n, c, hw, group, [True, affine, affine]), {}


@sampler("slice_backward")
def slice_backward(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    if name_of(op) == "select_backward":
        yield (source.tensor((3, 4), dtype), [2, 3, 4], 0, -1), {}
        yield (source.tensor((2, 3), dtype), [2, 3, 4], -1, 1), {}
        return
    yield (source.tensor((2, 2, 4), dtype), [2, 3, 4], 1, 1, 3, 1), {}
    yield (source.tensor((2, 3, 2), dtype), [2, 3, 4], 2, -3, 9, 2), {}
    yield (source.tensor((2, 0, 4), dtype), [2, 3, 4], 1, 3, 9, 1), {}
