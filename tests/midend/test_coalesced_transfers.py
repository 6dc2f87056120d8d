"""Coalesced transfers of several channels of small feature maps."""

from __future__ import annotations

import numpy as np
import pytest

from ftm_backend import codegen
from ftm_backend.midend import pipeline
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from midend.channel_programs import channels_backward
from midend.harness import check, stages
from midend.linalg_text import Function

M7032 = presets.load("m7032")
TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16}


def text(images: int, channels: int, places: int, dtype: str = "f32") -> str:
    f = Function()
    return f.text(channels_backward(f, images, channels, places, dtype))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize(
    "images,channels,places",
    [(16, 512, 4), (5, 131, 9), (8, 96, 49), (3, 300, 31), (2, 1000, 12), (8, 61, 196)],
)
def test_fuse_conv_backward(images, channels, places, cores):
    rng = np.random.default_rng(0)
    x, dy = (rng.standard_normal((images, channels, places)).astype(np.float32) for _ in range(2))
    w = 1e-2 * rng.standard_normal(channels).astype(np.float32)
    check(text(images, channels, places), [x, dy, w], tolerance=1e-4, machine=M7032, cores=cores)


@pytest.mark.parametrize("dtype", ["f64", "f16"])
@pytest.mark.parametrize("images,channels,places", [(16, 256, 4), (5, 131, 9)])
def test_other_types(images, channels, places, dtype):
    rng = np.random.default_rng(0)
    x, dy, w = (
        rng.integers(-2, 3, size).astype(TYPES[dtype])
        for size in ((images, channels, places), (images, channels, places), channels)
    )
    check(
        text(images, channels, places, dtype),
        [x, dy, w / 64],
        tolerance=1e-2 if dtype == "f16" else 1e-9,
        machine=M7032,
        cores=3,
    )


def copies(
    images: int, channels: int, places: int, machine: presets.MachineParameters = M7032
) -> int:
    """Copies on chip."""
    return stages(text(images, channels, places), machine)["lower-kernels"].count("DCW ")


def test_what_is_taken_apart_on_chip():
    assert copies(16, 512, 4) == 3  # two tensors and the result
    assert copies(16, 512, 32) == 0  # whole granules
    assert copies(16, 512, 4, presets.load("host")) == 0


@pytest.mark.parametrize("images,channels,places", [(16, 512, 4), (8, 256, 196)])
def test_little_more_than_the_elements_is_moved(images, channels, places):
    value = pipeline.LINALG.read(text(images, channels, places), M7032)
    for step in (*pipeline.pipeline(M7032), *codegen.pipeline.pipeline(M7032)):
        value = step.run(value, M7032)
    profile = cycle_model.model(codegen.emit(value, M7032), machine="m7032", cores=8)
    assert profile.dma_bytes < 1.1 * 4 * (3 * images * channels * places + channels)
