"""Analysis: structural key of a kernel; kernels with equal keys share one function.

The key contains all that lowering depends on, in terms of the kernel's parameters: buffers by
number, addresses relative to the lowest element that the kernel accesses in each buffer, runtime
scalars by number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import (
    FunctionResult,
    Node,
    Operand,
    Statement,
    Value,
    nodes_of,
    walk,
)
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.lowering.gemm.im2col_operand import overread_limit
from ftm_backend.midend.schedule.gemm.contraction import contraction_index
from ftm_backend.target.presets import ELEMENT_BYTES

__all__ = ["KernelArguments", "arguments_of", "statement_key", "structural_key"]

_AFFINE_KINDS = (
    "nest",
    "contraction",
    "attention",
    "attention-backward",
    "strips",
    "summed-strips",
    "turn",
)
"""Kinds of kernels that access memory only through affine accesses (and gathers)."""


@dataclass(frozen=True, slots=True)
class KernelArguments:
    """Arguments of a kernel's function.

    Attributes:
        buffers: For each symbol, the number of the parameter and the element it starts at.
        scalars: For each runtime scalar, its number.
        bodies: Nodes of each statement, operands first.
    """

    buffers: dict[str, tuple[int, int]]
    scalars: dict[str, int]
    bodies: tuple[list[Node], ...]


def arguments_of(kernel: Kernel) -> KernelArguments:
    """Return the kernel's arguments.

    Buffers are in the order inputs, outputs, workspaces; scalars in the order of their uses.
    """
    symbols = dict.fromkeys(
        str(v.symbol) for v in (*kernel.inputs, *kernel.outputs, *kernel.workspaces)
    )
    lowest = _lowest_elements(kernel) if kernel.kind in _AFFINE_KINDS else {}
    bodies = tuple(nodes_of(statement.results) for statement in kernel.statements)
    starts = [r.init for s in kernel.statements for r in s.results if isinstance(r.init, Node)]
    scalars = dict.fromkeys(
        n.payload for body in (*bodies, walk(starts)) for n in body if n.op == "scalar"
    )
    return KernelArguments(
        {symbol: (number, lowest.get(symbol, 0)) for number, symbol in enumerate(symbols)},
        {symbol: number for number, symbol in enumerate(scalars)},
        bodies,
    )


def _lowest_elements(kernel: Kernel) -> dict[str, int]:
    """Return the first element that the kernel accesses in each buffer.

    0 for buffers with computed indices.
    """
    found: dict[str, int] = {}

    def touch(value: Value, index: Affine, loops: tuple[int, ...]) -> None:
        if value.symbol is not None:
            first = index.const + sum(
                c * (n - 1) for c, n in zip(index.coeffs, loops, strict=True) if c < 0
            )
            found[value.symbol] = min(found.get(value.symbol, first), first)

    indexed_by_data: set[str | None] = {value.symbol for value in kernel.workspaces}
    for statement in kernel.statements:
        indexed_by_data.update(v.symbol for v in statement.gathers)
        indexed_by_data.update(
            t.value.symbol for t in statement.tensors if statement.op.startswith("ftm.")
        )
        indexed_by_data.update(
            o.value.in_memory.symbol for o in statement.operands if o.value.border is not None
        )
        for operand in statement.operands:
            touch(operand.value, operand.index, statement.loops)
        for result in statement.results:
            for store in result.stores:
                touch(store.target, store.index, statement.loops)
            if isinstance(result.init, Operand):
                touch(result.init.value, result.init.index, statement.loops)
    return {
        symbol: 0 if symbol in indexed_by_data else max(first, 0) for symbol, first in found.items()
    }


def structural_key(
    kernel: Kernel, arguments: KernelArguments, shared: Iterable[tuple[int, int]]
) -> tuple[Any, ...]:
    """Return the structural key as a flat tuple.

    Args:
        kernel: The kernel.
        arguments: Its arguments.
        shared: Pairs of parameters that are the same memory.
    """
    writer = _KeyWriter(arguments)
    writer.words += [
        kernel.kind,
        kernel.one_core,
        kernel.faults,
        kernel.machine.name,
        kernel.machine.cores,
        kernel.machine.am_bytes,
        str(kernel.schedule or ""),
        *shared,
        None,
    ]
    for value in (*kernel.inputs, *kernel.outputs, *kernel.workspaces):
        writer.value(value)
    for statement, body in zip(kernel.statements, arguments.bodies, strict=True):
        writer.statement(statement, body)
    if kernel.kind in ("contraction", "computed", "summed") and kernel.machine.uses_panels:
        product = kernel.statements[contraction_index(kernel.statements)]
        for operand in product.operands:
            granule = kernel.machine.dma_granule // ELEMENT_BYTES[operand.value.dtype]
            writer.words.append(
                overread_limit(product.loops, operand.index, prod(operand.value.shape), granule)
            )
    return tuple(writer.words)


def statement_key(statement: Statement) -> tuple[tuple[Any, ...], list[Value]]:
    """Return the structural key of a statement before buffers are assigned.

    Returns:
        A tuple that is equal for statements that differ only in their values and runtime scalars,
        and these values in order.
    """
    body = nodes_of(statement.results)
    starts = walk(r.init for r in statement.results if isinstance(r.init, Node))
    scalars = dict.fromkeys(n.payload for n in (*body, *starts) if n.op == "scalar")
    writer = _KeyWriter(
        KernelArguments({}, {symbol: number for number, symbol in enumerate(scalars)}, ())
    )
    writer.statement(statement, body)
    return tuple(writer.words), writer.values


class _KeyWriter:
    def __init__(self, arguments: KernelArguments) -> None:
        self._arguments = arguments
        self._known: dict[int, int] = {}
        self.words: list[Any] = []
        self.values: list[Value] = []

    def _first(self, record: object) -> bool:
        """Append the number of an object; return whether it is new."""
        number = self._known.get(id(record))
        if number is None:
            self._known[id(record)] = number = len(self._known)
            self.words.append(number)
            return True
        self.words.append(number)
        return False

    def value(self, value: Value) -> None:
        if self._first(value):
            self.values.append(value)
            number = -1 if value.symbol is None else self._arguments.buffers[value.symbol][0]
            self.words += (value.dtype, value.shape, number)
            if value.border is not None:
                self.words += ("border", value.border.sizes, value.border.low)
                self.value(value.border.inside)
            if value.splat is not None:
                self.words.append("splat")
                self.nodes(walk([value.splat]))

    def access(self, value: Value, index: Affine) -> None:
        start = 0 if value.symbol is None else self._arguments.buffers[value.symbol][1]
        self.words += (index.const - start, index.coeffs)

    def statement(self, statement: Statement, body: list[Node]) -> None:
        words = self.words
        words += (
            statement.op,
            statement.loops,
            statement.reduced,
            len(statement.operands),
            len(statement.gathers),
            len(statement.tensors),
            len(statement.results),
        )
        if statement.attributes:
            words.append(repr(sorted(statement.attributes.items())))
        for operand in statement.operands:
            self.operand(operand)
        for table in statement.gathers:
            self.value(table)
        for tensor in statement.tensors:
            self.value(tensor.value)
            start = (
                0
                if tensor.value.symbol is None
                else self._arguments.buffers[tensor.value.symbol][1]
            )
            words += (tensor.view.sizes, tensor.view.strides, tensor.view.offset - start)
        self.nodes(body)
        for result in statement.results:
            self.result(result)

    def operand(self, operand: Operand) -> None:
        if self._first(operand):
            self.value(operand.value)
            self.access(operand.value, operand.index)

    def result(self, result: FunctionResult) -> None:
        words = self.words
        self._first(result)
        self.value(result.value)
        words += (result.index.const, result.index.coeffs, result.combine, len(result.stores))
        for index in result.indices:
            words += (index.const, index.coeffs)
        self._first(result.yields)
        if isinstance(result.init, Node):
            words.append("node")
            self.nodes(walk([result.init]))
            self._first(result.init)
        elif result.init is not None:
            words.append("operand")
            self.operand(result.init)
        for store in result.stores:
            self.value(store.target)
            self.access(store.target, store.index)

    def nodes(self, nodes: Iterable[Node]) -> None:
        words, known = self.words, self._known
        for node in nodes:
            if id(node) in known:
                continue
            for operand in node.operands:
                words.append(known[id(operand)])
            known[id(node)] = len(known)
            words += (node.op, node.dtype, len(node.operands))
            payload = node.payload
            if payload is None:
                continue
            if node.op == "in":
                self.operand(payload)
            elif node.op == "gather":
                self.value(payload)
            elif node.op == "scalar":
                words.append(self._arguments.scalars[payload])
            elif node.op == "constant":
                words.append(repr(payload))  # -0.0 and 0.0, 1 and True are not one
            else:
                words.append(payload)
