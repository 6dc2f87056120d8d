"""Analysis: which outputs of a kernel may overwrite its inputs (buffer donation).

A core reads a tile before it writes it, and each element belongs to one core. So a kernel may
overwrite an input if each iteration reads only the element that it writes. Example: ``p - lr * g``
may overwrite ``p``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import FunctionResult, Node, Statement, Value
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.lowering.gemm.epilogue import build_epilogue
from ftm_backend.midend.schedule.gemm.contraction import match
from ftm_backend.midend.schedule.loop_nest.iteration_domain import domain_of


def may_overwrite(view: Kernel, output: int, inputs: Sequence[int]) -> bool:
    """Whether an output may share a buffer with some inputs.

    Args:
        view: The kernel.
        output: Number of the output.
        inputs: Numbers of the inputs, which are one buffer.
    """
    result = view.made[output]
    if result is None or result.combine is not None or len(result.stores) != 1:
        return False
    if not view.kind.can_donate:
        return False
    overwritten = {view.inputs[k] for k in inputs}
    if view.kind.multiplies:
        return _epilogue_may_overwrite(view, result, overwritten)
    return _nest_may_overwrite(view, result, overwritten)


def _nest_may_overwrite(view: Kernel, result: FunctionResult, overwritten: set[Value]) -> bool:
    """Whether each iteration of a loop nest reads only the element that it writes."""
    domain, (store,) = domain_of(view), result.stores
    writer = result.value.producer
    assert isinstance(writer, Statement)
    place, span = domain.coefficients(writer, store.index), set(domain.span(writer))

    def is_written_element(statement: Statement, index: Affine) -> bool:
        return (
            index.const == store.index.const
            and domain.coefficients(statement, index) == place
            and set(domain.span(statement)) == span
        )

    return all(
        not _reads_elsewhere(statement, overwritten)
        and all(
            is_written_element(statement, operand.index)
            for operand in statement.operands
            if operand.value in overwritten
        )
        for statement in view.statements
    )


def _reads_elsewhere(statement: Statement, overwritten: set[Value]) -> bool:
    """Whether a statement gathers from one of the values, or starts a reduction from it."""
    starts = (r.init for r in statement.results if r.combine is not None)
    return not overwritten.isdisjoint(statement.gathers) or any(
        getattr(start, "value", None) in overwritten for start in starts
    )


def _epilogue_may_overwrite(view: Kernel, result: FunctionResult, overwritten: set[Value]) -> bool:
    """Whether an epilogue's output may overwrite inputs.

    The epilogue runs once for each complete tile of the product. A fused convolution backward reads
    the weights once per tile, for both gradients.
    """
    product, *others = view.aligned
    contraction = match(product)
    if contraction is None or result.value is product.results[0].value:
        return False
    start = getattr(product.results[0].init, "value", None)
    if overwritten.intersection(
        (contraction.a.value.in_memory, contraction.b.value.in_memory, start)
    ):
        return False
    epilogue = build_epilogue(contraction, others)
    stored = [r.value for s in view.aligned for r in s.results if r.stores]
    (store,) = epilogue.outputs[stored.index(result.value)].stores
    return all(
        operand.index.guarded_equal(store.index)
        for operand in epilogue.operands
        if operand.value in overwritten
    )


_B = TypeVar("_B")


@dataclass(frozen=True, eq=False)
class ProducedValue(Generic[_B]):
    """A tensor as output number ``output`` of a kernel whose inputs are ``buffers``."""

    view: Kernel
    output: int
    buffers: Sequence[_B]


def donated_input(
    made: ProducedValue[_B],
    maker: Callable[[_B], ProducedValue[_B] | None],
    eligible: Callable[[_B], bool],
    may_overwrite: Callable[[Kernel, int, Sequence[int]], bool],
    kernels: int,
) -> _B | None:
    """Return the input that an output updates in place, e.g. ``p`` for ``p - lr * g``.

    It is the leftmost eligible input of the output's expression.

    Args:
        made: The output, in the kernel that writes it first.
        maker: Returns how the buffer of an intermediate tensor is produced; None if several
            kernels produce it.
        eligible: Whether a buffer is an input of the same type and size that is not donated yet
            and that no later kernel reads.
        may_overwrite: The function of this name, or a memoized one.
        kernels: Most kernels to search.

    Returns:
        The input's buffer, or None.
    """
    stack = [made]
    while stack and kernels:
        kernels -= 1
        here = stack.pop()
        result = here.view.made[here.output]
        further: list[ProducedValue[_B]] = []
        for value in () if result is None else _leaves(result.yields, here.view):
            number = here.view.inputs.index(value) if value in here.view.inputs else -1
            if number < 0:
                continue
            buffer = here.buffers[number]
            if not eligible(buffer):
                before = maker(buffer)
                further += [] if before is None else [before]
            elif buffer not in made.buffers or may_overwrite(
                made.view, made.output, [made.buffers.index(buffer)]
            ):
                return buffer
        stack += reversed(further)
    return None


def _leaves(root: Node, view: Kernel) -> Iterator[Value]:
    """Yield the kernel's inputs that an expression reads, leftmost first."""
    members = set(view.statements)
    seen: set[int] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.op == "in":
            producer = node.payload.value.producer
            if not isinstance(producer, Statement) or producer not in members:
                yield node.payload.value
            else:
                stack.append(producer.result_of(node.payload.value).yields)
        stack.extend(reversed(node.operands))
