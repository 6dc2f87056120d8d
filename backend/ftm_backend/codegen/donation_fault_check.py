"""Checks that a program which faults has not yet written over an input.

An output that may take over an input's memory must not be written before, or by, a kernel that can
fault: the launcher gives the caller its inputs back as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from ftm_backend.codegen.errors import CodegenError
from ftm_backend.ir.tile.kernel_tree import (
    Block,
    TileBranch,
    TileKernel,
    TileLoop,
    callee_and_arguments,
    instructions,
)
from ftm_backend.ir.tile.program import CompiledFunction

__all__ = ["can_fault", "check_replacing"]

Call = tuple[str, ...]
"""The function, and the buffers and scalars that it is called with."""


def check_replacing(
    kernels: Sequence[TileKernel | CompiledFunction],
    in_bounds: Collection[str],
    donated: Collection[str],
) -> None:
    """Checks the functions of a program, ``main`` among them.

    Args:
        kernels: all functions.
        in_bounds: names of those that cannot fault.
        donated: outputs that may share an input's storage.

    Raises:
        CodegenError: one of ``donated`` could be written before a fault.
    """
    if not donated:
        return
    functions = {kernel.name: kernel for kernel in kernels}
    faulting = {
        name
        for name, function in functions.items()
        if name not in in_bounds and can_fault(function)
    }
    main = functions["main"]
    assert isinstance(main, TileKernel)
    _check_order(
        list(_steps(main.body, False)), faulting, lambda call: _written(call, functions, donated)
    )


def _check_order(
    steps: list[tuple[Call, bool]],
    faulting: Collection[str],
    written_by: Callable[[Call], str | None],
) -> None:
    written: tuple[str, str] | None = None
    working: list[tuple[str, bool]] = []  # kernels that can fault, since the last barrier
    for call, one_core in steps:
        if not call:
            working = []
            continue
        name, writes = call[0], written_by(call)
        if writes and written is None:
            written = (name, writes)
        if name in faulting:
            if written:
                raise CodegenError(
                    name,
                    f"@{name} can fault after @{written[0]} wrote {written[1]}, which replaces an input",
                )
            working.append((name, one_core))
        others = [other for other, alone in working if not (alone and one_core)]
        if writes and others:
            raise CodegenError(
                name,
                f"no barrier between @{others[0]}, which can fault, and @{name}, which writes over an input",
            )


def _steps(block: Block, one_core: bool) -> Iterator[tuple[Call, bool]]:
    """What ``main`` calls, in order, and whether one core runs it; an empty call for a barrier."""
    for statement in block:
        if isinstance(statement, TileBranch):
            yield from _steps(statement.body, True)
            yield from _steps(statement.otherwise, True)
        elif isinstance(statement, TileLoop):
            # what comes at the end of an iteration comes before the beginning of the next
            for _ in range(2):
                yield from _steps(statement.body, one_core)
        elif statement.kind == "barrier":
            yield (), one_core
        elif statement.kind == "call":
            yield callee_and_arguments(statement), one_core


def can_fault(function: TileKernel | CompiledFunction) -> bool:
    """Whether a function addresses memory by data."""
    if isinstance(function, CompiledFunction):
        return function.can_fault
    return any(
        i.kind in ("gather", "scatter") or i.from_memory for i in instructions(function.body)
    )


def _written(
    call: Call, functions: Mapping[str, TileKernel | CompiledFunction], donated: Collection[str]
) -> str | None:
    """One of ``donated`` that a call writes."""
    name, *arguments = call
    function = functions[name]
    if function.parameters:
        bound = zip(function.parameters, arguments, strict=False)  # scalars follow
        return next(
            (symbol for parameter, symbol in bound if parameter.out and symbol in donated), None
        )
    assert isinstance(function, TileKernel)
    for instruction in instructions(function.body):
        transfer = instruction.transfer
        if (
            instruction.kind in ("store", "scatter")
            and transfer is not None
            and transfer.buffer in donated
        ):
            return transfer.buffer
    return None
