"""Random convolutions by each algorithm, on several machines, against PyTorch in float64."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.nn.grad import conv2d_weight

from ftm_backend.ir.linalg.function import Statement
from ftm_backend.ir.linalg.named_ops import WEIGHT_GRADIENT
from ftm_backend.midend import pipeline
from ftm_backend.midend.algorithms.registry import NAMED_OPERATIONS
from ftm_backend.midend.algorithms.winograd_transform import transform_matrices
from ftm_backend.midend.transforms.tensor.choose_algorithm import choose_algorithm
from ftm_backend.target import presets
from midend.contraction_programs import assembly, run, tensor, zeros

MACHINES = {
    "host": (presets.load("host"), 2),
    "small": (replace(presets.load("host"), am_bytes=40 * 1024, sm_bytes=8 * 1024), 1),
    "m7032": (presets.load("m7032"), 3),
    "mt3000": (presets.load("mt3000"), 8),
}
DENSE, DEPTHWISE = "linalg.conv_2d_nchw_fchw", "linalg.depthwise_conv_2d_nchw_chw"
GROUPED = "linalg.conv_2d_ngchw_gfchw"
CASES = [
    pytest.param(op, each.name, id=f"{op.rpartition('.')[2]}={each.name}")
    for op in (DENSE, GROUPED, DEPTHWISE, WEIGHT_GRADIENT)
    for each in NAMED_OPERATIONS[op].algorithms
]
BOUND = {"f32": 2e-5, "f64": 1e-13, "bf16": 1e-2}
"""Largest error, relative to the largest element."""


class Convolution:
    """A random convolution of zero-padded input, or the gradient of its weights."""

    def __init__(self, op: str, seed: int, dtype: str) -> None:
        rng = np.random.default_rng(seed)

        def pick(*choices: int) -> int:
            return int(rng.choice(choices))

        self.op, self.dtype = op, dtype
        self.images, self.channels = pick(1, 2, 5), pick(1, 3, 17, 32)
        self.filters = pick(1, 6, 20) if op != DEPTHWISE else self.channels
        self.groups = self.channels if op == DEPTHWISE else 1 if op == DENSE else pick(1, 2, 3)
        if op == WEIGHT_GRADIENT and pick(0, 0, 1):  # of a depthwise convolution
            self.channels, self.filters, self.groups = 1, 1, pick(2, 17)
        if op in (GROUPED, WEIGHT_GRADIENT):
            self.channels, self.filters = self.groups * self.channels, self.groups * self.filters
        winograd = op != DEPTHWISE and pick(0, 1, 1)
        self.window = (3, 3) if winograd else (pick(1, 2, 3, 5), pick(1, 3, 4))
        self.stride = (1, 1) if winograd else (pick(1, 2, 3), pick(1, 2))
        self.dilation = (1, 1) if winograd else (pick(1, 2), pick(1, 3))
        self.padding = (pick(0, 1, 2), pick(0, 1, 3))
        least = [d * (k - 1) + 1 for k, d in zip(self.window, self.dilation, strict=True)]
        self.size = tuple(n + pick(0, 1, 2, 5, 8) for n in least)
        one = (self.channels // self.groups, *self.window)
        split = self.groups, self.filters // self.groups
        shapes = {
            DENSE: (self.filters, *one),
            GROUPED: (*split, *one),
            DEPTHWISE: (self.filters, *self.window),
            WEIGHT_GRADIENT: (self.images, *split, *self.results),
        }
        x = (self.images, self.channels, *self.size)
        self.x, self.weight = (torch.from_numpy(rng.standard_normal(n)) for n in (x, shapes[op]))
        if dtype == "bf16":
            self.x, self.weight = self.x.bfloat16().double(), self.weight.bfloat16().double()

    @property
    def results(self) -> tuple[int, ...]:
        """Rows and columns of the result."""
        numbers = zip(self.size, self.padding, self.dilation, self.window, self.stride, strict=True)
        return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in numbers)

    @property
    def inputs(self) -> list[np.ndarray]:
        if self.dtype == "bf16":
            return [t.bfloat16().view(torch.uint16).numpy() for t in (self.x, self.weight)]
        kind = torch.float32 if self.dtype == "f32" else torch.float64
        return [t.to(kind).numpy() for t in (self.x, self.weight)]

    def wanted(self) -> np.ndarray:
        x, weight = (
            (torch.from_numpy(a) for a in self.inputs)
            if self.dtype == "f32"
            else (
                self.x,
                self.weight,
            )
        )
        split = self.groups, self.filters // self.groups
        shape = (self.filters, self.channels // self.groups, *self.window)
        numbers = self.stride, self.padding, self.dilation, self.groups
        if self.op == WEIGHT_GRADIENT:
            gradient = weight.double().reshape(self.images, self.filters, *self.results)
            found = conv2d_weight(x.double(), shape, gradient, *numbers)
            return found.reshape(*split, *shape[1:]).numpy()
        found = functional.conv2d(x.double(), weight.double().reshape(shape), None, *numbers)
        return (found.unflatten(1, split) if self.op == GROUPED else found).numpy()

    def text(self) -> str:
        result = "f32" if self.dtype == "bf16" else self.dtype
        (rows, columns), (low, left) = self.size, self.padding
        padded = (self.images, self.channels, rows + 2 * low, columns + 2 * left)
        wide = padded[3]
        plane = padded[2] * wide
        x, weight = tensor(self.x.shape, self.dtype), tensor(self.weight.shape, self.dtype)
        big, out = tensor(padded, self.dtype), tensor(self.wanted().shape, result)
        steps = f"{self.channels * plane}, {plane}, {wide}, 1"
        read, view, kind = "%padded", "", big
        if self.op in (GROUPED, WEIGHT_GRADIENT):
            each = self.channels // self.groups
            kind = tensor((self.images, self.groups, each, *padded[2:]), self.dtype)
            split = f"{self.channels * plane}, {each * plane}, {plane}, {wide}, 1"
            read, view = (
                "%view",
                f"""
  %view = "ftm.view"(%padded) {{offset = 0 : i64, strides = array<i64: {split}>}} : ({big}) -> {kind}""",
            )
        numbers = f"""strides = dense<[{self.stride[0]}, {self.stride[1]}]> : tensor<2xi64>,
      dilations = dense<[{self.dilation[0]}, {self.dilation[1]}]> : tensor<2xi64>"""
        operands, end = f"ins({read}, %w : {kind}, {weight})", ""
        name, attributes = self.op, f"{{{numbers}}}"
        if self.op == WEIGHT_GRADIENT:
            rows, columns = (
                f"d{6 + k} * {self.stride[k]} + d{3 + k} * {self.dilation[k]}" for k in (0, 1)
            )
            maps = ("d5, d0, d1, d6, d7", f"d5, d0, d2, {rows}, {columns}", "d0, d1, d2, d3, d4")
            loops = ", ".join(f"d{k}" for k in range(8))
            maps = ", ".join(f"affine_map<({loops}) -> ({each})>" for each in maps)
            types = ", ".join(['"parallel"'] * 5 + ['"reduction"'] * 3)
            name, operands = "linalg.generic", f"ins(%w, {read} : {weight}, {kind})"
            attributes = f"""{{indexing_maps = [{maps}], iterator_types = [{types}],
      library_call = "{self.op}", {numbers}}}"""
            casts, a, b = "", "%a", "%b"
            if self.dtype == "bf16":
                casts = "%d = arith.extf %a : bf16 to f32\n    %e = arith.extf %b : bf16 to f32"
                a, b = "%d", "%e"
            end = f""" {{
  ^bb0(%a: {self.dtype}, %b: {self.dtype}, %c: {result}):
    {casts}
    %f = arith.mulf {a}, {b} : {result}
    %g = arith.addf %c, %f : {result}
    linalg.yield %g : {result}
  }}"""
        return f"""
