"""The instruction table's examples as whole programs with data, for the manual and the tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ftm_backend.ir.asm.printer import shape
from ftm_backend.target.element_types import BY_TOKEN, slot_bytes
from ftm_backend.target.instruction import InstructionDef, InstructionExample


@dataclass(frozen=True)
class ExampleProgram:
    """An executable example: its text, its inputs and scalars, and the expected outputs."""

    text: str
    inputs: list[np.ndarray]
    scalars: list[float]
    outputs: list[np.ndarray]


def case(row: InstructionDef) -> ExampleProgram:
    """Return the example of ``row`` as a program with data."""
    shown = row.example
    header = [f"@program example_{row.name.strip('@').lower()}, host"]
    header += [f"@in {n}, {t}, {shape(s)}" for n, (t, s, _) in shown.inputs.items()]
    header += [f"@scalar {n}, {t}" for n, (t, _) in shown.scalars.items()]
    for name, (token, extents, _) in shown.outputs.items():
        header.append(f"@out {name}, {token}, {shape(extents)}")
    body = _map_program(shown) if row.in_map else shown.body
    text = "\n".join([*header, "@func main"]) + "\n" + body + "@ret\n"
    return ExampleProgram(
        text,
        [_array(v) for v in shown.inputs.values()],
        [v for _, v in shown.scalars.values()],
        [_array(v) for v in shown.outputs.values()],
    )


def _array(value: tuple[str, tuple[int, ...], Sequence[float]]) -> np.ndarray:
    token, extents, values = value
    return np.array(values, BY_TOKEN[token].array).reshape(extents)


def _map_program(shown: InstructionExample) -> str:
    """Wrap a map body: inputs b0, b1, ... become v0, v1, ...; results go to o0, o1, ...

    An input that the body reads by address (VGA) is not loaded.
    """
    tiles, loads, stores, inputs, outputs = [], [], [], [], []
    offset = 0
    columns = 0

    def tile(name: str, token: str, count: int) -> None:
        nonlocal offset
        tiles.append(f"  @tile {name}, am, {token}, 1x{count}, 1, {offset}")
        offset += slot_bytes(1, count, BY_TOKEN[token].bytes)

    for number, (name, (token, extents, _)) in enumerate(shown.inputs.items()):
        if f"{name}[" in shown.body:
            continue
        columns = extents[0]
        tile(f"X{number}", token, columns)
        loads.append(f"    DLD {name}[0], 1@1 | {columns}@1, X{number}")
        inputs.append(f"X{number}:v{number}")
    for number, (name, (token, extents, _)) in enumerate(shown.outputs.items()):
        tile(f"Y{number}", token, extents[0])
        outputs.append(f"Y{number}:{shown.results[number]}")
        stores.append(f"    DST Y{number}, {name}[0], 1@1 | {extents[0]}@1")
    head = f"    @map 1 x {columns}, {', '.join(inputs)} -> {', '.join(outputs)}"
    return (
        "\n".join(
            [*tiles, *loads, "    DWAITALL", head, f"      {shown.body}", "    @endmap", *stores]
        )
        + "\n"
    )
