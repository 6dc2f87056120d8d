"""Arrays of the machine's types: random values, a summary line, and comparison."""

from __future__ import annotations

import numpy as np

from ftm_backend.ir.asm.program import BufferDirective
from ftm_backend.target.element_types import BY_TOKEN


def numbers(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return values that numpy can compute with: bf16 bits become float32."""
    if dtype != "bf16":
        return array
    return (array.astype(np.uint32) << 16).view(np.float32)


def _widest(array: np.ndarray) -> type[np.inexact]:
    return np.complex128 if np.issubdtype(array.dtype, np.complexfloating) else np.float64


def random_array(generator: np.random.Generator, buffer: BufferDirective) -> np.ndarray:
    """Return normally distributed floats, integers from 0 to 7, or booleans, for ``buffer``."""
    wanted = BY_TOKEN[buffer.dtype].array
    if buffer.dtype == "bf16":
        bits = (
            generator.standard_normal(buffer.shape, np.float32)
            .reshape(buffer.shape)
            .view(np.uint32)
        )
        return (bits >> 16).astype(np.uint16)
    if np.issubdtype(wanted, np.floating):
        return np.asarray(generator.standard_normal(buffer.shape), wanted)
    return np.asarray(generator.integers(0, 2 if buffer.dtype == "i1" else 8, buffer.shape), wanted)


def summary(array: np.ndarray, dtype: str) -> str:
    """Return the first values as text, and the mean of a longer array."""
    values = numbers(array, dtype).reshape(-1)
    if values.size == 0:
        return "empty"
    first = " ".join(f"{x:.6g}" for x in values[:4])
    return (
        first
        if values.size <= 4
        else f"{first} ...  mean {np.mean(values.astype(_widest(values))):.6g}"
    )


def difference(
    found: np.ndarray, expected: np.ndarray, dtype: str, rtol: float, atol: float
) -> str | None:
    """Compare two arrays.

    Args:
        found: Array that was computed.
        expected: Array that it should equal; NaN equals NaN.
        dtype: Token of the element type. Integers must be equal.
        rtol: Relative tolerance.
        atol: Absolute tolerance.

    Returns:
        None if they are equal within tolerance, else a description of the difference.
    """
    a, b = numbers(found, dtype), numbers(expected, dtype)
    if np.issubdtype(a.dtype, np.inexact):
        close = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    else:
        close = a == b
    if np.all(close):
        return None
    with np.errstate(invalid="ignore"):
        distance = np.where(
            close,
            -1.0,
            np.nan_to_num(np.abs(a.astype(_widest(a)) - b.astype(_widest(b))), nan=np.inf),
        )
    worst = np.unravel_index(int(np.argmax(distance)), a.shape) if a.ndim else ()
    where = list(map(int, worst))
    return (
        f"DIFFERS in {int(np.sum(~close))} of {a.size} elements, most at {where}: {a[worst]!s}, "
        f"expected {b[worst]!s}"
    )
