"""When a kernel may write a result over memory that it reads, and which input a result replaces.

Tiles are read before they are written, core by core, and each element is handled by one core only; so a nest
kernel may overwrite an input when every read of it is at the very element that the same point of the
iteration writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ftm_backend.midend.kernel import KernelView, Node, Value
from ftm_backend.midend.nest_domain import domain_of


def may_overwrite(view: KernelView, output: int, inputs: Sequence[int]) -> bool:
    """Whether output number ``output`` may lie where the inputs with these numbers (one buffer) lie."""
    result = view.outputs[output]
    if view.kind != "nest" or result is None or result.combine is not None or len(result.stores) != 1:
        return False
    domain = domain_of(view)
    writer = result.value.producer
    assert writer is not None
    place = domain.coefficients(writer, result.stores[0].index)
    span = set(domain.span(writer))
    overwritten = {view.arguments[k] for k in inputs}
    for statement in view.statements:
        if overwritten.intersection(statement.gathers):
            return False
        for r in statement.results:
            if r.combine is not None and getattr(r.init, "value", None) in overwritten:
                return False
        for operand in statement.operands:
            if operand.value in overwritten and not (
                operand.index.const == result.stores[0].index.const
                and domain.coefficients(statement, operand.index) == place
                and set(domain.span(statement)) == span
            ):
                return False
    return True


def donated_input(
    view: KernelView, output: int, symbols: Sequence[str], eligible: Callable[[str], bool]
) -> str | None:
    """The input that an output updates: the leftmost of its expression that will do, as ``p`` in ``p - lr * g``.

    Args:
        view: the kernel that writes the output first.
        output: number of the output.
        symbols: buffers of the kernel's inputs.
        eligible: whether a buffer has the right type and size, is still free and is not read by later kernels.

    Returns:
        The buffer's symbol, or None.
    """
    result = view.outputs[output]
    if result is None:
        return None
    for value in _leaves(result.yields, view):
        number = view.arguments.index(value) if value in view.arguments else -1
        if number >= 0 and eligible(symbols[number]) and may_overwrite(view, output, [number]):
            return symbols[number]
    return None


def _leaves(root: Node, view: KernelView) -> Iterator[Value]:
    """The tensors that an expression reads, leftmost first, through values computed in the kernel."""
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.op == "in":
            producer = node.payload.value.producer
            if producer is None or producer not in view.statements:
                yield node.payload.value
            else:
                stack.append(next(r for r in producer.results if r.value is node.payload.value).yields)
        stack.extend(reversed(node.operands))
