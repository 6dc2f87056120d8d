"""Clones a function so that it stores one of its results to a second buffer as well."""

from __future__ import annotations

from dataclasses import replace

from ftm_backend.ir.asm import program as p
from ftm_backend.ir.asm.parser import parse_function
from ftm_backend.ir.asm.printer import function_lines
from ftm_backend.ir.tile.kernel_tree import (
    Address,
    Block,
    TileBranch,
    TileInstruction,
    TileKernel,
    TileLoop,
    callee_and_arguments,
)
from ftm_backend.ir.tile.program import CompiledFunction, TileProgram


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
    _, *bound = call.operands
    end = _buffers(functions[name])
    stored = bound[at]
    assert isinstance(stored, Address)
    second = Address(copy, stored.offset)
    call.operands = (p.SymbolName(clone), *bound[:end], second, *bound[end:])


def rebind(call: TileInstruction, symbol: str, copy: str) -> None:
    """Make a call use buffer ``copy`` instead of ``symbol``."""
    call.operands = call.renamed(symbol, copy).operands


def _clone(
    function: TileKernel | CompiledFunction, name: str, parameter: p.AsmParameter
) -> TileKernel | CompiledFunction:
    copy = replace(parameter, name=f"{parameter.name}.copy", alias="")
    declared = _buffers(function)
    if isinstance(function, TileKernel):
        return replace(
            function,
            name=name,
            parameters=[*function.parameters[:declared], copy, *function.parameters[declared:]],
            body=_with_second_store(function.body, parameter.name, copy.name),
        )
    code = p.AsmFunction(name)
    for item in _items(function.code):
        if len(code.items) == declared:
            code.items.append(copy)
        code.items.append(item)
        if isinstance(item, p.AsmInstruction) and item.name == "DST":
            source, target, dims = item.operands
            assert isinstance(target, p.SlotReference)
            if target.name == parameter.name:
                second = replace(target, name=copy.name)
                code.items.append(replace(item, operands=(source, second, dims)))
    code.printed = tuple(function_lines(code))
    return replace(function, code=code)


def _buffers(function: TileKernel | CompiledFunction) -> int:
    """Return the number of buffers among a function's parameters."""
    return sum(not parameter.scalar for parameter in function.parameters)


def _items(code: p.AsmFunction) -> list[p.FunctionItem]:
    """Return what is in a function; one from disk has its instructions as text."""
    has_code = any(not isinstance(item, p.AsmParameter) for item in code.items)
    return code.items if has_code else parse_function(code.printed).items


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
            if statement.transferred == buffer:
                result.append(statement.renamed(buffer, copy))
    return result
