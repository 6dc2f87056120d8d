"""Traces of a few ATen calls, with what PyTorch computes for them.

    program = Program()
    x, w = program.random(2, 3, 8, 8), program.random(4, 3, 3, 3)
    program.returns(program.convolution(x, w, padding=1))
    check(program, assembly(program, M7032), 1, 3)

Each call is computed in f64 when it is added, and its result is rounded to its type, as eager does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ftm_backend import assembler, codegen, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.ir.linalg.function import LinalgFunction
from ftm_backend.machine import Machine
from ftm_backend.midend import pipeline
from ftm_backend.midend.kernel_ir.program import KernelProgram
from ftm_backend.target import presets
from ftm_backend.target.presets import MachineParameters
from midend.harness import DTYPES, TOLERANCE
from ops.arrays import from_numpy, to_numpy

M7032 = presets.load("m7032")
TORCH = {**DTYPES, "i64": torch.int64, "i32": torch.int32, "i8": torch.int8}


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


@dataclass(frozen=True)
class Scalar:
    """A number that is an argument of the program."""

    name: str
    number: float


def _value(tensor: torch.Tensor | None, dtype: str) -> Value:
    if tensor is None:
        return Value(None, "none")
    rounded = tensor.detach().to(TORCH[dtype])
    return Value(rounded.double() if rounded.is_floating_point() else rounded, dtype)


class Program:
    """A trace that is being written. Parameters are listed in the order of their first use."""

    def __init__(self, dtype: str = "f32") -> None:
        self.dtype = dtype
        self.parameters: list[Value] = []
        self.scalars: list[Scalar] = []
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
        self.scalars.append(Scalar(f"${len(self.scalars)}", number))
        return self.scalars[-1]

    def returns(self, *results: Value) -> Program:
        self.results = results
        return self

    def call(self, op: str, dtypes: Sequence[str] = (), /, **arguments: Any) -> Any:
        """Add a call of an ATen operator.

        Args:
            op: Its name and overload.
            dtypes: Types of the results, unless they are that of the first operand or i64.
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
                is_index = tensor is not None and tensor.dtype == torch.int64
                dtype = "i64" if is_index else operands[0].dtype
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
            "convolution", input=x, weight=w, bias=bias, **_convolution(len(x.shape) - 2, **where)
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
            **_convolution(len(x.shape) - 2, **where),
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

    def __str__(self) -> str:
        made = [value for values, *_ in self._calls for value in values]
        names: dict[Any, str] = {
            value: f"%{number}" for number, value in enumerate([*self.parameters, *made])
        }
        lines = ["trace"]
        lines += [f"  {names[value]} = param {value.type}" for value in self.parameters]
        lines += [f"  {scalar.name} = scalar f64" for scalar in self.scalars]
        for values, op, arguments in self._calls:
            given = ", ".join(f"{key}={_word(x, names)}" for key, x in arguments.items())
            types = ", ".join(value.type for value in values)
            lines.append(f"  {', '.join(names[v] for v in values)} = {op}({given}) : {types}")
        return "\n".join([*lines, f"  return {', '.join(names[v] for v in self.results)}", ""])

    def _add(self, made: list[Value], op: str, arguments: dict[str, Any]) -> None:
        known = {value for values, *_ in self._calls for value in values}
        for given in arguments.values():
            if isinstance(given, Value) and given not in known and given not in self.parameters:
                self.parameters.append(given)
        self._calls.append((made, op, arguments))


def _argument(given: Any) -> Any:
    if isinstance(given, Value):
        return given.exact
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
    return given.name if isinstance(given, Scalar) else str(given)


