"""Check: a program that faults has not yet overwritten a donated input.

An output may be allocated in the memory of an input. No kernel may write it that can fault itself,
or that a faulting kernel may follow: after a fault the caller gets its inputs back unchanged.
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

Call = tuple[str, ...]
"""The called function, then the buffers and scalars that are bound."""


def check_donation(
    kernels: Sequence[TileKernel | CompiledFunction],
    in_bounds: Collection[str],
    donated: Collection[str],
) -> None:
    """Check the functions of a program, including ``main``.

    Args:
        kernels: All functions.
        in_bounds: Names of functions that cannot fault.
        donated: Outputs that may share an input's storage.

    Raises:
        CodegenError: One of ``donated`` might be written before a fault.
    """
    if not donated:
        return
    functions = {kernel.name: kernel for kernel in kernels}
    faulting = {
        name for name, function in functions.items() if name not in in_bounds and function.can_fault
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
    unsynchronized: list[tuple[str, bool]] = []  # kernels that can fault, since the last barrier
    for call, one_core in steps:
        if not call:
            unsynchronized = []
            continue
        name, writes = call[0], written_by(call)
        if writes and written is None:
            written = (name, writes)
        if name in faulting:
            if written:
                raise CodegenError(
                    name,
                    f"@{name} can fault after @{written[0]} wrote {written[1]}, "
                    "which replaces an input",
                )
            unsynchronized.append((name, one_core))
        others = [other for other, alone in unsynchronized if not (alone and one_core)]
        if writes and others:
            raise CodegenError(
                name,
                f"no barrier between @{others[0]}, which can fault, and @{name}, "
                "which writes over an input",
            )


def _steps(block: Block, one_core: bool) -> Iterator[tuple[Call, bool]]:
    """Yield the calls of ``main`` in order, and whether one core makes them; ``()``: barrier."""
    for statement in block:
        if isinstance(statement, TileBranch):
            yield from _steps(statement.body, True)
            yield from _steps(statement.otherwise, True)
        elif isinstance(statement, TileLoop):
            # The end of an iteration precedes the start of the next one.
            for _ in range(2):
                yield from _steps(statement.body, one_core)
        elif statement.kind == "barrier":
            yield (), one_core
        elif statement.kind == "call":
            yield callee_and_arguments(statement), one_core


def _written(
    call: Call, functions: Mapping[str, TileKernel | CompiledFunction], donated: Collection[str]
) -> str | None:
    """Return one of ``donated`` that a call writes, if any."""
    name, *arguments = call
    function = functions[name]
    if function.parameters:
        bound = zip(function.parameters, arguments, strict=False)  # scalars follow
        return next(
            (symbol for parameter, symbol in bound if parameter.out and symbol in donated), None
        )
    assert isinstance(function, TileKernel)
    for instruction in instructions(function.body):
        written = instruction.transferred
        if instruction.kind in ("store", "scatter") and written in donated:
            return written
    return None
