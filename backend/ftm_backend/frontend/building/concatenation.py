"""Parts side by side in one tensor."""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.frontend.builder import Builder, Value
from ftm_backend.linalg.affine import row_major
from ftm_backend.linalg.strided import Strided

__all__ = ["joined", "placed"]


def joined(b: Builder, parts: Sequence[Value], dim: int) -> Value:
    """``parts`` of one dtype, one after the other along ``dim``."""
    shape = (*parts[0].shape[:dim], sum(part.shape[dim] for part in parts), *parts[0].shape[dim + 1 :])
    return placed(b, parts, dim, shape, parts[0].dtype)


def placed(b: Builder, parts: Sequence[Value], dim: int, shape: tuple[int, ...], dtype: str) -> Value:
    """The same into a tensor of ``shape`` and ``dtype``."""
    strides, start, places = row_major(shape), 0, []
    for part in parts:
        places.append((part, Strided(part.shape, strides, start * strides[dim])))
        start += part.shape[dim]
    return b.placed(b.empty(dtype, shape), places)