func.func @main(%x: {x}, %w: {weight}) -> {out} {{{zeros("p", padded, self.dtype)}
  %padded = "ftm.update"(%p, %x) {{offset = {low * wide + left} : i64, strides = array<i64: {steps}>}}
      : ({big}, {x}) -> {big}{view}{zeros("i", self.wanted().shape, result)}
  %r = {name} {attributes}
      {operands} outs(%i : {out}){end} -> {out}
  return %r : {out}
}}"""


@pytest.mark.one_in(5)
@pytest.mark.parametrize("seed", range(len(MACHINES) * len(BOUND)))
@pytest.mark.parametrize(("op", "algorithm"), CASES)
def test_random_convolution(op: str, algorithm: str, seed: int) -> None:
    """An algorithm that cannot compute it is ignored, so the result is the same."""
    parameters, cores = list(MACHINES.values())[seed % len(MACHINES)]
    dtype = list(BOUND)[seed // len(MACHINES)]
    convolution = Convolution(op, 100 * seed + len(algorithm), dtype)
    tuned = replace(parameters, choices=((NAMED_OPERATIONS[op].decision, algorithm),), cores=cores)
    (got,) = run(convolution.text(), convolution.inputs, tuned, cores)
    wanted = convolution.wanted()
    bound = BOUND[dtype] * np.abs(wanted).max() * (4 if algorithm == "winograd-4x4" else 1)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=bound)


@pytest.mark.parametrize(("op", "algorithm"), CASES)
def test_forced_algorithm_replaces_the_operation(op: str, algorithm: str) -> None:
    """So the tests above test it, with a convolution that every algorithm computes."""
    machine = presets.load("host")
    named = NAMED_OPERATIONS[op]
    convolution = next(
        c
        for seed in range(100)
        if (c := Convolution(op, seed, "f32")).window == (3, 3)
        and c.stride == c.dilation == (1, 1)
        and (op == DEPTHWISE or c.groups < min(c.channels, c.filters))
    )
    tuned = replace(machine, choices=((named.decision, algorithm),))
    function = choose_algorithm(pipeline.LINALG.read(convolution.text(), machine), tuned)
    kept = any(isinstance(item, Statement) and item.op == op for item in function.body)
    products = any(isinstance(item, Statement) and 16 in item.loops for item in function.body)
    assert kept == (algorithm == named.algorithms[0].name and op != WEIGHT_GRADIENT)
    assert products == (algorithm == "winograd-2x2")


@pytest.mark.parametrize(
    ("op", "algorithm"), [(DENSE, "winograd-2x2"), (DEPTHWISE, "taps")], ids=["transform", "taps"]
)
def test_maps_move_single_runs(op: str, algorithm: str) -> None:
    """A tile of several rows would have to be copied on the host."""
    convolution = Convolution(op, 0, "f32")
    convolution.images, convolution.channels, convolution.filters = 16, 64, 64
    convolution.groups = 1 if op == DENSE else 64
    convolution.stride = convolution.dilation = convolution.padding = (1, 1)
    convolution.window, convolution.size = (3, 3), (16, 16)
    convolution.x = torch.zeros(16, 64, 16, 16)
    convolution.weight = torch.zeros(*((64, 64) if op == DENSE else (64,)), 3, 3)
    choices = ((NAMED_OPERATIONS[op].decision, algorithm),)
    functions = assembly(
        convolution.text(), replace(presets.load("host"), choices=choices, cores=1)
    ).split("@func")
    (widest, *_) = sorted(functions, key=lambda text: text.count("DLD"), reverse=True)
    loads = [line for line in widest.splitlines() if "DLD" in line]
    assert len(loads) >= 16
    assert all(re.search(r", 1@\d+ \| ", line) for line in loads)


@pytest.mark.parametrize("algorithm", ["winograd-2x2", "winograd-4x4"])
def test_error_of_weight_gradients_is_near_eagers(algorithm: str) -> None:
    """Behind ReLU half of both factors are zeros, which is where eager's sums are most accurate.

    There are as few tiles as the compiler takes without a request.
    """
    convolution = Convolution(WEIGHT_GRADIENT, 0, "f32")
    convolution.images, convolution.channels, convolution.filters, convolution.groups = (
        16,
        16,
        16,
        1,
    )
    convolution.stride = convolution.dilation = convolution.padding = (1, 1)
    convolution.window, convolution.size = (3, 3), (8, 8)
    rng = np.random.default_rng(0)
    x, gradient = (torch.from_numpy(rng.standard_normal((16, 16, 8, 8))) for _ in range(2))
    convolution.x, convolution.weight = x.relu(), (gradient * (x > 0)).unsqueeze(1)
    (got,) = run(convolution.text(), convolution.inputs, tuned(algorithm), 1)
    eager = conv2d_weight(
        convolution.x.float(), (16, 16, 3, 3), convolution.weight[:, 0].float(), 1, 1
    )
    wanted = convolution.wanted()[0]
    errors = [np.sqrt(np.mean((found - wanted) ** 2)) for found in (got[0], eager.numpy())]
    assert errors[0] < 4 * errors[1]


@pytest.mark.parametrize("position", [(0, 3, 4, 5), (2, 1, 0, 7)])
def test_infinities_reach_all_taps_of_their_channel(position: tuple[int, ...]) -> None:
    convolution = Convolution(WEIGHT_GRADIENT, 0, "f32")
    convolution.images, convolution.channels, convolution.filters, convolution.groups = 3, 4, 5, 1
    convolution.stride = convolution.dilation = convolution.padding = (1, 1)
    convolution.window, convolution.size = (3, 3), (8, 8)
    convolution.x, convolution.weight = torch.ones(3, 4, 8, 8), torch.ones(3, 1, 5, 8, 8)
    convolution.x[position] = float("inf")
    (got,) = run(convolution.text(), convolution.inputs, tuned("winograd-2x2"), 1)
    channel = np.arange(4) == position[1]
    assert np.isnan(got[0][:, channel]).all()
    assert np.isfinite(got[0][:, ~channel]).all()


def tuned(algorithm: str) -> presets.MachineParameters:
    """The host, with this algorithm for gradients of weights."""
    choices = (("conv2d-weight-gradient", algorithm),)
    return replace(presets.load("host"), choices=choices, cores=1)


def test_equal_shapes_do_not_hide_another_start() -> None:
    """Winograd computes a sum that starts at zero, not one that starts at another result."""
    machine = replace(presets.load("host"), choices=(("conv2d", "winograd-2x2"),), cores=1)
    convolution = Convolution(DENSE, 0, "f32")
    convolution.images, convolution.channels, convolution.filters = 1, 4, 8
    convolution.stride = convolution.dilation = convolution.padding = (1, 1)
    convolution.window, convolution.size = (3, 3), (6, 6)
    rng = np.random.default_rng(0)
    convolution.x = torch.from_numpy(rng.standard_normal((1, 4, 6, 6)))
    convolution.weight = torch.from_numpy(rng.standard_normal((8, 4, 3, 3)))
    once = convolution.text()
    (begin,) = re.findall(
        r"  %r = [^:]*: tensor<2xi64>,[^:]*: tensor<2xi64>}[^\n]*\n[^\n]*\n", once
    )
    again = begin.replace("%r =", "%s =").replace("outs(%i", "outs(%r")
    twice = once.replace(begin, begin + again).replace("return %r", "return %s")
    (got,) = run(twice, convolution.inputs, machine, 1)
    np.testing.assert_allclose(got, 2 * convolution.wanted(), rtol=0, atol=1e-4)


def test_a_single_filter_has_no_winograd() -> None:
    """Its products are no products of matrices, which have a price."""
    machine = replace(presets.load("host"), cores=1)
    convolution = next(
        c
        for seed in range(1000)
        if (c := Convolution(DENSE, seed, "f32")).window == (3, 3) and c.filters == 1
    )
    function = choose_algorithm(pipeline.LINALG.read(convolution.text(), machine), machine)
    assert any(isinstance(item, Statement) and item.op == DENSE for item in function.body)


@pytest.mark.parametrize("size", [(1, 1), (1, 2), (2, 2), (4, 3)])
def test_one_tile(size: tuple[int, int]) -> None:
    """The sums are then of a vector and a matrix, which the matrix unit may not execute."""
    convolution = Convolution(DENSE, 0, "f32")
    convolution.images, convolution.channels, convolution.filters = 1, 6, 6
    convolution.stride = convolution.dilation = convolution.padding = (1, 1)
    convolution.window, convolution.size = (3, 3), size
    rng = np.random.default_rng(0)
    convolution.x = torch.from_numpy(rng.standard_normal((1, 6, *size)))
    convolution.weight = torch.from_numpy(rng.standard_normal((6, 6, 3, 3)))
    for cores in (1, 2):
        machine = replace(presets.load("host"), cores=cores)
        (got,) = run(convolution.text(), convolution.inputs, machine, cores)
        np.testing.assert_allclose(got, convolution.wanted(), rtol=0, atol=1e-4)


@pytest.mark.parametrize("results", [2, 4])
def test_transforms_give_exact_sums(results: int) -> None:
    """In rational numbers there is no rounding."""
    output, weight, data = transform_matrices(results)
    w = [Fraction(3), Fraction(-5), Fraction(7)]
    x = [Fraction(k * k - 4, k + 1) for k in range(results + 2)]

    def times(matrix: tuple, vector: list[Fraction]) -> list[Fraction]:
        return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]

    products = [a * b for a, b in zip(times(weight, w), times(data, x), strict=True)]
    wanted = [sum(w[k] * x[i + k] for k in range(3)) for i in range(results)]
    assert times(output, products) == wanted
