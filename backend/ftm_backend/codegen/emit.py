"""From the tile level of the ``ftm`` dialect to assembly text: the last step of the compiler.

For each function: read it into a tree, multi-buffer, plan the scratchpads, insert waits, allocate registers,
print.  The grammar belongs to ``ftm_backend.isa``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ftm_backend.codegen import multibuffer, registers, scratchpad, sync
from ftm_backend.codegen.reader import CodegenError, read
from ftm_backend.codegen.replacing import IN_BOUNDS, check_replacing
from ftm_backend.codegen.tree import Kernel, Tile, instructions
from ftm_backend.machine.presets import MachineParameters
from ftm_backend.mlir import ir

__all__ = ["CodegenError", "emit", "emit_function", "program_facts"]


def program_facts(module: ir.Module) -> dict[str, Any]:
    """What ``plan-buffers`` recorded about the program: its signature, constants and arena.

    Keys: name (may be missing), inputs ``[symbol, dtype, shape]``, scalars ``[symbol, dtype]``, outputs ``[symbol,
    dtype, shape, alias]``, consts ``[symbol, dtype, shape, hex]``, arena ``[symbol, byte offset, dtype, shape]``,
    arena_bytes.
    """
    attributes = module.operation.attributes
    if "ftm.program" not in attributes:
        raise CodegenError("the module has no attribute `ftm.program`: it must have been through `lower-kernels`")
    return json.loads(attributes["ftm.program"].value)


def emit(module: ir.Module, machine: MachineParameters) -> str:
    """The assembly text of a module in tile-level operations.

    Raises:
        CodegenError: with the operation that cannot be written.
    """
    facts = program_facts(module)
    lines = _header(facts, machine.name)
    places = _places(facts)
    functions = [operation for operation in module.body.operations if operation.operation.name == "func.func"]
    if "main" not in [function.attributes["sym_name"].value for function in functions]:
        raise CodegenError("the module has no function @main to start at")
    kernels = [read(function) for function in functions]
    in_bounds = {function.attributes["sym_name"].value for function in functions if IN_BOUNDS in function.attributes}
    check_replacing(kernels, in_bounds, {symbol for symbol, *_, alias in facts["outputs"] if alias})
    for kernel in kernels:
        lines += ["", *emit_function(kernel, machine, places)]
    return "\n".join(lines) + "\n"


def emit_function(kernel: Kernel, machine: MachineParameters, places: multibuffer.Places) -> list[str]:
    """The lines of one function, ``@func`` to ``@ret``."""
    calls = any(instruction.kind == "call" for instruction in instructions(kernel.body))
    if machine.dma_overlaps:
        multibuffer.overlap(kernel, machine, places)
    scratchpad.plan(kernel, machine)
    sync.insert_waits(kernel)
    about = f"  // {kernel.about}" if kernel.about else ""
    return [
        f"@func {kernel.name}{about}", *(_declaration(tile) for tile in kernel.tiles),
        *registers.write(kernel, calls), "@ret",
    ]


def _declaration(tile: Tile) -> str:
    return f"  @tile {tile.name}, {tile.space}, {tile.dtype}, {tile.rows}x{tile.columns}, {tile.depth}, {tile.offset}"


def _shape(extents: Sequence[int]) -> str:
    return "x".join(map(str, extents)) if extents else "[]"


def _header(facts: dict[str, Any], machine: str) -> list[str]:
    lines = [f"@program {facts.get('name', 'main')}, {machine}"]
    lines += [f"@in {symbol}, {dtype}, {_shape(shape)}" for symbol, dtype, shape in facts["inputs"]]
    lines += [f"@scalar {symbol}, {dtype}" for symbol, dtype in facts["scalars"]]
    lines += [
        f"@out {symbol}, {dtype}, {_shape(shape)}" + (f", {alias}" if alias else "")
        for symbol, dtype, shape, alias in facts["outputs"]
    ]
    lines += [f"@const {symbol}, {dtype}, {_shape(shape)}, {data}" for symbol, dtype, shape, data in facts["consts"]]
    lines += [f"@arena {symbol}, {offset}, {dtype}, {_shape(shape)}" for symbol, offset, dtype, shape in facts["arena"]]
    return lines


def _places(facts: dict[str, Any]) -> multibuffer.Places:
    """Which buffers may share memory: outputs with the inputs that they may replace, regions of the arena."""
    places = multibuffer.Places()
    for symbol, _, _, alias in facts["outputs"]:
        if alias:
            places.share(symbol, alias)
    for symbol, offset, dtype, shape in facts["arena"]:
        places.region(symbol, offset, dtype, shape)
    return places
