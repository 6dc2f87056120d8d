"""Borders made of the data: reflection and replication of one to three dimensions, with gradients."""

from __future__ import annotations

from collections.abc import Callable

from ftm_backend.dtypes import FLOATS, NUMBERS, compute_dtype
from ftm_backend.frontend.builder import Builder, Value
from ftm_backend.frontend.building.record import EXACT, lowering
from ftm_backend.frontend.building.recording import recorded
from ftm_backend.frontend.building.taps import pick, resample_dims, transposed

recorded("aten::reflection_pad2d aten::reflection_pad3d aten::replication_pad2d aten::replication_pad3d", like=0)
recorded(
    "aten::reflection_pad2d_backward aten::reflection_pad3d_backward aten::replication_pad2d_backward aten::replication_pad3d_backward",
    like=1,
)

_CORNERS = {"f64": (1e-11, 1e-11), "f32": (2e-5, 1e-5), "f16": (4e-2, 1e-2), "bf16": (2e-1, 1e-1)}
"""Of the gradients: PyTorch's CPU adds them up in the half types themselves."""


def _reflected(place: int, size: int) -> int:
    return -place if place < 0 else 2 * (size - 1) - place if place >= size else place


def _replicated(place: int, size: int) -> int:
    return min(max(place, 0), size - 1)


def _places(shape: tuple[int, ...], padding: list[int], source: Callable[[int, int], int]) -> list[list[int]]:
    """For each padded dimension, the place that each place of the result copies; ``padding`` starts at the last."""
    dims = len(padding) // 2
    return [
        [source(o, n) for o in range(-padding[2 * (dims - 1 - k)], n + padding[2 * (dims - 1 - k) + 1])]
        for k, n in enumerate(shape[len(shape) - dims :])
    ]


def _border(kind: str, source: Callable[[int, int], int], dims: int) -> None:
    @lowering(f"aten::{kind}_pad{dims}d", (*NUMBERS, "i1"), "border", EXACT)
    def forward(b: Builder, self: Value, padding: list[int]) -> Value:
        places = _places(self.shape, padding, source)
        return pick(b, self, [*[None] * (self.rank - dims), *places])

    @lowering(f"aten::{kind}_pad{dims}d_backward", FLOATS, "border_backward", _CORNERS)
    def backward(b: Builder, grad_output: Value, self: Value, padding: list[int]) -> Value:
        sizes = self.shape[self.rank - dims :]
        tables = [transposed([[(p, 1.0)] for p in row], n) for row, n in zip(_places(self.shape, padding, source), sizes, strict=True)]
        return b.cast(resample_dims(b, grad_output, tables, compute_dtype(self.dtype)), self.dtype)


for _dims in (1, 2, 3):
    _border("reflection", _reflected, _dims)
    _border("replication", _replicated, _dims)
