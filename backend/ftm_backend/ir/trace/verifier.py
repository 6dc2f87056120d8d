"""Verifier of traces: definitions before uses, canonical numbering, views inside their base."""

from __future__ import annotations

from ftm_backend.ir.trace.trace import (
    Node,
    Operand,
    TensorType,
    Trace,
    TraceError,
    check_type,
)


def verify(trace: Trace) -> None:
    """Raise TraceError unless ``trace`` is well-formed and canonical.

    Canonical means: parameters and scalars are numbered in the order of their first use (results
    count as uses after all nodes), every scalar is used exactly once, and no node is dead.
    """
    for type_ in trace.params:
        check_type(type_)
    types: list[TensorType | None] = list(trace.params)
    seen_params = 0
    seen_scalars = 0
    for position, node in enumerate(trace.nodes):
        try:
            for slot, index in zip(node.spec.slots, node.operands, strict=True):
                if slot is Operand.VALUE:
                    _check_defined(index, types)
                    seen_params = _in_order(index, seen_params, len(trace.params))
                elif index != seen_scalars or index >= len(trace.scalars):
                    raise TraceError(
                        f"${index} is used where ${seen_scalars} is due: each scalar is "
                        f"used once, in order, and the trace has {len(trace.scalars)}"
                    )
                else:
                    seen_scalars += 1
            if not node.results:
                raise TraceError("a node has at least one result")
            for result in node.results:
                if result is not None:
                    check_type(result)
            _check_view(node, types)
        except TraceError as error:
            raise TraceError(f"node {position} ({node.op}): {error}") from None
        types.extend(node.results)
    for index in trace.results:
        _check_defined(index, types)
        seen_params = _in_order(index, seen_params, len(trace.params))
    if seen_params != len(trace.params):
        raise TraceError(f"parameter %{seen_params} is never used; leave it out of the trace")
    if seen_scalars != len(trace.scalars):
        raise TraceError(f"scalar ${seen_scalars} is never used; leave it out of the trace")
    _check_needed(trace)


def _check_defined(index: int, types: list[TensorType | None]) -> None:
    if index >= len(types):
        raise TraceError(f"%{index} is used before it is defined")
    if types[index] is None:
        raise TraceError(f"%{index} is an undefined tensor and cannot be used")


def _in_order(index: int, seen: int, params: int) -> int:
    if index < params:
        if index > seen:
            raise TraceError(
                f"%{index} is used before %{seen}: "
                "parameters are numbered in the order of first use"
            )
        if index == seen:
            return seen + 1
    return seen


def _check_needed(trace: Trace) -> None:
    needed = set(trace.results)
    last = len(trace.types())
    for position in range(len(trace.nodes) - 1, -1, -1):
        node = trace.nodes[position]
        first = last - len(node.results)
        if not any(index in needed for index in range(first, last)):
            raise TraceError(
                f"node {position} ({node.op}): no result of the trace needs %{first}; "
                "leave the node out"
            )
        needed.update(node.values)
        last = first


def _check_view(node: Node, types: list[TensorType | None]) -> None:
    """Check that ftm.view and ftm.update stay inside their base, and that their types agree."""
    if node.op not in ("ftm.view", "ftm.update"):
        return
    base = types[node.argument("base").index]
    result = node.results[0]
    if base is None or result is None:
        raise TraceError("base and result are defined tensors")
    sizes, strides, offset = (
        node.argument("sizes"),
        node.argument("strides"),
        node.argument("offset"),
    )
    if len(sizes) != len(strides):
        raise TraceError(f"sizes has {len(sizes)} entries and strides {len(strides)}")
    viewed, expected = result, TensorType(base.dtype, tuple(sizes))
    if node.op == "ftm.update":
        viewed = types[node.argument("value").index]
        if result != base:
            raise TraceError(f"the result is {result}, but the base is {base}")
    if viewed != expected:
        raise TraceError(f"the view is {viewed}, but dtype of the base and sizes give {expected}")
    if any(stride < 0 for stride in strides) or offset < 0:
        raise TraceError("strides and offset are not negative")
    if expected.numel == 0:
        return
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if last >= base.numel:
        raise TraceError(f"the view reaches element {last} of a base of {base.numel} elements")
