"""Immediates: the bits of a number in each type, nearest with halves to even."""

import math
import struct

import numpy as np
import pytest

from ftm_backend.assembler.immediate_encoder import to_bits
from ftm_backend.target.element_types import BY_SUFFIX

SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    1e-45,
    7e-46,
    1e-40,
    3.4028235e38,
    3.4028236e38,
    1e39,
    -1e39,
    65504.0,
    65519.9,
    65520.0,
    5.96e-8,
    2.98e-8,
    2.99e-8,
    math.inf,
    -math.inf,
    math.pi,
    1 / 3,
    2.0**-133,
    2.0**-134,
    1.5 * 2.0**-134,
]


def numbers():
    generator = np.random.default_rng(0)
    return SPECIAL + list(generator.standard_normal(300) * 10.0 ** generator.uniform(-45, 38, 300))


def test_f64_and_f32_and_f16_agree_with_numpy():
    with np.errstate(over="ignore"):
        for x in numbers():
            assert to_bits(x, BY_SUFFIX["F64"]) == int(np.float64(x).view(np.uint64))
            assert to_bits(x, BY_SUFFIX["F32"]) == int(np.float32(x).view(np.uint32)), x
            assert to_bits(x, BY_SUFFIX["F16"]) == int(np.float16(np.float64(x)).view(np.uint16)), x


def decode(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def test_bf16_is_nearest_with_halves_to_even():
    for x in numbers():
        bits = to_bits(x, BY_SUFFIX["BF16"])
        if math.isinf(x) or abs(x) >= decode(0x7F7F) + 2.0**119:
            assert bits & 0x7FFF == 0x7F80
            continue
        found = abs(decode(bits) - x)
        near = [
            b
            for b in (bits - 1, bits + 1)
            if (b ^ bits) & 0x8000 == 0 and b & 0x7FFF < 0x7F80 and b >= 0
        ]
        for other in near:
            distance = abs(decode(other) - x)
            assert found < distance or (found == distance and bits % 2 == 0), x
    assert to_bits(-0.0, BY_SUFFIX["BF16"]) == 0x8000


def test_nan_is_nan_in_every_float_type():
    assert math.isnan(decode(to_bits(math.nan, BY_SUFFIX["BF16"])))
    assert np.isnan(np.uint16(to_bits(math.nan, BY_SUFFIX["F16"])).view(np.float16))
    assert np.isnan(np.uint32(to_bits(math.nan, BY_SUFFIX["F32"])).view(np.float32))


@pytest.mark.parametrize(
    ("value", "suffix", "bits"),
    [
        (-1, "I8", 0xFF),
        (255, "I8", 0xFF),
        (255, "U8", 255),
        (-128, "I8", 0x80),
        (0xFFFFFFFF, "I32", 0xFFFFFFFF),
        (-(2**63), "I64", 1 << 63),
        (1, "B1", 1),
        (3, "F32", 0x40400000),
    ],
)
def test_integers(value, suffix, bits):
    assert to_bits(value, BY_SUFFIX[suffix]) == bits


@pytest.mark.parametrize(
    ("value", "suffix"),
    [(256, "I8"), (-129, "U8"), (2**64, "I64"), (2, "B1"), (1.0, "I32"), (math.nan, "I8")],
)
def test_out_of_range(value, suffix):
    with pytest.raises(ValueError):
        to_bits(value, BY_SUFFIX[suffix])
