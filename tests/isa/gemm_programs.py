"""Matrix products as assembly, blocked as the published measurements were: input of the cycle
model's tests.

The code is straight-line: Python unrolls the loops, and registers hold only what depends on the
core.
"""

from __future__ import annotations

SIZES = {"f64": 8, "f32": 4}


def _program(
    m: int, n: int, k: int, dtype: str, transposed: bool, tiles: list[str], code: list[str]
) -> str:
    b = f"{n}x{k}" if transposed else f"{k}x{n}"
    return (
        "\n".join(
            [
                "@program gemm, m7032",
                f"@in a0, {dtype}, {m}x{k}",
                f"@in b0, {dtype}, {b}",
                f"@out c0, {dtype}, {m}x{n}",
                "@func main",
                *tiles,
                *code,
                "@ret",
            ]
        )
        + "\n"
    )


def _tiles(dtype: str, *rows: tuple[str, str, int, int, int]) -> list[str]:
    """Tile declarations, placed one after the other in each space."""
    used = {"am": 0, "sm": 0, "gsm": 0}
    lines = []
    for name, space, height, width, depth in rows:
        lines.append(f"  @tile {name}, {space}, {dtype}, {height}x{width}, {depth}, {used[space]}")
        used[space] += -(-height * width * SIZES[dtype] // 64) * 64 * depth
    return lines


def panel(
    m: int,
    n: int,
    k: int,
    *,
    cores: int = 1,
    ka: int = 512,
    ma: int,
    mc: int,
    nc: int,
    buffers: int = 3,
    dtype: str = "f64",
    transposed: bool = False,
) -> str:
    """C += A B with panels of ``ma`` x ``ka`` of A in GSM, B in two buffers, C in ``buffers``;
    cores share N.

    transposed: B is held as N x K.
    """
    depth = ma // mc
    tiles = _tiles(
        dtype,
        ("G", "gsm", mc, ka, depth),
        ("B", "am", nc if transposed else ka, ka if transposed else nc, 2),
        ("C", "am", mc, nc, buffers),
    )
    code = [
        "SCID r1",
        f"SMUL r1, {n // cores * (k if transposed else 1)}, r2",
        f"SMUL r1, {n // cores}, r3",
    ]
    code += [f"SEQ r1, {core}, r{10 + core}" for core in range(cores)]
    for k0 in range(0, k, ka):
        for p0 in range(0, m, ma):
            chunks = range(p0, min(p0 + ma, m), mc)
            for number, row in enumerate(chunks):
                code.append(
                    f"[r{10 + number % cores}] DLD a0[{row * k + k0}], {mc}@{k} | {ka}@1, G[{number}]"
                )
            code.append("BARRIER")
            steps = [(j, i) for j in range(n // cores // nc) for i in range(len(chunks))]

            def load_b(j: int, k0: int = k0) -> str:
                if transposed:
                    return f"DLD b0[r2{j * nc * k + k0:+d}], {nc}@{k} | {ka}@1, B[{j % 2}]"
                return f"DLD b0[r2{k0 * n + j * nc:+d}], {ka}@{n} | {nc}@1, B[{j % 2}]"

            def c_at(step: int, steps: list = steps, p0: int = p0) -> tuple[str, str]:
                j, i = steps[step]
                return (
                    f"c0[r3{(p0 + i * mc) * n + j * nc:+d}], {mc}@{n} | {nc}@1",
                    f"C[{step % buffers}]",
                )

            code += [load_b(0), "DLD {}, {}".format(*c_at(0))]
            for step, (j, i) in enumerate(steps):
                if step + 1 < len(steps):
                    where, slot = c_at(step + 1)
                    code += [f"DWAIT {slot}", f"DLD {where}, {slot}"]
                if i == 0 and (j + 1) * nc < n // cores:
                    code.append(load_b(j + 1))
                where, slot = c_at(step)
                code += [f"DWAIT {slot}", f"DWAIT B[{j % 2}]"]
                code += [
                    f"MM{'.TB' if transposed else ''}.ACC G[{i}], B[{j % 2}], {slot}",
                    f"DST {slot}, {where}",
                ]
            code.append("BARRIER")
    return _program(m, n, k, dtype, transposed, tiles, code)


def shared_a(m: int, n: int, k: int, *, cores: int, ka: int, nc: int, dtype: str = "f64") -> str:
    """C += A B with all of A in GSM and each block of C kept in AM over all of K; cores share N."""
    tiles = _tiles(
        dtype, ("G", "gsm", m, ka, k // ka), ("B", "am", ka, nc, 2), ("C", "am", m, nc, 2)
    )
    code = ["SCID r1", f"SMUL r1, {n // cores}, r3"] + [
        f"SEQ r1, {core}, r{10 + core}" for core in range(cores)
    ]
    code += [
        f"[r{10 + i % cores}] DLD a0[{i * ka}], {m}@{k} | {ka}@1, G[{i}]" for i in range(k // ka)
    ]
    code.append("BARRIER")
    steps = [(j, i) for j in range(n // cores // nc) for i in range(k // ka)]

    def load(step: int) -> list[str]:
        j, i = steps[step]
        first = (
            [f"DWAIT C[{j % 2}]", f"DLD c0[r3+{j * nc}], {m}@{n} | {nc}@1, C[{j % 2}]"]
            if i == 0
            else []
        )
        return [*first, f"DLD b0[r3+{i * ka * n + j * nc}], {ka}@{n} | {nc}@1, B[{step % 2}]"]

    code += load(0)
    for step, (j, i) in enumerate(steps):
        code += load(step + 1) if step + 1 < len(steps) else []
        code += [f"DWAIT C[{j % 2}]"] if i == 0 else []
        code += [f"DWAIT B[{step % 2}]", f"MM.ACC G[{i}], B[{step % 2}], C[{j % 2}]"]
        if i + 1 == k // ka:
            code.append(f"DST C[{j % 2}], c0[r3+{j * nc}], {m}@{n} | {nc}@1")
    return _program(m, n, k, dtype, False, tiles, code)


def streamed(
    m: int, n: int, k: int, *, cores: int = 1, ka: int, mc: int, dtype: str = "f32"
) -> str:
    """C += A B for few columns: each block of C stays in AM over all of K, A and B stream; cores
    share M."""
    tiles = _tiles(
        dtype, ("G", "gsm", mc, ka, 2 * cores), ("B", "am", ka, n, 2), ("C", "am", mc, n, 1)
    )
    code = [
        "SCID r1",
        f"SMUL r1, {m // cores * k}, r2",
        f"SMUL r1, {m // cores * n}, r3",
        "SMUL r1, 2, r5",
    ]
    blocks = [(i, k0) for i in range(0, m // cores, mc) for k0 in range(0, k, ka)]

    def load(step: int) -> list[str]:
        i, k0 = blocks[step]
        return [
            f"DLD a0[r2+{i * k + k0}], {mc}@{k} | {ka}@1, G[r5+{step % 2}]",
            f"DLD b0[{k0 * n}], {ka}@{n} | {n}@1, B[{step % 2}]",
        ]

    code += load(0)
    for step, (i, k0) in enumerate(blocks):
        where = f"c0[r3+{i * n}], {mc}@{n} | {n}@1"
        code += ["DWAIT C", f"DLD {where}, C"] if k0 == 0 else []
        code += load(step + 1) if step + 1 < len(blocks) else []
        code += ["DWAIT C"] if k0 == 0 else []
        code += [
            f"DWAIT G[r5+{step % 2}]",
            f"DWAIT B[{step % 2}]",
            f"MM.ACC G[r5+{step % 2}], B[{step % 2}], C",
        ]
        code += [f"DST C, {where}"] if k0 + ka >= k else []
    return _program(m, n, k, dtype, False, tiles, code)


def tall(m: int, n: int, k: int, *, cores: int = 1, mc: int, dtype: str = "f32") -> str:
    """C += A B for a small B that stays in AM; cores share M; A in two buffers, C in three."""
    tiles = _tiles(dtype, ("A", "am", mc, k, 2), ("B", "am", k, n, 1), ("C", "am", mc, n, 3))
    rows = m // cores
    code = [
        "SCID r1",
        f"SMUL r1, {rows * k}, r2",
        f"SMUL r1, {rows * n}, r3",
        f"DLD b0[0], {k}@{n} | {n}@1, B",
    ]

    def load(step: int) -> list[str]:
        return [
            f"DWAIT C[{step % 3}]",
            f"DLD a0[r2+{step * mc * k}], {mc}@{k} | {k}@1, A[{step % 2}]",
            f"DLD c0[r3+{step * mc * n}], {mc}@{n} | {n}@1, C[{step % 3}]",
        ]

    code += load(0)
    for step in range(rows // mc):
        code += load(step + 1) if step + 1 < rows // mc else []
        code += [
            f"DWAIT A[{step % 2}]",
            "DWAIT B",
            f"DWAIT C[{step % 3}]",
            f"MM.ACC A[{step % 2}], B, C[{step % 3}]",
            f"DST C[{step % 3}], c0[r3+{step * mc * n}], {mc}@{n} | {n}@1",
        ]
    return _program(m, n, k, dtype, False, tiles, code)
