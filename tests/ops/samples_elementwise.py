"""Calls to test elementwise ops with; see samples.py."""

from __future__ import annotations

from typing import Any

import torch

from ops.samples import PAIRS, SHAPES, Calls, Source, name_of, sampler, second_kind, special


@sampler("unary", "nan_to_num")
def unary(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in SHAPES:
        yield (source.tensor(shape, dtype),), {}
    yield (source.tensor((4, 3), dtype).t(),), {}
    yield (special(dtype),), {}
    if name_of(op) == "logit":
        yield (source.tensor((5,), dtype, 0, 1), 0.1), {}


@sampler("copy")
def copy(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    for shape in ((), (0, 3), (3, 5)):
        x = source.tensor(shape, dtype)
        if name == "copy":
            for other in (torch.float32, torch.bfloat16, torch.int32, torch.bool):
                yield (source.tensor((2, *shape), other), x), {}
        elif name == "_to_copy":
            for other in (
                torch.float64,
                torch.float32,
                torch.float16,
                torch.bfloat16,
                torch.int64,
                torch.int32,
                torch.int16,
                torch.int8,
                torch.bool,
            ):
                yield (x,), {"dtype": other}
            yield (x.abs() if dtype != torch.bool else x,), {"dtype": torch.uint8}
        else:
            yield (x,), {}
    if name == "_to_copy" and dtype.is_floating_point:
        for other in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool):
            yield (special(dtype),), {"dtype": other}


INTEGER_DIVISION = ("div.Tensor_mode", "div.Scalar_mode", "floor_divide", "remainder", "fmod")


@sampler("binary")
def binary(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    divides = name.startswith(INTEGER_DIVISION) and not dtype.is_floating_point
    first_scalar, second_scalar = second_kind(op, 0) == "number", second_kind(op) == "number"
    extras: list[dict[str, Any]] = [{}]
    if "_mode" in name:
        extras = [{"rounding_mode": m} for m in ("floor", "trunc", None)]
    elif name.startswith(("add.", "sub.", "rsub.")):
        alpha = True if dtype == torch.bool else 2
        extras = [{}, {"alpha": alpha}]
    for extra in extras:
        for shape, other_shape in PAIRS:
            x = source.tensor(shape, dtype)
            y = source.tensor(other_shape, dtype)
            if divides:
                y = torch.where(y == 0, torch.ones_like(y), y)
            if name.startswith("pow") and not dtype.is_floating_point:
                y = y.abs()
            if first_scalar:
                yield (2, y), extra
            elif second_scalar:
                for number in (2, -1, 0.5, 3.0, 0) if not divides else (2, 3):
                    if (
                        isinstance(number, float)
                        and (not dtype.is_floating_point)
                        and name.startswith("bitwise")
                    ):
                        continue
                    if name.startswith("pow") and number == -1 and not dtype.is_floating_point:
                        continue
                    if dtype == torch.uint8 and number == -1:
                        continue
                    yield (x, number), extra
            else:
                yield (x, y), extra
                if (
                    name.startswith(("mul", "add.Tensor", "div.Tensor", "lt.Tensor"))
                    and "mode" not in name
                ):
                    yield (x, torch.tensor(1.5).item()), extra
                    yield (x, source.tensor(other_shape, torch.float32)), extra
                    yield (x, source.tensor((), torch.float64)), extra
        values = special(dtype)
        if divides or (name.startswith("pow") and not dtype.is_floating_point):
            continue
        if first_scalar:
            yield (1.5, values), extra
        elif second_scalar:
            yield (values, 2), extra
        else:
            yield (values.unsqueeze(1), values), extra


@sampler("shift")
def shift(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape, other in PAIRS:
        amount = source.indices(other, 7)
        yield (
            (
                source.tensor(shape, dtype, -50, 50),
                3 if second_kind(op) == "number" else amount.to(dtype),
            ),
            {},
        )


@sampler("clamp")
def clamp(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    if second_kind(op).endswith("number]") or second_kind(op) == "number":
        low, high = (1, 2) if dtype == torch.uint8 else (-1, 2)
        bounds = [(low, high), (low, None), (None, high)] if name == "clamp" else [(high,)]
        for shape in SHAPES:
            for bound in bounds:
                yield (source.tensor(shape, dtype), *bound), {}
        for bound in bounds:
            yield (special(dtype), *bound), {}
        return
    for shape, other in PAIRS:
        low, high = source.tensor(other, dtype), source.tensor(other, dtype)
        bounds = [(low, high), (None, high)] if name == "clamp.Tensor" else [(high,)]
        for bound in bounds:
            yield (source.tensor(shape, dtype), *bound), {}


@sampler("where")
def where(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    for shape, other in PAIRS:
        mask = source.tensor(other, torch.bool)
        x, y = source.tensor(shape, dtype), source.tensor(other, dtype)
        number = True if dtype == torch.bool else 2
        if name == "masked_fill.Scalar":
            yield (x, mask, number), {}
            if dtype.is_floating_point:
                yield (x, mask, float("-inf")), {}
        elif name == "masked_fill.Tensor":
            yield (x, mask, source.tensor((), dtype)), {}
        else:
            first = number if name in ("where.ScalarSelf", "where.Scalar") else x
            second = number if name in ("where.ScalarOther", "where.Scalar") else y
            yield (mask, first, second), {}


@sampler("ternary")
def ternary(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape, other in PAIRS:
        x, y, z = (
            source.tensor(shape, dtype),
            source.tensor(other, dtype),
            source.tensor(other, dtype, 1, 3),
        )
        if name_of(op) == "lerp.Scalar":
            for weight in (0.3, 0.9):
                yield (x, y, weight), {}
        elif name_of(op) == "lerp.Tensor":
            yield (x, y, source.tensor(other, dtype, 0, 1)), {}
        else:
            yield (x, y, z), {"value": 2}


NUMBERS = {
    "negative_slope": 0.1, "alpha": 1.25, "scale": 1.1, "input_scale": 0.9, "min_val": -1.0,
    "max_val": 1.5, "lambd": 0.6, "beta": 1.5, "threshold": 0.5, "value": -2,
}  # fmt: skip


DEPENDS_ON_PLACE = (
    "hardtanh_backward", "hardshrink_backward", "softshrink_backward", "gelu", "gelu_backward",
)  # fmt: skip
"""PyTorch's vector code and the scalar code for the rest of a row treat NaN or infinity differently
here."""


@sampler("activation")
def activation(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    schema = op._schema.arguments
    for shape in ((), (0, 3), (4, 7), None):
        for choice in (0, 1):
            args: list[Any] = []
            keywords: dict[str, Any] = {}
            for argument in schema:
                kind = str(argument.type)
                if kind == "Tensor":
                    x = special(dtype) if shape is None else source.tensor(shape, dtype)
                    if name_of(op) in DEPENDS_ON_PLACE:
                        x = torch.nan_to_num(x, 0, 9, -9)
                    if argument.name == "output":
                        x = source.tensor((12,) if shape is None else shape, dtype, 0.1, 0.9)
                    args.append(x)
                elif kind == "str":
                    keywords[argument.name] = ("none", "tanh")[choice]
                elif kind == "bool":
                    args.append(bool(choice) and name_of(op) != "leaky_relu_backward")
                else:
                    number = NUMBERS[argument.name]
                    args.append(number if dtype.is_floating_point else round(abs(number)))
            yield tuple(args), keywords


@sampler("log_sigmoid")
def log_sigmoid(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for x in (source.tensor((3, 5), dtype, -40, 40), source.tensor((), dtype), special(dtype)):
        if name_of(op) == "log_sigmoid_forward":
            yield (x,), {}
        else:
            finite = torch.nan_to_num(x)
            yield (
                (
                    source.tensor(tuple(x.shape), dtype),
                    finite,
                    torch.ops.aten.log_sigmoid_forward(finite)[1],
                ),
                {},
            )
