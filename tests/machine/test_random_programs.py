"""Random programs of maps, products, transfers and loops: fast and checked mode, one core and more,
agree."""

from __future__ import annotations

import numpy as np
import pytest

from ftm_backend import assembler
from ftm_backend.machine import Machine

BINARY = ["VADD", "VSUB", "VMUL", "VMIN", "VMAX"]
UNARY = ["VNEG", "VABS", "VTANH", "VEXP", "VSQRT"]
ROWS, COLUMNS = 24, 40


class Writer:
    """Writes one random program; every tile holds ROWS x COLUMNS floats unless said otherwise."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.lines: list[str] = []

    def pick(self, words: list[str]) -> str:
        return str(words[self.rng.integers(len(words))])

    def body(self, inputs: int) -> list[str]:
        """A chain of operations on v0, v1, ...; the last result is in v<self.last>."""
        lines: list[str] = []
        floats = [f"v{k}" for k in range(inputs)]
        fresh = inputs
        for _ in range(int(self.rng.integers(2, 8))):
            a, b = self.pick(floats), self.pick(floats)
            constant = self.pick(["0.5", "s0", "1.25", "r1"])
            result = f"v{fresh}"
            kind = self.rng.integers(4)
            if kind == 0:
                lines.append(f"      {self.pick(BINARY)}.F32 {a}, {b}, {result}")
            elif kind == 1:
                lines.append(f"      {self.pick(BINARY)}.F32 {a}, {constant}, {result}")
            elif kind == 2:
                lines.append(f"      {self.pick(UNARY)}.F32 {a}, {result}")
            else:
                fresh += 1
                lines.append(f"      VCMPLT.F32 {a}, {b}, v{fresh}")
                lines.append(f"      VSEL.F32 v{fresh}, {a}, {constant}, {result}")
            floats.append(result)
            fresh += 1
        self.last = int(floats[-1][1:])
        return lines

    def step(self) -> None:
        x, y, z = (self.pick(["A", "B", "C", "D"]) for _ in range(3))
        kind = self.rng.integers(6)
        if kind == 0:
            self.lines += [
                f"    @map {ROWS} x {COLUMNS}, {x}:v0, {y}:v1 -> {z}:vL",
                *self.body(2),
                "    @endmap",
            ]
        elif kind == 1:
            access = self.pick(["ROW:v1.row", "COL:v1.col", "ONE:v1.one"])
            self.lines += [
                f"    @map {ROWS} x {COLUMNS}, {x}:v0, {access} -> {z}:vL",
                *self.body(2),
                "    @endmap",
            ]
        elif kind == 2:
            scope = self.pick(["ROW:vL.c", "COL:vL.r", "ONE:vL.a"])
            what = self.pick(["sum", "max", "min", "max.acc"])
            self.lines += [
                f"    @map {ROWS} x {COLUMNS}, {x}:v0 -> {scope}{what}",
                *self.body(1),
                "    @endmap",
            ]
        elif kind == 3 and len({x, y, z}) == 3:
            self.lines += [
                f"    MM.TB {x}, {y}, P",
                f"    @map {ROWS} x {ROWS}, P:v0 -> P:vL",
                *self.body(1),
                "    @endmap",
                f"    MM P, {y}, {z}",
                f"    @map {ROWS} x {COLUMNS}, {z}:v0 -> {z}:vL",
                "      VTANH.F32 v0, v1",
                "    @endmap",
            ]
            self.last = 1
        elif kind == 4:
            self.lines += [
                f"    DST {x}, t0[r3], {ROWS}@{COLUMNS} | {COLUMNS}@1",
                f"    DWAIT {z}",
                f"    DWAIT {x}",
                f"    DLD t0[r3], {COLUMNS}@1 | {ROWS}@{COLUMNS}, T",
                "    DWAIT T",
                f"    TRANS T, {z}",
            ]
        else:
            self.lines += [
                f"    DCP {x}, E",
                "    DWAITALL",
                f"    DCW E, {ROWS}@{COLUMNS} | {COLUMNS}@1, {z}",
                "    DWAITALL",
            ]
        self.lines = [
            line.replace("vL", f"v{self.last}") if "@map" in line else line for line in self.lines
        ]

    last = 0

    def text(self) -> str:
        tiles, offset = [], 0
        for name, rows, columns in [
            ("A", ROWS, COLUMNS),
            ("B", ROWS, COLUMNS + 5),
            ("C", ROWS, COLUMNS),
            ("D", ROWS + 2, COLUMNS + 1),
            ("E", ROWS, COLUMNS),
            ("T", COLUMNS, ROWS + 3),
            ("P", ROWS, ROWS),
            ("ROW", 1, COLUMNS),
            ("COL", ROWS, 2),
            ("ONE", 1, 1),
        ]:
            tiles.append(f"  @tile {name}, am, f32, {rows}x{columns}, 1, {offset}")
            offset += (rows * columns * 4 + 63) // 64 * 64
        size = ROWS * COLUMNS
        loads = [
            f"    DLD b0[{k * size}], {ROWS}@{COLUMNS} | {COLUMNS}@1, {n}"
            for k, n in enumerate("ABCD")
        ]
        loads += [
            f"    DLD b0[7], 1@1 | {COLUMNS}@1, ROW",
            f"    DLD b0[9], {ROWS}@1 | 1@1, COL",
            "    DLD b0[3], 1@1 | 1@1, ONE",
            "    DWAITALL",
        ]
        for _ in range(8):
            self.step()
        stores = [
            f"    DST {n}, o0[r4], {ROWS}@{COLUMNS} | {COLUMNS}@1\n    SADD r4, {size}, r4"
            for n in "ABCD"
        ]
        stores += [
            f"    DST COL, o0[r4], {ROWS}@1 | 1@1",
            "    DST ROW, o1[r2], 1@1 | 40@1",
            "    DWAITALL",
        ]
        return "\n".join(
            [
                "@program random, host",
                f"@in b0, f32, {4 * size}",
                "@scalar s0, f64",
                f"@out o0, f32, {4 * (4 * size + ROWS)}",
                "@out o1, f32, 4x40",
                f"@arena t0, 0, f32, {4 * size}",
                "@func main",
                *tiles,
                "    SCID r1",
                "    SNC r5",
                "  LOOP_main_0: 1, 4",
                f"    SMUL r1, {size}, r3",
                f"    SMUL r1, {4 * size + ROWS}, r4",
                "    SMUL r1, 40, r2",
                *loads,
                *self.lines,
                *stores,
                "    SADD r1, r5, r1",
                "    SLT r1, 4, r6",
                "    [r6] SBR LOOP_main_0",
                "@ret",
                "",
            ]
        )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_modes_and_cores_agree():
    machines = [
        Machine(cores=c, checked=k) for c, k in ((1, False), (1, True), (3, False), (2, True))
    ]
    data = np.random.default_rng(9).uniform(-1, 1, 4 * ROWS * COLUMNS).astype(np.float32)
    for seed in range(60):
        image = assembler.assemble(Writer(seed).text())
        first, *others = (
            [array.copy() for array in m.load(image).run([data], [0.75])] for m in machines
        )
        for other in others:
            for a, b in zip(first, other, strict=True):
                np.testing.assert_array_equal(
                    a.view(np.uint32), b.view(np.uint32), err_msg=f"seed {seed}"
                )
    for machine in machines:
        machine.close()
