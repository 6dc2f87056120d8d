"""A kernel from a few lines of TileBuilder calls, as text and on the machine in checked mode."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ftm_backend import assembler
from ftm_backend.codegen import pipeline
from ftm_backend.ir.asm.program import BufferDirective, ScalarArgument
from ftm_backend.ir.linalg.function import Node
from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.ir.tile.kernel_tree import TileKernel
from ftm_backend.ir.tile.program import TileProgram
from ftm_backend.machine import Machine
from ftm_backend.target import presets

Build = Callable[[TileBuilder], None]
NUMPY = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.uint16, "i64": np.int64,
    "i32": np.int32, "i16": np.int16, "i8": np.int8, "u8": np.uint8, "i1": np.bool_,
}  # fmt: skip


def function(name: str, build: Build) -> TileKernel:
    b = TileBuilder(name)
    build(b)
    return b.kernel


class Lab:
    """Builds, emits and runs programs of one kernel."""

    overlapping = dataclasses.replace(presets.load("host"), dma_overlaps=True)
    plain = dataclasses.replace(presets.load("host"), dma_overlaps=False)

    def program(
        self,
        build: Build,
        inputs: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        scalars: Sequence[Any] = (),
        in_bounds: bool = False,
    ) -> TileProgram:
        """inputs, outputs: (dtype, shape); outputs may name an input that they replace as third
        item."""
        return TileProgram(
            "host",
            [self.kernel(build), function("main", lambda b: b.call("kernel_0"))],
            in_bounds={"kernel_0"} if in_bounds else set(),
            header=[
                *(
                    BufferDirective("in", f"b{i}", dtype, tuple(shape))
                    for i, (dtype, shape) in enumerate(inputs)
                ),
                *(ScalarArgument(f"s{i}", dtype) for i, dtype in enumerate(scalars)),
                *(
                    BufferDirective("out", f"o{i}", dtype, tuple(shape), *rest)
                    for i, (dtype, shape, *rest) in enumerate(outputs)
                ),
            ],
        )

    def text(self, build: Build, *signature: Any, overlap: bool = False, **named: Any) -> str:
        machine = self.overlapping if overlap else self.plain
        return str(pipeline.run(self.program(build, *signature, **named), machine))

    def kernel(self, build: Build) -> TileKernel:
        return function("kernel_0", build)

    def run(
        self,
        text: str,
        inputs: Sequence[np.ndarray],
        scalars: Sequence[Any] = (),
        cores: int = 2,
        donate: Sequence[int] = (),
    ) -> list[np.ndarray]:
        """Results of the text on the machine, in checked mode; ``donate``: outputs that take their
        input's memory."""
        program = Machine(cores=cores, checked=True).load(assembler.assemble(text))
        return program.run(list(inputs), list(scalars), donate=list(donate))

    def elements(
        self,
        body: Callable[[list[Node]], Node],
        result: str,
        *columns: tuple[str, Any],
        scalars: Sequence[tuple[str, Any]] = (),
    ) -> tuple[str, np.ndarray]:
        """Applies a map body to rows of elements: (dtype, values) for each argument; gives text and
        result."""
        arrays = [np.asarray(values, dtype=NUMPY[dtype]) for dtype, values in columns]
        count = arrays[0].size

        def build(b: TileBuilder) -> None:
            tiles = []
            for i, (dtype, _) in enumerate(columns):
                tiles.append(b.tile(dtype, 1, count))
                b.load(b.buffer(f"b{i}", dtype, count), 0, tiles[i], 0, [1, count], [count, 1], 1)
            out = b.tile(result, 1, count)
            given = [b.scalar(f"s{i}", dtype) for i, (dtype, _) in enumerate(scalars)]
            b.map(
                1,
                count,
                [(t, 0, "full") for t in tiles],
                [(out, 0, "full")],
                lambda v: [body([*v, *given])],
            )
            b.store(out, 0, b.buffer("o0", result, count), 0, [1, count], [count, 1], 1)

        text = self.text(
            build,
            [(dtype, [count]) for dtype, _ in columns],
            [(result, [count])],
            [dtype for dtype, _ in scalars],
        )
        return text, self.run(text, arrays, [value for _, value in scalars], cores=1)[0]


@pytest.fixture
def lab() -> Lab:
    return Lab()
