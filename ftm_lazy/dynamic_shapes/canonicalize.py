"""Canonicalization of traces that compute the same, so that they belong to one family.

Example: new rows are concatenated to a KV cache. The trace reads an uncropped cache directly, but a
cropped one through a window of the rows that are left. The canonical form has a window in both
cases; without cropping, it has all rows of the memory. The window's parameter is declared
one-dimensional. The image is the same, because the memory is. If the number of rows is a symbol,
the memory's is another one.

A cache with one row is not changed before it is compiled: the distance to a next row cannot be
derived from it. But a program for several rows may serve it.

Windows with transposed rows and columns, e.g. parts of a fused QKV projection, read other elements.
`window_orders` distinguishes them.

The recorder does not canonicalize; this happens only for traces without a program in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ftm_backend.ir.trace.trace import Node, Operand, Ref, TensorType, Trace
from ftm_backend.symbolic import SymInt, new_symbol, size_hint

__all__ = ["canonicalize", "window_orders"]


class _Window(NamedTuple):
    """A window to insert: its position among the nodes, its parameter, and the rows' dimension."""

    position: int
    parameter: int
    dim: int


def canonicalize(trace: Trace, one_row: bool = False) -> Trace:
    """Replace caches in concatenations by windows.

    A cache is the first operand of a concatenation, if it is a parameter with batch size 1 that
    nothing else reads.

    Args:
        trace: The trace.
        one_row: Also replace caches of one row; otherwise one of them leaves the trace unchanged.

    Returns:
        The new trace, or ``trace`` itself if it has no such cache.
    """
    windows = []
    uses: _Uses | None = None
    for position, node in enumerate(trace.nodes):
        if node.op == "aten::cat" and node.operands and node.operands[0] < len(trace.params):
            uses = uses or _Uses(trace)
            window = _window_of(trace, position, uses)
            if window is None:
                continue
            if size_hint(trace.params[window.parameter].shape[window.dim]) == 1 and not one_row:
                return trace
            windows.append(window)
    return _insert(trace, windows) if windows else trace


class _Uses:
    """How often each value is used, and the node that uses it first."""

    def __init__(self, trace: Trace) -> None:
        self.counts = [0] * len(trace.types())
        self.first = [len(trace.nodes)] * len(self.counts)
        for position, node in enumerate(trace.nodes):
            for value in node.values:
                self.first[value] = min(self.first[value], position)
                self.counts[value] += 1
        for value in trace.results:
            self.counts[value] += 1


def _window_of(trace: Trace, position: int, uses: _Uses) -> _Window | None:
    cat = trace.nodes[position]
    parameter = cat.operands[0]
    sizes = tuple(map(size_hint, trace.params[parameter].shape))
    is_cache = len(sizes) >= 2 and sizes[0] == 1 and uses.counts[parameter] == 1
    if not is_cache or any(slot is not Operand.VALUE for slot in cat.spec.slots):
        return None
    dim = cat.argument("dim") % len(sizes)
    if math.prod(sizes[:dim]) == 1:  # the concatenation appends memory, so no window is needed
        return None
    begin = _begin(trace, position)
    # parameters are numbered in the order of first use
    read = (value for node in trace.nodes[begin:position] for value in node.values)
    if any(value < parameter and uses.first[value] >= begin for value in read):
        return None
    return _Window(begin, parameter, dim)


def _begin(trace: Trace, position: int) -> int:
    """Return the position of the first operand's window: before the windows of the others."""
    others = set(trace.nodes[position].operands[1:])
    last = len(trace.params) + sum(len(node.results) for node in trace.nodes[:position])
    while position:
        node = trace.nodes[position - 1]
        last -= len(node.results)
        if node.op != "ftm.view" or last not in others:
            return position
        position -= 1
    return position


def window_orders(trace: Trace) -> tuple[tuple[int, ...], ...]:
    """Return the dimension order of each transposed window of a one-dimensional parameter.

    Each tuple begins with the window's position. The result is part of the family's key.
    """
    found = []
    for position, node in enumerate(trace.nodes):
        if node.op == "ftm.view" and node.operands[0] < len(trace.params):
            if len(trace.params[node.operands[0]].shape) != 1:
                continue
            sizes, strides = node.argument("sizes"), node.argument("strides")
            several = [d for d, size in enumerate(sizes) if size > 1 and strides[d]]
            order = sorted(several, key=lambda d: -strides[d])
            if order != several:
                found.append((position, *order))
    return tuple(found)


def _insert(trace: Trace, windows: Sequence[_Window]) -> Trace:
    """Insert windows before nodes; values are renumbered."""
    params = list(trace.params)
    renumbered = list(range(len(params)))  # by number in `trace`, the new one
    nodes: list[Node] = []
    number = len(params)
    pending = sorted(windows, reverse=True)
    wholes: dict[int, SymInt] = {}
    for position, node in enumerate(trace.nodes):
        while pending and pending[-1].position == position:
            _, parameter, dim = pending.pop()
            type_ = trace.params[parameter]
            inner = math.prod(type_.shape[dim + 1 :])
            whole = type_.shape[dim] * inner
            if isinstance(whole, SymInt) and trace.symbols is not None:
                if whole.value not in wholes:
                    wholes[whole.value] = new_symbol(trace.symbols, whole.value, 1)
                whole = wholes[whole.value]
            nodes.append(_window_node(type_, parameter, dim, whole))
            extent = (math.prod(type_.shape[:dim]) - 1) * whole + type_.shape[dim] * inner
            params[parameter] = TensorType(type_.dtype, (extent,))
            renumbered[parameter] = number  # only the concatenation reads the parameter
            number += 1
        operands = tuple(
            renumbered[operand] if slot is Operand.VALUE else operand
            for slot, operand in zip(node.spec.slots, node.operands, strict=True)
        )
        nodes.append(Node(node.spec, operands))
        renumbered += range(number, number + len(node.results))
        number += len(node.results)
    results = [renumbered[value] for value in trace.results]
    return Trace(params, list(trace.scalars), nodes, results, trace.symbols)


def _window_node(type_: TensorType, parameter: int, dim: int, whole: int) -> Node:
    """Return a view of a parameter whose rows along `dim` have `whole` elements in memory."""
    shape = type_.shape
    outer = (math.prod(shape[d + 1 : dim]) * whole for d in range(dim))
    inner = (math.prod(shape[d + 1 :]) for d in range(dim, len(shape)))
    strides = (*outer, *inner)
    args = (("base", Ref(parameter)), ("sizes", shape), ("strides", strides), ("offset", 0))
    return Node.of("ftm.view", args, (type_,))
