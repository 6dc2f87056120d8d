"""Small assembly programs for the tests of this folder, from the facts that a test varies."""

from __future__ import annotations

from typing import Any

import numpy as np

from ftm_backend import assembler
from ftm_backend.target.element_types import BY_TOKEN

BYTES = {token: element.bytes for token, element in BY_TOKEN.items()}
NUMPY = {token: element.array for token, element in BY_TOKEN.items()}

WINDOWS_OF_A_TILE = [
    (
        "2@8 2@1 | 3@8 2@2",
        [(0, 0), (0, 1), (1, 0), (1, 1)],
        [(0, 0), (0, 2), (1, 0), (1, 2), (2, 0), (2, 2)],
    ),
    (
        "2@8 2@1 | 3@-8 2@-2",
        [(0, 0), (0, 1), (1, 0), (1, 1)],
        [(2, 2), (2, 0), (1, 2), (1, 0), (0, 2), (0, 0)],
    ),
    (
        "4@-1 | 3@8 2@0",
        [(0, 3), (0, 2), (0, 1), (0, 0)],
        [(0, 0), (0, 0), (1, 0), (1, 0), (2, 0), (2, 0)],
    ),
]
"""Elements of a tile with rows of 8, read as a matrix: its dimensions in assembly, where each of its
rows begins, and how far from there each of its columns is."""


def suffix(token: str) -> str:
    """The suffix of map operations on elements of ``token``."""
    return BY_TOKEN[token].suffix


def to_bf16(x: np.ndarray) -> np.ndarray:
    """float32 to the bits of bf16, rounding to nearest even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded).astype(np.uint16).reshape(np.shape(x))


def from_bf16(bits: np.ndarray) -> np.ndarray:
    """The float32 values of bf16 bits."""
    return (bits.astype(np.uint32) << 16).view(np.float32).reshape(bits.shape)


class MapProgram:
    """One ``@map`` over R x C in one step: loads the inputs, runs the body, stores the outputs.

    inputs: (array, access); an array is R x C, 1 x C, R x 1 or 1 x 1 by its access. outputs:
    (token, what) with what = ``full`` or a reduction such as ``rsum``. ``pad``: extra columns of
    every tile, so that rows are not adjacent. In the body input k is vk, and output k is taken from
    v(100 + k).
    """

    def __init__(
        self,
        rows: int,
        columns: int,
        inputs: list[tuple[str, str]],
        outputs: list[tuple[str, str]],
        body: list[str],
        *,
        pad: int = 0,
        scalars: tuple[str, ...] = (),
        buffers: tuple[str, ...] = (),
        space: str = "am",
    ) -> None:
        header, tiles, loads, stores, reads, writes = ["@program test, host"], [], [], [], [], []
        offset = 0
        for k, (token, access) in enumerate(inputs):
            r, c = self._extents(rows, columns, access)
            header.append(f"@in b{k}, {token}, {r}x{c}")
            tiles.append(
                f"  @tile X{k}, {space}, {token}, {max(r, 1)}x{max(c, 1) + pad}, 1, {offset}"
            )
            offset += (max(r, 1) * (max(c, 1) + pad) * BYTES[token] + 63) // 64 * 64
            loads.append(f"    DLD b{k}[0], {r}@{c} | {c}@1, X{k}")
            reads.append(f"X{k}:v{k}" + ("" if access == "full" else f".{access}"))
        header += buffers
        header += [f"@scalar s{k}, {token}" for k, token in enumerate(scalars)]
        self.shapes = []
        for k, (token, what) in enumerate(outputs):
            scope = {"r": "col", "c": "row", "a": "one"}[what[0]] if what != "full" else "full"
            r, c = self._extents(rows, columns, scope)
            self.shapes.append((r, c))
            header.append(f"@out o{k}, {token}, {r}x{c}")
            tiles.append(
                f"  @tile Y{k}, {space}, {token}, {max(r, 1)}x{max(c, 1) + pad}, 1, {offset}"
            )
            offset += (max(r, 1) * (max(c, 1) + pad) * BYTES[token] + 63) // 64 * 64
            writes.append(f"Y{k}:v{100 + k}" + ("" if what == "full" else f".{what}"))
            stores.append(f"    DST Y{k}, o{k}[0], {r}@{c} | {c}@1")
        self.text = "\n".join(
            [
                *header,
                "@func main",
                *tiles,
                *loads,
                "    DWAITALL",
                f"    @map {rows} x {columns}, {', '.join(reads)} -> {', '.join(writes)}",
                *("      " + line for line in body),
                "    @endmap",
                *stores,
                "@ret",
                "",
            ]
        )

    @staticmethod
    def _extents(rows: int, columns: int, access: str) -> tuple[int, int]:
        return {"full": (rows, columns), "row": (1, columns), "col": (rows, 1), "one": (1, 1)}[
            access
        ]

    def run(
        self, machine: Any, arrays: list[np.ndarray], scalars: tuple[float | int, ...] = ()
    ) -> list[np.ndarray]:
        """Assembles, loads and runs."""
        return run_text(machine, self.text, arrays, scalars)


def run_text(
    machine: Any,
    text: str,
    arrays: tuple[np.ndarray, ...] | list[np.ndarray] = (),
    scalars: tuple[float | int, ...] = (),
    donate: tuple[int, ...] = (),
) -> list[np.ndarray]:
    """Runs a whole program text once."""
    program = machine.load(assembler.assemble(text))
    return program.run([np.ascontiguousarray(a) for a in arrays], scalars, donate=donate)
