"""Calls to test each family of op records with: odd shapes, empty, 0-d, NaN, infinities, extremes.

A sampler takes an OpOverload, a dtype and a source of random tensors and yields (args, kwargs).  Which
sampler serves an op is said by its record's ``family``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

import ftm_lazy  # noqa: F401  (defines the ops that are the device's own)

Calls = Iterator[tuple[tuple[Any, ...], dict[str, Any]]]
SAMPLERS: dict[str, Callable[[Any, torch.dtype, Source], Calls]] = {}
SHAPES = ((), (0, 3), (7,), (3, 5), (2, 1, 4))
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
PAIRS = (((3, 4), (4,)), ((2, 1, 3), (4, 1)), ((), ()), ((0, 2), (2,)), ((5,), ()))


class Source:
    """Random tensors, the same for the same op and dtype."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def tensor(self, shape: tuple[int, ...], dtype: torch.dtype, low: float = -3, high: float = 3) -> torch.Tensor:
        """Uniform in [low, high), for integers within the bounds of the dtype, for bools either."""
        if dtype == torch.bool:
            return torch.rand(shape, generator=self.generator) < 0.5
        x = torch.rand(shape, generator=self.generator, dtype=torch.float64) * (high - low) + low
        if dtype in UNSIGNED:
            x = x.abs()
        return x.round().to(dtype) if not dtype.is_floating_point else x.to(dtype)

    def indices(self, shape: tuple[int, ...], bound: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        """Integers in [0, bound)."""
        return torch.randint(bound, shape, generator=self.generator).to(dtype)


def special(dtype: torch.dtype) -> torch.Tensor:
    """The values at which implementations differ."""
    if dtype == torch.bool:
        return torch.tensor([True, False])
    if dtype.is_floating_point:
        inf, nan = float("inf"), float("nan")
        return torch.tensor([nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 100.0, 1e-4]).to(dtype)
    bounds = torch.iinfo(dtype)
    return torch.tensor([0, 1, 2, bounds.max, bounds.min, bounds.max - 1], dtype=dtype)


def sampler(*families: str) -> Callable[[Any], Any]:
    """Decorator: the function samples ``families``."""

    def register(function: Any) -> Any:
        for family in families:
            SAMPLERS[family] = function
        return function

    return register


def name_of(op: Any) -> str:
    """``add.Tensor``."""
    schema = op._schema
    return schema.name.partition("::")[2] + ("." + schema.overload_name if schema.overload_name else "")


def second_kind(op: Any, position: int = 1) -> str:
    """Type of the argument at ``position``: Tensor or number."""
    return str(op._schema.arguments[position].type)


# --- elementwise ------------------------------------------------------------------------------------------


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
            for other in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
                          torch.int8, torch.bool):
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
                    if isinstance(number, float) and (not dtype.is_floating_point) and name.startswith("bitwise"):
                        continue
                    if name.startswith("pow") and number == -1 and not dtype.is_floating_point:
                        continue
                    if dtype == torch.uint8 and number == -1:
                        continue
                    yield (x, number), extra
            else:
                yield (x, y), extra
                if name.startswith(("mul", "add.Tensor", "div.Tensor", "lt.Tensor")) and "mode" not in name:
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
        yield (source.tensor(shape, dtype, -50, 50), 3 if second_kind(op) == "number" else amount.to(dtype)), {}


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
        x, y, z = source.tensor(shape, dtype), source.tensor(other, dtype), source.tensor(other, dtype, 1, 3)
        if name_of(op) == "lerp.Scalar":
            for weight in (0.3, 0.9):
                yield (x, y, weight), {}
        elif name_of(op) == "lerp.Tensor":
            yield (x, y, source.tensor(other, dtype, 0, 1)), {}
        else:
            yield (x, y, z), {"value": 2}


NUMBERS = {"negative_slope": 0.1, "alpha": 1.25, "scale": 1.1, "input_scale": 0.9, "min_val": -1.0, "max_val": 1.5,
           "lambd": 0.6, "beta": 1.5, "threshold": 0.5, "value": -2}


DEPENDS_ON_PLACE = ("hardtanh_backward", "hardshrink_backward", "softshrink_backward", "gelu", "gelu_backward")
"""PyTorch's vector code and the scalar code for the rest of a row treat NaN or infinity differently here."""


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
            yield (source.tensor(tuple(x.shape), dtype), finite, torch.ops.aten.log_sigmoid_forward(finite)[1]), {}


# --- views and layout -------------------------------------------------------------------------------------


