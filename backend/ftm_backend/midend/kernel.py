"""Python view of the IR that the midend works on: statements, their accesses and their bodies.

MLIR's Python objects are slow to question, so each operation is read once (``reader.py``) into these
records; grouping, planning and lowering work on them.  The same records describe the whole function before
grouping and one ``ftm.kernel`` after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ftm_backend.machine.presets import MachineParameters
from ftm_backend.midend.affine import Affine

Number = int | float


@dataclass(eq=False, slots=True)
class Value:
    """A tensor that statements read or compute; flat, row-major.

    ``symbol`` names the DDR buffer that holds it (None inside a kernel: it lives in scratchpad);
    ``producer`` is the statement that computes it (None for inputs of the kernel or function).
    """

    dtype: str
    shape: tuple[int, ...]
    symbol: str | None = None
    producer: Statement | None = None


@dataclass(eq=False, slots=True)
class Operand:
    """One tensor read: element ``index(loops)`` of the flat ``value``."""

    value: Value
    index: Affine


@dataclass(eq=False, slots=True)
class Node:
    """One value of a body.  ``dtype`` is a token such as ``"f32"``; MLIR's ``index`` is ``i64`` here.

    op            operands      payload
    ``in``        -             the ``Operand`` that is read
    ``carry``     -             number of the result whose running value it is
    ``constant``  -             Python number
    ``scalar``    -             symbol of a runtime scalar (``"s0"``)
    ``index``     -             ``Affine`` of the statement's loops
    ``gather``    index (i64)   the ``Value`` that is read at that flat element
    ``ftm.philox``, ``arith.*``, ``math.*``: as in MLIR; payload is the dict of attributes
    """

    op: str
    dtype: str
    operands: tuple[Node, ...] = ()
    payload: Any = None


@dataclass(eq=False, slots=True)
class Store:
    """Where a result goes in DDR: element ``index(loops)`` of buffer ``symbol``, which has ``elements``."""

    symbol: str
    elements: int
    index: Affine


@dataclass(eq=False, slots=True)
class Result:
    """One tensor that a statement computes.

    ``index`` is the flat element of ``value`` that the loops' point writes, ``indices`` the same per
    dimension.  ``combine`` is None when no
    loop is reduced; ``"sum" "prod" "min" "max" "and" "or"`` when ``yields`` is the element to be reduced
    by it; ``"general"`` when ``yields`` computes the new running value from ``carry`` nodes.  ``init`` is
    where a reduction starts: a constant or scalar ``Node`` or an ``Operand``.
    """

    value: Value
    index: Affine
    indices: tuple[Affine, ...]
    yields: Node
    combine: str | None = None
    init: Node | Operand | None = None
    stores: list[Store] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Statement:
    """One linalg operation: ``loops`` are extents, ``reduced`` marks those that are reductions.

    ``op`` is the operation's name.  ``source`` is the MLIR operation it was read from.  ``operands`` are the
    tensors that it reads element by element, ``gathers`` those read at computed places.  An operation that
    is not a loop nest (``ftm.scatter``) has no loops and lists its tensors whole in ``operands``.
    """

    op: str
    loops: tuple[int, ...]
    reduced: tuple[bool, ...]
    operands: list[Operand]
    results: list[Result]
    gathers: list[Value] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    source: Any = None

    @property
    def volume(self) -> int:
        """Points of the iteration domain."""
        count = 1
        for extent in self.loops:
            count *= extent
        return count

    @property
    def is_reduction(self) -> bool:
        """Whether any loop is reduced."""
        return any(self.reduced)


@dataclass(eq=False, slots=True)
class KernelView:
    """One ``ftm.kernel``: its statements in order, what it stores, and where it runs.

    ``one_core``: the kernel is small and runs on core 0 alone.  ``workspaces`` are the DDR buffers that its
    lowering asked for, in order.  ``arguments``: the value of each input, in order.  ``outputs``: for each
    output the result that it is (None for one put together by updates); ``ties``: the number of the input whose
    buffer it is written into (updates and scatters), or None for a buffer of its own.  ``domain`` is where a
    lowering keeps its analysis.
    """

    name: str
    kind: str
    machine: MachineParameters
    statements: list[Statement]
    one_core: bool = False
    workspaces: list[str] = field(default_factory=list)
    arguments: list[Value] = field(default_factory=list)
    outputs: list[Result | None] = field(default_factory=list)
    ties: list[int | None] = field(default_factory=list)
    domain: Any = None

    def core(self, b: Any) -> tuple[Any, Any]:
        """This core's number and the number of cores that run the kernel, as builder index values."""
        return (0, 1) if self.one_core else (b.core_id(), b.num_cores())


def core_share(b: Any, kernel: KernelView, trips: int) -> tuple[Any, Any]:
    """This core's contiguous part ``[low, high)`` of ``trips`` independent iterations."""
    if kernel.one_core or trips <= 1:
        if kernel.one_core:
            return 0, trips
        core, _ = kernel.core(b)
        return b.min(core, trips), trips
    core, cores = kernel.core(b)
    return b.div(b.mul(core, trips), cores), b.div(b.mul(b.add(core, 1), trips), cores)


def walk(nodes: Iterable[Node]) -> list[Node]:
    """Every node below ``nodes``, each once, operands before their users."""
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(n, False) for n in reversed(list(nodes))]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        stack.append((node, True))
        stack.extend((n, False) for n in reversed(node.operands) if id(n) not in seen)
    return order
