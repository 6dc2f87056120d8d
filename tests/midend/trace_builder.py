"""Traces of a few ATen calls, with what PyTorch computes for them.

    program = Program()
    x, w = program.random(2, 3, 8, 8), program.random(4, 3, 3, 3)
    program.returns(program.convolution(x, w, padding=1))

Each call is computed in f64 when it is added, and its result is rounded to its type, as eager does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from midend.harness import DTYPES
from ops.arrays import to_numpy

TORCH = {**DTYPES, "i64": torch.int64, "i32": torch.int32, "i8": torch.int8, "i1": torch.bool}


@dataclass(frozen=True, eq=False)
class Value:
    """A value of a trace; None and "none" for a result that a call leaves out."""

    exact: Any
    dtype: str

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.exact.shape)

    @property
    def type(self) -> str:
        return "none" if self.exact is None else f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, eq=False)
class Scalar:
    """A number that is an argument of the program."""

    number: float


def _value(tensor: torch.Tensor | None, dtype: str) -> Value:
    if tensor is None:
        return Value(None, "none")
    rounded = tensor.detach().to(TORCH[dtype])
    return Value(rounded.double() if rounded.is_floating_point() else rounded, dtype)


class Program:
    """A trace that is being written.

    Its text has what the results need, and arguments in the order of their first use.
    """

    def __init__(self, dtype: str = "f32") -> None:
        self.dtype = dtype
        self.results: tuple[Value, ...] = ()
        self._calls: list[tuple[list[Value], str, dict[str, Any]]] = []
        self._generator = torch.Generator().manual_seed(0)

    def parameter(self, tensor: torch.Tensor, dtype: str | None = None) -> Value:
        return _value(tensor, dtype or self.dtype)

    def random(self, *shape: int, dtype: str | None = None) -> Value:
        return self.parameter(torch.randn(shape, generator=self._generator), dtype)

    def integers(self, *shape: int, least: int = -4, end: int = 4) -> Value:
        return self.parameter(torch.randint(least, end, shape, generator=self._generator))

    def scalar(self, number: float) -> Scalar:
        return Scalar(number)

    def returns(self, *results: Value) -> Program:
        self.results = results
        return self

    def call(self, op: str, dtypes: Sequence[str] = (), /, **arguments: Any) -> Any:
        """Add a call of an ATen operator.

        Args:
            op: Its name and overload.
            dtypes: Types of the results, unless they are that of the first operand, i64 or i1.
            arguments: All arguments that the recorder writes.

        Returns:
            The result, or a list of results.
        """
        name, _, overload = op.partition(".")
        function = getattr(getattr(torch.ops.aten, name), overload or "default")
        found = function(**{key: _argument(given) for key, given in arguments.items()})
        several = isinstance(found, (tuple, list))
        operands = [given for given in arguments.values() if isinstance(given, Value)]
        made = []
        for number, tensor in enumerate(found if several else (found,)):
            if dtypes:
                dtype = dtypes[number]
            else:
                found_type = None if tensor is None else tensor.dtype
                dtype = {torch.int64: "i64", torch.bool: "i1"}.get(found_type) or next(
                    x.dtype for x in operands if x.dtype != "i1"
                )
            made.append(_value(tensor, dtype))
        self._add(made, f"aten::{op}", arguments)
        return made if several else made[0]

    def view(
        self, base: Value, sizes: Sequence[int], strides: Sequence[int], offset: int = 0
    ) -> Value:
        made = _value(base.exact.contiguous().as_strided(sizes, strides, offset), base.dtype)
        self._add(
            [made], "ftm.view", {"base": base, "sizes": sizes, "strides": strides, "offset": offset}
        )
        return made

    def update(self, base: Value, value: Value, strides: Sequence[int], offset: int) -> Value:
        written = base.exact.clone()
        written.as_strided(value.shape, strides, offset).copy_(value.exact)
        made = _value(written, base.dtype)
        where = {"sizes": value.shape, "strides": strides, "offset": offset}
        self._add([made], "ftm.update", {"base": base, "value": value, **where})
        return made

    def full(self, shape: Sequence[int], fill: float) -> Value:
        return self.call("full", [self.dtype], size=list(shape), fill_value=fill, dtype=self.dtype)

    def transposed(self, matrix: Value) -> Value:
        rows, columns = matrix.shape
        return self.view(matrix, [columns, rows], [1, columns])

    def add(self, a: Value, b: Value) -> Value:
        return self.call("add.Tensor", self=a, other=b, alpha=1)

    def relu(self, x: Value) -> Value:
        return self.call("relu", self=x)

    def relu_backward(self, gradient: Value, x: Value) -> Value:
        return self.call("threshold_backward", grad_output=gradient, self=x, threshold=0)

    def convolution(self, x: Value, w: Value, bias: Value | None = None, **where: Any) -> Value:
        return self.call(
            "convolution",
            input=x,
            weight=w,
            bias=bias,
            **convolution_arguments(len(x.shape) - 2, **where),
        )

    def convolution_backward(
        self, gradient: Value, x: Value, w: Value, mask: tuple[bool, bool], **where: Any
    ) -> list[Value]:
        """The gradients of `x` and `w` that are in `mask`."""
        made: list[Value] = self.call(
            "convolution_backward",
            grad_output=gradient,
            input=x,
            weight=w,
            bias_sizes=None,
            **convolution_arguments(len(x.shape) - 2, **where),
            output_mask=[*mask, False],
        )
        return made[:2]

    def batch_norm(self, x: Value, parameters: Sequence[Value]) -> list[Value]:
        """Of a batch: the result, mean and inverse deviation, new running mean and variance.

        parameters: weight, bias, running mean and variance.
        """
        names = ("weight", "bias", "running_mean", "running_var")
        given = dict(zip(names, parameters, strict=True))
        made: list[Value] = self.call(
            "_native_batch_norm_legit_functional",
            [x.dtype, *[parameters[0].dtype] * 4],
            input=x,
            **given,
            training=True,
            momentum=0.1,
            eps=1e-05,
        )
        return made

    @property
    def inputs(self) -> list[np.ndarray]:
        return [to_numpy(value.exact.to(TORCH[value.dtype])) for value in self.parameters]

    @property
    def parameters(self) -> list[Value]:
        made = {value for values, *_ in self._live() for value in values}
        return [value for value in self._arguments(Value) if value not in made]

    @property
    def scalars(self) -> list[Scalar]:
        return self._arguments(Scalar)

    def __str__(self) -> str:
        live = self._live()
        made = [value for values, *_ in live for value in values]
        names: dict[Any, str] = {
            value: f"%{number}" for number, value in enumerate([*self.parameters, *made])
        }
        lines = ["trace", *(f"  {names[value]} = param {value.type}" for value in self.parameters)]
        for number, scalar in enumerate(self.scalars):
            names[scalar] = f"${number}"
            kind = "i64" if isinstance(scalar.number, int) else "f64"
            lines.append(f"  ${number} = scalar {kind}")
        for values, op, arguments in live:
            given = ", ".join(f"{key}={_word(x, names)}" for key, x in arguments.items())
            types = ", ".join(value.type for value in values)
            lines.append(f"  {', '.join(names[v] for v in values)} = {op}({given}) : {types}")
        return "\n".join([*lines, f"  return {', '.join(names[v] for v in self.results)}", ""])

    def result_of(self, op: str) -> Value:
        """The first result of the first call of an operator."""
        return next(made[0] for made, name, _ in self._calls if name == f"aten::{op}")

    def _add(self, made: list[Value], op: str, arguments: dict[str, Any]) -> None:
        self._calls.append((made, op, arguments))

    def _live(self) -> list[tuple[list[Value], str, dict[str, Any]]]:
        """The calls that the results need."""
        needed, live = set(self.results), []
        for call in reversed(self._calls):
            if needed & set(call[0]):
                needed.update(_flat(call[2].values()))
                live.append(call)
        return live[::-1]

    def _arguments(self, kind: type) -> list[Any]:
        used = (x for *_, arguments in self._live() for x in _flat(arguments.values()))
        return list(dict.fromkeys(x for x in used if isinstance(x, kind)))


def _flat(arguments: Iterable[Any]) -> list[Any]:
    """Values and scalars among arguments, also those in lists."""
    found = []
    for given in arguments:
        found += _flat(given) if isinstance(given, (list, tuple)) else [given]
    return [given for given in found if isinstance(given, (Value, Scalar))]


def _argument(given: Any) -> Any:
    if isinstance(given, Value):
        return given.exact
    if isinstance(given, (list, tuple)):
        return [_argument(each) for each in given]
    if isinstance(given, str):
        return torch.float64 if given in DTYPES else TORCH[given]
    return given.number if isinstance(given, Scalar) else given


def _word(given: Any, names: dict[Any, str]) -> str:
    if isinstance(given, Value):
        return names[given]
    if isinstance(given, (list, tuple)):
        return f"[{','.join(_word(each, names) for each in given)}]"
    if given is None or isinstance(given, bool):
        return str(given).lower()
    return names[given] if isinstance(given, Scalar) else str(given)


def convolution_arguments(
    dims: int, transposed: bool = False, output_padding: Any = 0, groups: int = 1, **where: Any
) -> dict[str, Any]:
    """The arguments of a convolution; one number is of all dimensions."""
    lists = {"stride": 1, "padding": 0, "dilation": 1, **where}
    words: dict[str, Any] = {
        key: [each] * dims if isinstance(each, int) else list(each) for key, each in lists.items()
    }
    if isinstance(output_padding, int):
        output_padding = [output_padding] * dims
    return words | {
        "transposed": transposed,
        "output_padding": list(output_padding),
        "groups": groups,
    }