@sampler("view", "split", "as_strided")
def view(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    x = source.tensor((2, 3, 4), dtype)
    table: dict[str, list[tuple[Any, ...]]] = {
        "view": [(x, [6, 4]), (x, [-1]), (x[:0], [0, 12])],
        "_unsafe_view": [(x, [6, 4])], "reshape": [(x.transpose(0, 1), [3, 8])], "_reshape_alias": [(x, [6, 4], [4, 1])],
        "view_copy": [(x, [6, 4])],
        "unsqueeze": [(x, 0), (x, -1), (source.tensor((), dtype), 0)],
        "squeeze": [(source.tensor((1, 3, 1), dtype),), (x,)], "squeeze.dim": [(source.tensor((1, 3), dtype), 0), (x, 0)],
        "squeeze.dims": [(source.tensor((1, 3, 1), dtype), [0, 2])],
        "flatten.using_ints": [(x, 1, 2)], "unflatten.int": [(x, 2, [2, 2])],
        "expand": [(source.tensor((3, 1), dtype), [2, 3, 4]), (x, [-1, 3, 4])],
        "broadcast_to": [(source.tensor((3, 1), dtype), [2, 3, 4])], "expand_copy": [(source.tensor((3, 1), dtype), [2, 3, 4])],
        "transpose.int": [(x, 0, -1), (x, 1, 1)], "swapaxes": [(x, 0, 1)],
        "t": [(x[0],), (x[0, 0],)], "t_copy": [(x[0],)],
        "permute": [(x, [2, 0, 1])], "permute_copy": [(x, [2, 0, -2])],
        "slice.Tensor": [(x, 1, 1, 3), (x, 2, None, None, 2), (x, -1, -3, 100, 1), (x, 0, 5, 9)],
        "slice_copy.Tensor": [(x, 1, 1, 3)],
        "narrow": [(x, 1, 1, 2), (x, 2, 0, 0)], "select.int": [(x, 1, -1), (x, 0, 1)], "select_copy.int": [(x, 1, -1)],
        "diagonal": [(x, 0, 1, 2), (x, 1, 0, 2), (x, -1, 1, 2)], "diagonal_copy": [(x, 0, 1, 2)],
        "unfold": [(x, 2, 2, 1), (x, 1, 3, 1), (x, 2, 3, 2)],
        "split.Tensor": [(x, 2, 2), (x, 3, 2)], "split_with_sizes": [(x, [1, 3], 2)], "chunk": [(x, 2, 1)],
        "unbind.int": [(x, 1)],
        "as_strided": [(x, [2, 2, 3], [3, 1, 2], 1), (x, [4], [0]), (x, [3], [5], 2)], "as_strided_copy": [(x, [2, 2], [3, 1], 1)],
    }
    for args in table[name_of(op)]:
        yield args, {}


@sampler("cat", "stack")
def cat(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    if name_of(op) == "stack":
        yield ([source.tensor((2, 3), dtype) for _ in range(3)], 1), {}
        yield ([source.tensor((), dtype)], 0), {}
        return
    yield ([source.tensor((2, n), dtype) for n in (3, 1, 0, 4)], 1), {}
    yield ([source.tensor((2, 3), dtype), torch.zeros(0, dtype=dtype), source.tensor((1, 3), dtype)], 0), {}
    yield ([source.tensor((2,), dtype), source.tensor((3,), torch.float32)], -1), {}


@sampler("flip", "roll", "triangle", "pad", "repeat", "slice_scatter")
def layout(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    x = source.tensor((3, 4), dtype)
    table: dict[str, list[tuple[Any, ...]]] = {
        "flip": [(x, [0]), (x, [0, -1]), (x, []), (source.tensor((2, 1, 3), dtype).permute(2, 0, 1), [0, 1])],
        "roll": [(x, [1], [0]), (x, [-1, 2], [0, 1]), (x, [5], []), (source.tensor((0, 2), dtype), [1], [0])],
        "tril": [(x, 0), (x, 1), (x, -2), (source.tensor((2, 3, 3), dtype), 0)],
        "triu": [(x, 0), (x, 1), (x, -2), (source.tensor((2, 3, 3), dtype), 0)],
        "constant_pad_nd": [(x, [1, 2], 1), (x, [1, 0, 2, 1], 0), (x, [-1, 1], 1), (source.tensor((0, 2), dtype), [1, 1, 1, 1], 1)],
        "repeat": [(x, [2, 1]), (x, [2, 3, 2]), (x, [0, 1])],
        "slice_scatter": [(x, x[1:2].clone(), 0, 1, 2), (x, x[:, :2].clone(), 1, 1, 4, 2)],
        "select_scatter": [(x, x[0].clone(), 0, -1), (x, x[:, 0].clone(), 1, 2)],
    }
    for args in table[name_of(op)]:
        yield args, {}


@sampler("creation", "fill")
def creation(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    number: Any = True if dtype == torch.bool else 3 if not dtype.is_floating_point else 2.5
    for size in ((), (0, 2), (2, 3)):
        x = source.tensor(size, dtype)
        if name == "zero" or (name.endswith("_like") and not name.startswith("full")):
            yield (x,), {}
        elif name in ("full_like", "fill.Scalar"):
            yield (x, number), {}
        elif name == "fill.Tensor":
            yield (x, source.tensor((), dtype)), {}
        elif name == "full":
            yield (list(size), number), {"dtype": dtype}
        elif name == "new_full":
            yield (x, list(size), number), {}
        elif name in ("new_zeros", "new_ones", "new_empty"):
            yield (x, list(size)), {}
        elif name == "scalar_tensor":
            yield (number,), {"dtype": dtype}
        elif name == "eye":
            yield (4,), {"dtype": dtype}
        elif name == "eye.m":
            yield (3, 5), {"dtype": dtype}
        elif name == "new_empty_strided":
            yield (x, list(size), list(torch.empty(size).stride())), {}
        elif name in ("empty_strided", "empty_permuted"):
            order = list(torch.empty(size).stride()) if name == "empty_strided" else list(range(len(size)))
            yield (list(size), order), {"dtype": dtype}
        else:
            yield (list(size),), {"dtype": dtype}


@sampler("arange", "linspace")
def ranges(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    table: dict[str, list[tuple[Any, ...]]] = {
        "arange": [(5,), (0,)], "arange.start": [(2, 9)], "arange.start_step": [(1, 12, 3), (9, 0, -2)],
        "linspace": [(0, 10, 5), (3, 3, 1), (1, 20, 8)],
        "logspace": [(0, 2, 5), (3, 3, 1, 2.0), (0, 6, 8, 2.0)],
    }
    for args in table[name_of(op)]:
        yield args, {"dtype": dtype}


# --- reductions -------------------------------------------------------------------------------------------


@sampler("reduction")
def reduction(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    names = [a.name for a in op._schema.arguments]
    single = "dim" in names and str(op._schema.arguments[names.index("dim")].type) == "int"
    dims: list[Any] = [None]
    if "dim" in names:
        dims = [0, -1] if single else [[0], [-1, 0], [1]]
    for shape in ((3, 5), (2, 1, 4), (0, 3), (3, 0)):
        for dim in dims:
            for keep in (False, True) if "keepdim" in names else (False,):
                args = (source.tensor(shape, dtype, -1.5, 1.5), *([dim] if "dim" in names else []))
                yield args, {"keepdim": True} if keep else {}
    yield (source.tensor((), dtype), *([dims[0]] if "dim" in names else [])), {}
    if dtype.is_floating_point:
        yield (special(dtype).reshape(3, 4), *([dims[0]] if "dim" in names else [])), {}
    if "dtype" in names and dtype == torch.float32:
        yield (source.tensor((4, 3), dtype), *([dims[0]] if "dim" in names else [])), {"dtype": torch.float64}


@sampler("extreme")
def extreme(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    dims = [[]] if len(op._schema.arguments) > 1 else []
    for shape in ((3, 5), (2, 1, 4), ()):
        yield (source.tensor(shape, dtype), *dims), {}
        if dims and shape:
            yield (source.tensor(shape, dtype), [0]), {"keepdim": True}
            yield (source.tensor(shape, dtype), [0, -1]), {}
    yield (special(dtype), *dims), {}


@sampler("extreme_dim", "extreme_place")
def extreme_dim(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in ((3, 5), (2, 1, 4), (4, 0, 0)[:1], ()):
        for dim in (0, -1):
            yield (source.tensor(shape, dtype), dim), {}
            yield (source.tensor(shape, dtype), dim, True), {}
    if name_of(op).startswith("arg"):
        yield (source.tensor((3, 5), dtype),), {}
    if dtype.is_floating_point:
        x = source.tensor((4, 6), dtype)
        x[0, 3] = x[0, 5] = float("nan")
        x[1, :] = float("-inf")
        yield (x, 1), {}


@sampler("variance")
def variance(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for dim in (None, [0], [0, 2], [-1]):
        for correction in (1, 0, 2.5):
            yield (source.tensor((3, 4, 5), dtype), dim), {"correction": correction}
    yield (source.tensor((3, 1), dtype), [1]), {"correction": 0, "keepdim": True}


@sampler("norm")
def norm(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    name = name_of(op)
    for p in (2, 1, 0, 3.5, float("inf"), float("-inf")):
        for dim in ([0], [1, 0]):
            x = source.tensor((3, 5), dtype)
            if name == "linalg_vector_norm":
                yield (x, p, dim, True), {}
                yield (x, p), {}
            elif name == "norm.Scalar":
                yield (x, p), {}
            elif name == "norm.ScalarOpt_dim":
                yield (x, p, dim), {}
            elif name == "norm.ScalarOpt_dtype":
                yield (x, p), {"dtype": dtype}
            else:
                yield (x, p, dim, False), {"dtype": dtype}


@sampler("scan")
def scan(op: Any, dtype: torch.dtype, source: Source) -> Calls:
    for shape in ((7,), (3, 5), (2, 9, 1), (0, 3)):
        for dim in (0, -1):
            yield (source.tensor(shape, dtype, -1.5, 1.5), dim), {}
    yield (source.tensor((), dtype), 0), {}


def for_op(name: str) -> Any:
    """The OpOverload that a trace's name means."""
    library, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, library), base), overload or "default")