def _convolution(
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


def convolution(
    direction: str,
    images: int,
    channels: int,
    filters: int,
    size: Sequence[int],
    window: Sequence[int],
    dtype: str = "f32",
    groups: int = 1,
    **where: Any,
) -> Program:
    """A convolution of feature maps of `size`.

    Args:
        direction: ``forward``; ``input`` or ``weight``, whose gradient it is; or ``transposed``, a
            transposed convolution whose result has `size`.
        images, channels, filters, size, window, groups: The shapes.
        dtype: The type of elements.
        where: Stride, padding and dilation.
    """
    program = Program(dtype)
    x = program.random(images, channels, *size)
    w = program.random(filters, channels // groups, *window)
    if direction == "forward":
        return program.returns(program.convolution(x, w, groups=groups, **where))
    words = _convolution(len(size), **where)
    steps = list(zip(words["stride"], words["padding"], words["dilation"], size, window))
    out = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for s, p, d, n, k in steps]
    gradient = program.random(images, filters, *out)
    if direction == "transposed":
        left = [
            n - ((o - 1) * s - 2 * p + d * (k - 1) + 1)
            for o, (s, p, d, n, k) in zip(out, steps, strict=True)
        ]
        made = program.convolution(gradient, w, transposed=True, output_padding=left, **where)
        return program.returns(made)
    mask = (direction == "input", direction == "weight")
    made = program.convolution_backward(gradient, x, w, mask, groups=groups, **where)
    return program.returns(made[mask.index(True)])


def linalg(program: Program, machine: MachineParameters = M7032) -> LinalgFunction:
    options = CompileOptions(machine=machine.name)
    return pipeline.LINALG.read(driver.run_from("trace", str(program), "linalg", options), machine)


def before(program: Program, name: str, machine: MachineParameters = M7032) -> Any:
    """What the pass `name` takes."""
    value: Any = linalg(program, machine)
    for step in pipeline.pipeline(machine):
        if step.name == name:
            return value
        value = step.run(value, machine)
    raise ValueError(f"{machine.name} has no pass {name}")


def after(program: Program, name: str, machine: MachineParameters = M7032) -> Any:
    """What the pass `name` leaves."""
    (step,) = (step for step in pipeline.PASSES if step.name == name)
    return step.run(before(program, name, machine), machine)


def planned(program: Program, machine: MachineParameters = M7032) -> KernelProgram:
    """The kernels before they are lowered."""
    kernels = before(program, "lower-kernels", machine)
    assert isinstance(kernels, KernelProgram)
    return kernels


def lowered(kernels: KernelProgram) -> str:
    """The assembly of kernels that `planned` gave."""
    machine = kernels.kernels[0].machine
    return str(codegen.pipeline.run(pipeline.PASSES[-1].run(kernels, machine), machine))


def assembly(program: Program, machine: MachineParameters = M7032) -> str:
    kernels = pipeline.run(linalg(program, machine), machine)
    return str(codegen.pipeline.run(kernels, machine))


def check(program: Program, text: str, *cores: int, tolerance: float | None = None) -> None:
    """Run assembly on so many cores in checked mode, and compare with PyTorch.

    tolerance: relative to the largest element, instead of `TOLERANCE` of each result's type.
    """
    image = assembler.assemble(text)
    for count in cores:
        with Machine(cores=count, checked=True) as emulator:
            found = emulator.load(image).run(
                program.inputs, [scalar.number for scalar in program.scalars]
            )
        for number, (got, wanted) in enumerate(zip(found, program.results, strict=True)):
            seen, exact = from_numpy(np.asarray(got), TORCH[wanted.dtype]), wanted.exact
            if not seen.is_floating_point():
                assert torch.equal(seen, exact), f"result {number} on {count} cores"
                continue
            near = TOLERANCE[wanted.dtype] if tolerance is None else tolerance
            largest = exact[exact.isfinite()].abs().max().item() if exact.isfinite().any() else 1.0
            torch.testing.assert_close(
                seen.double(),
                exact,
                rtol=near,
                atol=near * max(largest, 1.0),
                equal_nan=True,
                msg=lambda text, at=(number, count): f"result {at[0]} on {at[1]} cores: {text}",
            )
