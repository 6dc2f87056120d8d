"""Axes of a nest kernel: leaves of the iteration domain, merged where every access has one stride.

Accesses are functions of the axes. An index value (an index used as a number, as by arange) counts
as an access.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ftm_backend.ir.linalg.affine import Affine, volume
from ftm_backend.ir.linalg.function import FunctionResult, Node, Operand, Statement, nodes_of
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.schedule.loop_nest.iteration_domain import (
    DomainDim,
    DomainShape,
    IterationDomain,
    domain_of,
)
from ftm_backend.symbolic import guarded_equal, size_hint


@dataclass(eq=False, slots=True)
class TileAxis:
    """An axis of ``extent`` steps: its ``leaves``, outermost first, with a common stride."""

    extent: int
    leaves: tuple[DomainDim, ...]


@dataclass(eq=False, slots=True)
class AxisPosition:
    """An address or index value as a function of axes: ``const + sum(steps[axis] * counter)``."""

    const: int
    steps: dict[TileAxis, int]


@dataclass(eq=False)
class TileAxes:
    """The axes of a kernel, in the order of its largest access, outermost first."""

    kernel: Kernel
    domain: IterationDomain
    shape: DomainShape
    axes: list[TileAxis] = field(default_factory=list)
    spans: dict[Statement, frozenset[TileAxis]] = field(default_factory=dict)
    reduced: dict[Statement, frozenset[TileAxis]] = field(default_factory=dict)

    def position(self, statement: Statement, index: Affine) -> AxisPosition:
        """Return a function of the statement's loops as a function of axes."""
        strides = self.domain.coefficients(statement, index)
        steps = {}
        for axis in self.axes:
            step = strides.get(axis.leaves[-1], 0)
            if step:
                steps[axis] = step
        return AxisPosition(index.const, steps)


def axes_of(kernel: Kernel) -> TileAxes:
    """Compute the axes of a nest kernel.

    Raises:
        ValueError: No tile shape fits all of its statements.
    """
    domain = domain_of(kernel)
    shape = domain.shape()
    if shape is None:
        raise ValueError(f"{kernel.name}: no tile shape carries its statements together")
    accesses = [(s, i) for s in kernel.statements for i in indices_of(s)]
    strides = [domain.coefficients(s, i) for s, i in accesses]
    leaves = _order(domain, shape, strides)
    spans = {s: frozenset(domain.span(s)) for s in kernel.statements}
    reduced = {s: domain.reduced(s) for s in kernel.statements}
    groups: list[list[DomainDim]] = []
    for leaf in leaves:
        if groups and _have_common_stride(groups[-1], leaf, strides, shape, spans, reduced):
            groups[-1].append(leaf)
        else:
            groups.append([leaf])
    axes = [TileAxis(volume([d.extent for d in group]), tuple(group)) for group in groups]
    result = TileAxes(kernel, domain, shape, axes)
    for s in kernel.statements:
        result.spans[s] = frozenset(a for a in axes if a.leaves[0] in spans[s])
        result.reduced[s] = frozenset(a for a in axes if a.leaves[0] in reduced[s])
    return result


def indices_of(statement: Statement) -> Iterable[Affine]:
    """Yield every function of the loops in a statement: its accesses and index values."""
    for operand in statement.operands:
        yield operand.index
    for result in statement.results:
        yield result.index
        for store in result.stores:
            yield store.index
        if isinstance(result.init, Operand):
            yield result.init.index
    for node in index_nodes(statement.results):
        yield node.payload


def index_nodes(results: Iterable[FunctionResult]) -> list[Node]:
    """Return the ``index`` nodes of bodies."""
    return [n for n in nodes_of(results) if n.op == "index"]


def _order(
    domain: IterationDomain, shape: DomainShape, strides: list[dict[DomainDim, int]]
) -> list[DomainDim]:
    """Return the leaves in the order of the largest access, with free leaves first."""
    leaves = domain.leaves()
    main = max(strides, key=lambda f: size_hint(volume([leaf.extent for leaf in f])), default={})
    held = set(shape.held)
    position = {leaf: k for k, leaf in enumerate(leaves)}
    return sorted(
        leaves,
        key=lambda leaf: (leaf in held, -abs(size_hint(main.get(leaf, 1 << 62))), position[leaf]),
    )


def _have_common_stride(
    group: list[DomainDim],
    inner: DomainDim,
    strides: list[dict[DomainDim, int]],
    shape: DomainShape,
    spans: dict[Statement, frozenset[DomainDim]],
    reduced: dict[Statement, frozenset[DomainDim]],
) -> bool:
    outer = group[-1]
    if (outer in shape.held) != (inner in shape.held):
        return False
    if any((outer in s) != (inner in s) for s in spans.values()):
        return False
    if any((outer in s) != (inner in s) for s in reduced.values()):
        return False
    return all(guarded_equal(f.get(outer, 0), f.get(inner, 0) * inner.extent) for f in strides)
