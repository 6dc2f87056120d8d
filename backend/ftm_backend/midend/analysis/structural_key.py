"""Analysis: structural keys, without names of values, buffers and scalars.

- `statement_key`: statements with equal keys differ only in their values and runtime scalars.
  Decisions about a statement are the same for all of them.
- `structural_key`: the key of a kernel, computed once after the kernel is formed. Plans of equal
  kernels are the same. Elements are numbered from the first one that the kernel accesses in each
  tensor, so twelve slices of a tensor have one key.
- `function_key`: the key of a kernel's function. It adds the kernel's memory: which parameters are
  one buffer, and where the accesses begin. It is the name of the function in all caches, in memory
  and on disk.
"""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

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
from ftm_backend.midend.lowering.gemm.im2col_geometry import overread_limit
from ftm_backend.midend.schedule.gemm.contraction import contraction_index
from ftm_backend.target.presets import ELEMENT_BYTES

__all__ = ["StructuralKey", "function_key", "statement_key", "structural_key"]


@dataclass(frozen=True)
class StructuralKey:
    """Structure of a kernel.

    Attributes:
        digest: Hash of the statements, in terms of numbered values and scalars.
        starts: For each value the element from which ``digest`` counts its accesses.
        values: The values, in the order of their numbers.
        scalars: Symbols of the runtime scalars, in the order of their numbers.
    """

    digest: str
    starts: tuple[int, ...]
    values: tuple[Value, ...] = field(compare=False)
    scalars: tuple[str, ...] = field(compare=False)


def structural_key(kernel: Kernel) -> StructuralKey:
    """Return the structural key of a kernel whose stores are set."""
    if kernel.key is None:
        kernel.key = _computed(kernel)
    return kernel.key


def _computed(kernel: Kernel) -> StructuralKey:
    lowest = _lowest_elements(kernel) if kernel.kind.is_affine else {}
    writer = _KeyWriter(lowest)
    machine = kernel.machine
    writer.words += [machine.name, machine.cores, machine.am_bytes, len(kernel.inputs)]
    for value in (*kernel.inputs, *kernel.outputs):
        writer.value(value)
    for statement in kernel.statements:
        writer.statement(statement)
    writer.words += kernel.ties
    for made in kernel.made:
        writer.words.append(None if made is None else writer.number(made.value))
    starts = tuple(lowest.get(value, 0) for value in writer.values)
    return StructuralKey(_digest(writer.words), starts, tuple(writer.values), tuple(writer.scalars))


def _lowest_elements(kernel: Kernel) -> dict[Value, int]:
    """Return the first element that the kernel accesses in each tensor.

    0 for tensors with computed indices.
    """
    in_memory = {*kernel.inputs, *kernel.outputs}
    found: dict[Value, int] = {}

    def touch(value: Value, index: Affine, loops: tuple[int, ...]) -> None:
        if value in in_memory:
            first = index.const + sum(
                c * (n - 1) for c, n in zip(index.coeffs, loops, strict=True) if c < 0
            )
            found[value] = min(found.get(value, first), first)

    indexed_by_data: set[Value] = set()
    for statement in kernel.statements:
        indexed_by_data.update(statement.gathers)
        if statement.op.startswith("ftm."):
            indexed_by_data.update(tensor.value for tensor in statement.tensors)
        indexed_by_data.update(
            o.value.in_memory for o in statement.operands if o.value.border is not None
        )
        for operand in statement.operands:
            touch(operand.value, operand.index, statement.loops)
        for result in statement.results:
            for store in result.stores:
                touch(store.target, store.index, statement.loops)
            if isinstance(result.init, Operand):
                touch(result.init.value, result.init.index, statement.loops)
    return {
        value: 0 if value in indexed_by_data else max(first, 0) for value, first in found.items()
    }


def function_key(
    kernel: Kernel,
    buffers: Mapping[str, tuple[int, int]],
    shared: Iterable[tuple[int, int]],
) -> str:
    """Return the key of the function that a kernel becomes: a hexadecimal number.

    Args:
        kernel: The kernel; its values in memory have symbols.
        buffers: For each symbol the number of the parameter, and the element it starts at.
        shared: Pairs of parameters that are the same memory.
    """
    key = structural_key(kernel)
    words: list[object] = [key.digest, kernel.kind.value, kernel.one_core, kernel.faults]
    words += [str(kernel.schedule or ""), *shared]
    # Another kernel may keep such a value in memory: fused gradients of attention compute the mask
    # and the scores again.
    local = {result.value for s in kernel.statements for result in s.results} - {*kernel.outputs}
    for value, start in zip(key.values, key.starts, strict=True):
        is_local = value.symbol is None or value in local
        number, first = (-1, 0) if is_local else buffers[str(value.symbol)]
        words += (number, start - first)
    for value in kernel.workspaces:
        words += (value.dtype, value.shape, buffers[str(value.symbol)][0])
    if kernel.kind.multiplies and kernel.machine.uses_panels:
        product = kernel.statements[contraction_index(kernel.statements)]
        for operand in product.operands:
            granule = kernel.machine.dma_granule // ELEMENT_BYTES[operand.value.dtype]
            size = prod(operand.value.shape)
            words.append(overread_limit(product.loops, operand.index, size, granule))
    return _digest(words)


def _digest(words: list[object]) -> str:
    """Hash numbers and strings.

    Symbolic sizes are hashed by their text and never compared: comparing two of them may add a
    guard to the program.
    """
    try:
        content = marshal.dumps(words, 0)  # five times as fast as `repr`
    except ValueError:  # there are symbolic sizes
        content = repr(words).encode()
    return hashlib.blake2b(content, digest_size=32).hexdigest()


def statement_key(statement: Statement) -> tuple[str, tuple[Value, ...]]:
    """Return the structural key of a statement.

    Returns:
        A digest that is equal for statements that differ only in their values and runtime scalars,
        and these values in order.
    """
    writer = _KeyWriter({})
    writer.statement(statement)
    return _digest(writer.words), tuple(writer.values)


class _KeyWriter:
    """Writes records as words. Each record has a number, which replaces it from its second use on.

    Attributes:
        words: Numbers and strings.
        values: The values that were written, in order.
        scalars: Number of each runtime scalar, in order of first use.
    """

    def __init__(self, starts: Mapping[Value, int]) -> None:
        """Start without words; accesses of a value count from its element in ``starts``, or 0."""
        self._starts = starts
        self._known: dict[int, int] = {}
        self.words: list[object] = []
        self.values: list[Value] = []
        self.scalars: dict[str, int] = {}

    def number(self, value: Value) -> int:
        """Return the number of a value that was written."""
        return self._known[id(value)]

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
            self.words += (value.dtype, value.shape)
            if value.border is not None:
                self.words += ("border", value.border.sizes, value.border.low)
                self.value(value.border.inside)
            if value.splat is not None:
                self.words.append("splat")
                self.nodes(walk([value.splat]))

    def access(self, value: Value, index: Affine) -> None:
        self.words += (index.const - self._starts.get(value, 0), index.coeffs)

    def statement(self, statement: Statement) -> None:
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
            start = self._starts.get(tensor.value, 0)
            words += (tensor.view.sizes, tensor.view.strides, tensor.view.offset - start)
        self.nodes(nodes_of(statement.results))
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
                words.append(self.scalars.setdefault(payload, len(self.scalars)))
            elif node.op == "constant":
                words.append(repr(payload))  # -0.0 and 0.0, 1 and True are not one
            elif isinstance(payload, Affine):
                words += (payload.const, payload.coeffs)
            else:
                words.append(payload)
