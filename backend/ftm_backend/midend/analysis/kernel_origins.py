"""Analysis: which recorded operations each kernel computes.

Example: a kernel of `conv2d + batch_norm + relu` has the operations ``(3, 4, 5)`` of the trace. A
profile then names it after them, with the modules and Python lines that recorded this run's
operations 3, 4 and 5. So equal programs share code, and each run has its own names.
"""

from __future__ import annotations

from collections.abc import Sequence

from ftm_backend.ir.linalg.function import Statement, nodes_of, united_origins
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.symbolic import size_hint

__all__ = ["kernel_ops"]


def kernel_ops(kernels: Sequence[Kernel]) -> list[tuple[int, ...]]:
    """Return the operations of each kernel, those of its costliest statement first.

    The kernels have buffers (pass `assign-buffers`).

    A kernel that a pass made without an operation of its own, such as a copy into another layout,
    belongs to the operations of the kernels that read its results, or else to those whose results
    it reads.
    """
    found = [_own(kernel) for kernel in kernels]
    readers: dict[str | None, list[int]] = {}
    writers: dict[str | None, list[int]] = {}
    for number, kernel in enumerate(kernels):
        for value in kernel.inputs:
            readers.setdefault(value.in_memory.symbol, []).append(number)
        for value in kernel.outputs:
            writers.setdefault(value.symbol, []).append(number)
    # Chains of such kernels are short, and each pass over the program names one more link.
    for _ in range(_LONGEST_CHAIN):
        nameless = [number for number, ops in enumerate(found) if not ops]
        for number in reversed(nameless):
            kernel = kernels[number]
            users = [u for value in kernel.outputs for u in readers.get(value.symbol, ())]
            makers = [m for v in kernel.inputs for m in writers.get(v.in_memory.symbol, ())]
            found[number] = next((found[k] for k in (*users, *makers) if found[k]), ())
    return found


_LONGEST_CHAIN = 3


def _own(kernel: Kernel) -> tuple[int, ...]:
    """Return the operations of a kernel's statements, those of the costliest one first."""
    if not kernel.statements:
        return ()
    costliest = max(kernel.statements, key=_work)
    first = [origin.number for origin in costliest.origins[:1]]
    others = {origin.number for origin in united_origins(*kernel.statements)}
    return (*first, *sorted(others.difference(first)))


def _work(statement: Statement) -> tuple[bool, int]:
    """Return what orders statements by cost; one that has origins comes first."""
    volume = 1
    for extent in statement.loops:
        volume *= size_hint(extent)
    return bool(statement.origins), volume * max(1, len(nodes_of(statement.results)))
