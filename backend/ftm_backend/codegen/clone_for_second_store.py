"""Functions that store a result to two buffers: the twin of a function has one parameter more, for
the second one."""

from __future__ import annotations

import re
from dataclasses import replace

from ftm_backend.ir.tile.kernel_tree import (
    Block,
    KernelParameter,
    TileBranch,
    TileInstruction,
    TileKernel,
    TileLoop,
    callee_and_arguments,
    instructions,
)
from ftm_backend.ir.tile.program import CompiledFunction, TileProgram

__all__ = ["rebind", "store_twice", "stores_alone"]


def stores_alone(function: TileKernel | CompiledFunction, parameter: str) -> bool:
    """Whether what a function writes to a parameter are plain stores of tiles, which can be made
    twice."""
    if isinstance(function, CompiledFunction):
        scattered = re.compile(rf"\bDSC\S* .*, {parameter}\[")
        return not any(scattered.search(line) for line in function.lines)
    writes = (
        i
        for i in instructions(function.body)
        if i.transfer is not None and i.transfer.buffer == parameter
    )
    return all(i.kind != "scatter" for i in writes)


def store_twice(program: TileProgram, call: TileInstruction, symbol: str, copy: str) -> None:
    """Makes a call store what it stores to one buffer to another one, too, at the same places."""
    name, *arguments = callee_and_arguments(call)
    functions = {function.name: function for function in program.functions}
    at = arguments.index(symbol)
    parameter = functions[name].parameters[at]
    twin = f"{name}.{parameter.name}"
    if twin not in functions:
        # main is the last one
        program.functions.insert(-1, _twin(functions[name], twin, parameter))
        if name in program.in_bounds:
            program.in_bounds.add(twin)
    # a name, an element and what stands behind it
    first, end = 1 + 3 * at, 1 + 3 * len(functions[name].parameters)
    call.parts = [
        f"@call {twin}",
        *call.parts[1:end],
        f", {copy}[",
        *call.parts[first + 1 : first + 3],
        *call.parts[end:],
    ]


def rebind(call: TileInstruction, symbol: str, copy: str) -> None:
    """Makes a call take a copy of a buffer."""
    call.parts = [f", {copy}[" if part == f", {symbol}[" else part for part in call.parts]


def _twin(
    function: TileKernel | CompiledFunction, name: str, parameter: KernelParameter
) -> TileKernel | CompiledFunction:
    copy = replace(parameter, name=f"{parameter.name}.copy", alias="")
    parameters = [*function.parameters, copy]
    if isinstance(function, TileKernel):
        return replace(
            function,
            name=name,
            parameters=parameters,
            body=_doubled(function.body, parameter.name, copy.name),
        )
    store = re.compile(rf"(\s*(?:\[!?r\d+\] )?DST \S+, ){parameter.name}(\[.*)")
    declared = next(at for at, line in enumerate(function.lines) if not line.startswith("  @param"))
    lines = [*function.lines[:declared], f"  @param {copy.name}, {copy.dtype}, out"]
    for line in function.lines[declared:]:
        found = store.fullmatch(line)
        lines += [line, f"{found[1]}{copy.name}{found[2]}"] if found else [line]
    return replace(function, name=name, parameters=parameters, lines=tuple(lines))


def _doubled(block: Block, buffer: str, copy: str) -> Block:
    """A block in which each store to a buffer is followed by one to its copy."""
    result: Block = []
    for statement in block:
        if isinstance(statement, TileLoop):
            statement = replace(statement, body=_doubled(statement.body, buffer, copy))
        elif isinstance(statement, TileBranch):
            bodies = (
                _doubled(body, buffer, copy) for body in (statement.body, statement.otherwise)
            )
            statement = TileBranch(statement.condition, *bodies)
        result.append(statement)
        if isinstance(statement, TileInstruction) and statement.kind == "store":
            assert statement.transfer is not None
            if statement.transfer.buffer == buffer:
                parts = [f"{copy}[" if part == f"{buffer}[" else part for part in statement.parts]
                result.append(
                    replace(
                        statement, parts=parts, transfer=replace(statement.transfer, buffer=copy)
                    )
                )
    return result
