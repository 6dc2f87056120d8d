"""Clones a function so that it stores one of its results to a second buffer as well."""

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

__all__ = ["has_only_plain_stores", "rebind", "store_to_copy"]


def has_only_plain_stores(function: TileKernel | CompiledFunction, parameter: str) -> bool:
    """Whether a function writes a parameter by plain stores only, which can be duplicated."""
    if isinstance(function, CompiledFunction):
        scattered = re.compile(rf"\bDSC\S* .*, {parameter}\[")
        return not any(scattered.search(line) for line in function.lines)
    writes = (
        i
        for i in instructions(function.body)
        if i.transfer is not None and i.transfer.buffer == parameter
    )
    return all(i.kind != "scatter" for i in writes)


def store_to_copy(program: TileProgram, call: TileInstruction, symbol: str, copy: str) -> None:
    """Make a call store what it stores to buffer ``symbol`` to buffer ``copy`` as well."""
    name, *arguments = callee_and_arguments(call)
    functions = {function.name: function for function in program.functions}
    at = arguments.index(symbol)
    parameter = functions[name].parameters[at]
    clone = f"{name}.{parameter.name}"
    if clone not in functions:
        # `main` stays the last function.
        program.functions.insert(-1, _clone(functions[name], clone, parameter))
        if name in program.in_bounds:
            program.in_bounds.add(clone)
    # Each buffer argument is three parts: ", name[", element, "]".
    first, end = 1 + 3 * at, 1 + 3 * len(functions[name].parameters)
    call.parts = [
        f"@call {clone}",
        *call.parts[1:end],
        f", {copy}[",
        *call.parts[first + 1 : first + 3],
        *call.parts[end:],
    ]


def rebind(call: TileInstruction, symbol: str, copy: str) -> None:
    """Make a call use buffer ``copy`` instead of ``symbol``."""
    call.parts = [f", {copy}[" if part == f", {symbol}[" else part for part in call.parts]


def _clone(
    function: TileKernel | CompiledFunction, name: str, parameter: KernelParameter
) -> TileKernel | CompiledFunction:
    copy = replace(parameter, name=f"{parameter.name}.copy", alias="")
    parameters = [*function.parameters, copy]
    if isinstance(function, TileKernel):
        return replace(
            function,
            name=name,
            parameters=parameters,
            body=_with_second_store(function.body, parameter.name, copy.name),
        )
    store = re.compile(rf"(\s*(?:\[!?r\d+\] )?DST \S+, ){parameter.name}(\[.*)")
    declared = next(at for at, line in enumerate(function.lines) if not line.startswith("  @param"))
    lines = [*function.lines[:declared], f"  @param {copy.name}, {copy.dtype}, out"]
    for line in function.lines[declared:]:
        found = store.fullmatch(line)
        lines += [line, f"{found[1]}{copy.name}{found[2]}"] if found else [line]
    return replace(function, name=name, parameters=parameters, lines=tuple(lines))


def _with_second_store(block: Block, buffer: str, copy: str) -> Block:
    """Return a block in which each store to ``buffer`` is followed by one to ``copy``."""
    result: Block = []
    for statement in block:
        if isinstance(statement, TileLoop):
            statement = replace(statement, body=_with_second_store(statement.body, buffer, copy))
        elif isinstance(statement, TileBranch):
            bodies = (
                _with_second_store(body, buffer, copy)
                for body in (statement.body, statement.otherwise)
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
