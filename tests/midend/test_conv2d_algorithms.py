"""Random convolutions by each algorithm, on several machines, against PyTorch in float64."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch.nn import functional

from ftm_backend.ir.linalg.function import Statement
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
CASES = [
    pytest.param(op, each.name, id=f"{named.decision}={each.name}")
    for op, named in NAMED_OPERATIONS.items()
    if op in (DENSE, DEPTHWISE)
    for each in named.algorithms
]
BOUND = {"f32": 2e-5, "f64": 1e-13, "bf16": 1e-2}
"""Largest error, relative to the largest element."""


class Convolution:
    """A random convolution of zero-padded input."""

    def __init__(self, op: str, seed: int, dtype: str) -> None:
        rng = np.random.default_rng(seed)

        def pick(*choices: int) -> int:
            return int(rng.choice(choices))

        self.op, self.dtype = op, dtype
        self.images, self.channels = pick(1, 2, 5), pick(1, 3, 17, 32)
        self.filters = pick(1, 6, 20) if op == DENSE else self.channels
        winograd = op == DENSE and pick(0, 1, 1)
        self.window = (3, 3) if winograd else (pick(1, 2, 3, 5), pick(1, 3, 4))
        self.stride = (1, 1) if winograd else (pick(1, 2, 3), pick(1, 2))
        self.dilation = (1, 1) if winograd else (pick(1, 2), pick(1, 3))
        self.padding = (pick(0, 1, 2), pick(0, 1, 3))
        least = [d * (k - 1) + 1 for k, d in zip(self.window, self.dilation, strict=True)]
        self.size = tuple(n + pick(0, 1, 2, 5, 8) for n in least)
        shapes = [
            (self.images, self.channels, *self.size),
            (self.filters, *([self.channels] if op == DENSE else []), *self.window),
        ]
        self.x, self.weight = (torch.from_numpy(rng.standard_normal(n)) for n in shapes)
        if dtype == "bf16":
            self.x, self.weight = self.x.bfloat16().double(), self.weight.bfloat16().double()

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
        groups = 1 if self.op == DENSE else self.channels
        return functional.conv2d(
            x.double(),
            weight.double().reshape(self.filters, -1, *self.window),
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=groups,
        ).numpy()

    def text(self) -> str:
        result = "f32" if self.dtype == "bf16" else self.dtype
        (rows, columns), (low, left) = self.size, self.padding
        padded = (self.images, self.channels, rows + 2 * low, columns + 2 * left)
        wide = padded[3]
        plane = padded[2] * wide
        x, weight = tensor(self.x.shape, self.dtype), tensor(self.weight.shape, self.dtype)
        big, out = tensor(padded, self.dtype), tensor(self.wanted().shape, result)
        steps = f"{self.channels * plane}, {plane}, {wide}, 1"
        return f"""
func.func @main(%x: {x}, %w: {weight}) -> {out} {{{zeros("p", padded, self.dtype)}
  %padded = "ftm.update"(%p, %x) {{offset = {low * wide + left} : i64, strides = array<i64: {steps}>}}
      : ({big}, {x}) -> {big}{zeros("i", self.wanted().shape, result)}
  %r = {self.op} {{strides = dense<[{self.stride[0]}, {self.stride[1]}]> : tensor<2xi64>,
      dilations = dense<[{self.dilation[0]}, {self.dilation[1]}]> : tensor<2xi64>}}
      ins(%padded, %w : {big}, {weight}) outs(%i : {out}) -> {out}
  return %r : {out}
}}"""


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
    """So the tests above test it; seed 0 is a convolution that every algorithm computes."""
    machine = presets.load("host")
    named = NAMED_OPERATIONS[op]
    convolution = next(
        c
        for seed in range(100)
        if (c := Convolution(op, seed, "f32")).window == (3, 3) and c.stride == c.dilation == (1, 1)
    )
    tuned = replace(machine, choices=((named.decision, algorithm),))
    function = choose_algorithm(pipeline.LINALG.read(convolution.text(), machine), tuned)
    kept = any(isinstance(item, Statement) and item.op == op for item in function.body)
    assert kept == (algorithm == named.algorithms[0].name)


@pytest.mark.parametrize(
    ("op", "algorithm"), [(DENSE, "winograd-2x2"), (DEPTHWISE, "taps")], ids=["transform", "taps"]
)
def test_maps_move_single_runs(op: str, algorithm: str) -> None:
    """A tile of several rows would have to be copied on the host."""
    convolution = Convolution(op, 0, "f32")
    convolution.images, convolution.channels, convolution.filters = 16, 64, 64
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
