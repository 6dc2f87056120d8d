"""Pass `fuse-elementwise-producers`: an update's scaling moves into the product's kernel."""

from __future__ import annotations

import numpy as np
import pytest

from emulation import run_assembly
from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.ir.linalg.function import Statement
from ftm_backend.midend import pipeline
from ftm_backend.midend.transforms.fusion.fuse_ops import fuse_ops
from ftm_backend.midend.transforms.memory.resolve_in_place import resolve_in_place
from ftm_backend.midend.transforms.tensor.fuse_elementwise_producers import (
    fuse_elementwise_producers,
)
from ftm_backend.target import presets

SHAPE, ROWS = (37, 70), 50
"""Of a parameter, and of the batch that is summed over."""
KIND = f"f32[{SHAPE[0]},{SHAPE[1]}]"
SCALED, ADDED = (
    "aten::mul.Scalar(self={}, other=$0)",
    "aten::add.Tensor(self={}, other={}, alpha=1)",
)
# calls on "x" and "y", parameters "p" and "v", the gradient "g"; the results; how many kernels that
# is
PROGRAMS = {
    "one that decays": ({"a": SCALED.format("p"), "r": ADDED.format("a", "g")}, "r", 1),
    "one, and another one by it": (
        {
            "a": SCALED.format("p"),
            "s": "aten::addcmul(self=a, tensor1=g, tensor2=g, value=1)",
            "b": "aten::tanh(self=v)",
            "c": "aten::neg(self=b)",
            "r": "aten::mul.Tensor(self=c, other=s)",
        },
        "sr",
        1,
    ),
    "what is a result, too": ({"a": SCALED.format("p"), "r": ADDED.format("a", "g")}, "ar", 2),
    "what is read twice": (
        {
            "a": SCALED.format("p"),
            "b": ADDED.format("a", "g"),
            "r": "aten::mul.Tensor(self=a, other=b)",
        },
        "r",
        2,
    ),
    "what is added to its other columns": (
        {
            "a": SCALED.format("p"),
            "t": f"ftm.view(base=a, sizes=[{SHAPE[0]},{SHAPE[1]}], strides=[{SHAPE[1]},0], offset=0)",
        }
        | {"r": ADDED.format("t", "g")},
        "r",
        2,
    ),
}


def _trace(name: str) -> str:
    calls, results, _ = PROGRAMS[name]
    entering = {"x": f"f32[{ROWS},{SHAPE[0]}]", "y": f"f32[{ROWS},{SHAPE[1]}]", "p": KIND}
    if any("self=v" in call for call in calls.values()):
        entering["v"] = KIND
    lines = [
        "trace",
        *(f"  {key} = param {kind}" for key, kind in entering.items()),
        "  $0 = scalar f64",
    ]
    turned = f"ftm.view(base=x, sizes=[{SHAPE[0]},{ROWS}], strides=[1,{SHAPE[0]}], offset=0) : f32[{SHAPE[0]},{ROWS}]"
    lines += [f"  w = {turned}", f"  g = aten::mm(self=w, mat2=y) : {KIND}"]
    lines += [f"  {key} = {call} : {KIND}" for key, call in calls.items()]
    text = "\n".join([*lines, f"  return {', '.join(results)}", ""])
    for number, key in enumerate([*entering, "w", "g", *calls]):
        for before, after in ((" ", " ="), ("=", ","), ("=", ")"), (" ", ","), (" ", "\n")):
            text = text.replace(f"{before}{key}{after}", f"{before}%{number}{after}")
    return text


def _expected(
    name: str, x: np.ndarray, y: np.ndarray, p: np.ndarray, v: np.ndarray
) -> list[np.ndarray]:
    g = (x.astype(np.float64).T @ y.astype(np.float64)).astype(np.float32)
    a = p * np.float32(0.75)
    state = a + g * g
    found = {
        "one that decays": [a + g],
        "one, and another one by it": [state, -np.tanh(v) * state],
        "what is a result, too": [a, a + g],
        "what is read twice": [a * (a + g)],
        "what is added to its other columns": [a[:, :1] + g],
    }
    return found[name]


@pytest.mark.parametrize("machine, cores", [("host", 2), *(("m7032", n) for n in (1, 2, 3, 7, 8))])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_computed(name: str, machine: str, cores: int) -> None:
    generator = np.random.default_rng(0)
    inputs = [
        generator.standard_normal(s).astype(np.float32)
        for s in ((ROWS, SHAPE[0]), (ROWS, SHAPE[1]), SHAPE, SHAPE)
    ]
    trace = _trace(name)
    text = driver.run_from("trace", trace, "asm", CompileOptions(machine=machine, cores=cores))
    found = run_assembly(text, inputs[: trace.count(" param ")], [0.75], cores=cores)
    for got, want in zip(found, _expected(name, *inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_where_it_is_done(name: str) -> None:
    machine, kernels = presets.load("m7032"), PROGRAMS[name][2]
    linalg = driver.run_from("trace", _trace(name), "linalg", CompileOptions(machine="m7032"))
    function = pipeline.LINALG.read(linalg, machine)
    statements = sum(isinstance(item, Statement) for item in function.body)
    function = fuse_elementwise_producers(function, machine)
    left = sum(isinstance(item, Statement) for item in function.body)
    assert (left < statements) == (kernels == 1)
    assert len(fuse_ops(resolve_in_place(function, machine), machine).kernels) == kernels
