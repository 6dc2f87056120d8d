"""Maximum and average pooling and their gradients, the former with line buffers on chip."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from ftm_backend.perf_model import cycle_model
from midend.harness import DTYPES
from midend.trace_builder import Program
from midend.trace_programs import M7032, assembly, check


def pooling(
    kind: str,
    shape: tuple[int, ...],
    kernel: tuple[int, ...] = (3, 3),
    stride: tuple[int, ...] = (2, 2),
    padding: tuple[int, ...] = (1, 1),
    dtype: str = "f32",
    **others: Any,
) -> Program:
    """A pooling of images or volumes and its gradient; `kind`: ``max`` or ``avg``."""
    program = Program(dtype)
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-40, 40, shape, generator=generator).double()  # many are equal
    flat = x.view(-1)
    if x.numel():
        flat[::1009] = float("inf")
    if kind == "max":
        flat[::97], flat[::101] = float("nan"), float("-inf")
        others = {"dilation": [1] * len(kernel), "ceil_mode": False, **others}
    else:
        x /= 40
        others = {
            "ceil_mode": False,
            "count_include_pad": True,
            "divisor_override": None,
            **others,
        }
    image = program.parameter(x)
    name = f"{kind}_pool{len(kernel)}d" + "_with_indices" * (kind == "max")
    given = {"kernel_size": kernel, "stride": stride, "padding": padding, **others}
    pooled = program.call(name, self=image, **given)
    results = pooled if kind == "max" else [pooled]
    gradient = program.random(*results[0].shape)
    places = {"indices": results[1]} if kind == "max" else {}
    of_image = program.call(f"{name}_backward", grad_output=gradient, self=image, **given, **places)
    return program.returns(*results, of_image)


CASES: dict[str, dict[str, Any]] = {
    "max": {"kind": "max", "shape": (2, 32, 40, 40)},
    "max, odd images": {"kind": "max", "shape": (3, 21, 29, 37)},
    "max, planes in pieces": {"kind": "max", "shape": (1, 133, 22, 23)},
    "max, windows apart": {
        "kind": "max", "shape": (2, 40, 31, 34), "kernel": (2, 3), "stride": (3, 4),
        "padding": (0, 1),
    },
    "max, windows of all strides": {
        "kind": "max", "shape": (2, 32, 26, 25), "kernel": (5, 2), "stride": (1, 3),
        "padding": (2, 0),
    },
    "max, the last ones are cut": {"kind": "max", "shape": (2, 33, 30, 26), "ceil_mode": True},
    "max, spread windows": {"kind": "max", "shape": (2, 32, 30, 33), "dilation": (2, 1)},
    "max, tiles": {"kind": "max", "shape": (2, 33, 32, 34), "kernel": (2, 2), "padding": (0, 0)},
    "max, volumes": {
        "kind": "max", "shape": (2, 24, 9, 12, 13), "kernel": (2, 3, 3), "stride": (2, 2, 1),
        "padding": (0, 1, 1),
    },
    "halves": {"kind": "avg", "shape": (2, 33, 32, 34), "kernel": (2, 2), "padding": (0, 0)},
    "overlapping": {"kind": "avg", "shape": (2, 32, 40, 40)},
    "odd images": {"kind": "avg", "shape": (3, 21, 29, 37), "count_include_pad": False},
    "windows apart": {
        "kind": "avg", "shape": (2, 40, 31, 34), "kernel": (2, 3), "stride": (3, 4),
        "padding": (0, 1),
    },
    "the last ones are cut": {
        "kind": "avg", "shape": (2, 33, 30, 26), "ceil_mode": True, "count_include_pad": False,
    },
    "a divisor": {
        "kind": "avg", "shape": (2, 20, 26, 25), "kernel": (5, 2), "stride": (1, 3),
        "padding": (2, 0), "divisor_override": 7,
    },
    "whole images": {
        "kind": "avg", "shape": (4, 65, 7, 7), "kernel": (7, 7), "stride": (1, 1),
        "padding": (0, 0),
    },
    "volumes": {
        "kind": "avg", "shape": (2, 24, 9, 12, 13), "kernel": (2, 3, 3), "stride": (2, 2, 1),
        "padding": (0, 1, 1),
    },
}  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", CASES)
def test_every_pooling(name: str, cores: int) -> None:
    program = pooling(**CASES[name])
    text = assembly(program, replace(M7032, cores=cores))
    assert "DCW" in text or CASES[name]["kind"] == "avg"
    check(program, text, *{cores, 3})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["max", "max, odd images", "overlapping", "odd images"])
def test_every_type(name: str, dtype: str) -> None:
    program = pooling(**CASES[name], dtype=dtype)
    check(program, assembly(program, replace(M7032, cores=3)), 3)


@pytest.mark.parametrize("name", ["max", "max, odd images", "max, volumes"])
@pytest.mark.parametrize("kilobytes", [24, 64])
def test_small_scratchpads(name: str, kilobytes: int) -> None:
    program = pooling(**CASES[name])
    check(program, assembly(program, replace(M7032, cores=3, am_bytes=kilobytes * 1024)), 3)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_empty_batches(kind: str) -> None:
    program = pooling(kind, (0, 32, 40, 40))
    check(program, assembly(program, replace(M7032, cores=2)), 2)


def test_few_planes_and_small_images_are_left_to_nests() -> None:
    assert "DCW" not in assembly(pooling("max", (1, 2, 8, 8)))


@pytest.mark.parametrize(("shape", "least"), [((8, 64, 112, 112), 0.78), ((16, 48, 64, 61), 0.75)])
def test_images_are_fetched_once(shape: tuple[int, ...], least: float) -> None:
    text = assembly(pooling("max", shape))
    names = [function.split()[0] for function in text.split("@func ") if "DCW" in function]
    kernels = [
        k for k in cycle_model.model(text, machine="m7032", cores=8).kernels if k.name in names
    ]
    assert len(kernels) == 2
    assert all(k.dma_bytes <= 1.25 * k.least_bytes and k.roofline >= least for k in kernels)
