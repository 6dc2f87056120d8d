"""Pass ``eliminate-common-subexpressions``: compute once what several maps of a kernel need.

Example: softmax sums ``exp(x - max)``, and then divides it by the sum. Both statements compute the
exponentials, each in a map of its own. The pass makes them a statement, whose result stays in a
tile for the later map (`map_stages.kept_values`).

Only values that take longer to compute than to load from the cache are worth a tile. On machines
whose DMA overlaps compute none is, because larger tiles make longer transfers.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from ftm_backend.ir.linalg.affine import Affine, row_major
from ftm_backend.ir.linalg.body_builder import elementwise, operands_of
from ftm_backend.ir.linalg.function import (
    LinalgFunction,
    Node,
    Operand,
    SequentialLoop,
    Statement,
    Value,
    nodes_of,
)
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.schedule.loop_nest.capacity_check import common_domain, fits_tiles
from ftm_backend.midend.schedule.loop_nest.iteration_domain import leaves_of, strides_of
from ftm_backend.midend.schedule.loop_nest.map_stages import stages_of
from ftm_backend.midend.schedule.loop_nest.merged_axes import TileAxes, axes_of
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup
from ftm_backend.midend.transforms.fusion.kernel_builder import KernelBuilder, rebuild_kernels
from ftm_backend.target.presets import MachineParameters

__all__ = ["eliminate_common_subexpressions"]

_SLOW = frozenset(
    f"math.{name}"
    for name in ("exp", "exp2", "expm1", "log", "log1p", "tanh", "erf", "sin", "cos", "powf")
)
"""Operations that take longer than storing and loading a value in the cache."""


def eliminate_common_subexpressions(
    module: KernelModule, machine: MachineParameters
) -> KernelModule:
    """Split off the common subexpressions of each loop nest; changes ``module``."""
    for repeat in dict.fromkeys(kernel.repeat for kernel in module.kernels):
        function = module.function if repeat is None else repeat.body
        _eliminate(module, machine, function, repeat)
    return module


def _eliminate(
    module: KernelModule,
    machine: MachineParameters,
    function: LinalgFunction,
    repeat: SequentialLoop | None,
) -> None:
    candidates = [k for k in module.kernels if k.repeat is repeat and _may_repeat(k)]
    builder = KernelBuilder(function, machine, 0, repeat) if candidates else None
    groups = {}
    for kernel in candidates:
        replacements = _rewritten(kernel)
        statements = [new for each in replacements.values() for new in each]
        if builder is None or len(statements) == len(kernel.statements):
            continue
        domain = common_domain(statements)
        if domain is None or not fits_tiles(domain, machine, builder.stored):
            _set_producers(kernel.statements)
            continue
        for old, new in replacements.items():
            at = function.body.index(old)
            function.body[at : at + 1] = new
        groups[kernel] = FusionGroup(KernelKind.LOOP_NEST, statements, kernel.one_core)
    if groups:
        rebuild_kernels(module, groups, KernelBuilder(function, machine, 0, repeat))


def _may_repeat(kernel: Kernel) -> bool:
    """Return whether several statements of a loop nest have slow operations; few kernels do."""
    bodies = (
        [nodes_of(s.results) for s in kernel.statements]
        if kernel.kind is KernelKind.LOOP_NEST
        else []
    )
    return sum(any(node.op in _SLOW for node in body) for body in bodies) > 1


def _set_producers(statements: Sequence[Statement]) -> None:
    for statement in statements:
        for result in statement.results:
            result.value.producer = statement


class _Numbers:
    """Numbers the nodes of a kernel: equal numbers mean equal values.

    Attributes:
        number: The number of a node; None for values that depend on positions or running values.
        is_slow: Whether to compute a node takes longer than to load it. A value that is the same
            for all elements is computed once anyway.
    """

    def __init__(self, axes: TileAxes) -> None:
        self._axes = axes
        self._numbers: dict[Hashable, int] = {}
        self.number: dict[tuple[Statement, Node], int | None] = {}
        self.is_slow: dict[Node, bool] = {}
        self._varies: set[Node] = set()

    def add(self, statement: Statement) -> None:
        """Number the nodes of a statement's bodies."""
        for node in nodes_of(statement.results):
            key = self._key(statement, node)
            number = None if key is None else self._numbers.setdefault(key, len(self._numbers))
            self.number[statement, node] = number
            if node.op == "in" or not self._varies.isdisjoint(node.operands):
                self._varies.add(node)
            is_slow = node.op in _SLOW or any(self.is_slow[each] for each in node.operands)
            self.is_slow[node] = is_slow and node in self._varies

    def _key(self, statement: Statement, node: Node) -> Hashable:
        if node.op == "in":
            at = self._axes.position(statement, node.payload.index)
            return ("in", node.payload.value, at.const, frozenset(at.steps.items()))
        operands = tuple(self.number[statement, each] for each in node.operands)
        is_pure = node.op in ("constant", "scalar") or node.op.startswith(("arith.", "math."))
        if not is_pure or None in operands:
            return None
        return (node.op, node.dtype, repr(node.payload), operands)

    def shared(self) -> set[int]:
        """Return the numbers of the largest values that a map computes and a later one needs."""
        everything = frozenset(self._axes.axes)
        found: set[int] = set()
        computed: set[int] = set()
        for stage in stages_of(self._axes):
            here: set[int] = set()
            wide = [s for s in stage.statements if self._axes.spans[s] == everything]
            for statement in wide if not stage.narrow else ():
                stack = [result.yields for result in statement.results]
                visited: set[Node] = set()
                while stack:
                    node = stack.pop()
                    if node in visited:
                        continue
                    visited.add(node)
                    number = self.number[statement, node]
                    if number is not None and self.is_slow[node]:
                        if number in computed:
                            found.add(number)
                            continue
                        here.add(number)
                    stack += node.operands
            computed |= here
        return found


def _rewritten(kernel: Kernel) -> dict[Statement, list[Statement]]:
    """Return what replaces each statement: common subexpressions, then itself reading them."""
    axes = axes_of(kernel)
    numbers = _Numbers(axes)
    for statement in kernel.statements if axes.shape.resident else ():
        numbers.add(statement)
    shared = numbers.shared() if axes.shape.resident else set()
    if not shared:
        return {statement: [statement] for statement in kernel.statements}
    made: dict[int, tuple[Statement, Value]] = {}
    replacements: dict[Statement, list[Statement]] = {}
    everything = frozenset(axes.axes)
    for statement in kernel.statements:
        replacements[statement] = []
        known: dict[Node, Node] = {}
        for node in nodes_of(statement.results) if axes.spans[statement] == everything else ():
            operands = tuple(known.get(each, each) for each in node.operands)
            is_same = operands == node.operands
            known[node] = node if is_same else replace(node, operands=operands)
            number = numbers.number[statement, node]
            if number in shared:
                if number not in made:
                    made[number] = statement, Value(node.dtype, statement.loops)
                    single = elementwise(made[number][1], known[node], statement.origins)
                    replacements[statement].append(single)
                index = _index(axes, made[number][0], statement)
                if index is None:
                    continue
                known[node] = Node("in", node.dtype, payload=Operand(made[number][1], index))
        replacements[statement].append(_with_bodies(statement, known))
    return replacements


def _index(axes: TileAxes, maker: Statement, reader: Statement) -> Affine | None:
    """Return where ``reader`` finds its point in a value over the loops of ``maker``."""
    strides = strides_of(axes.domain.loops[maker], row_major(maker.loops))
    loops = axes.domain.loops[reader]
    innermost = [leaves_of(dims)[-1:] for dims in loops]
    coeffs = tuple(strides.get(leaves[0], 0) if leaves else 0 for leaves in innermost)
    return Affine(0, coeffs) if strides_of(loops, coeffs) == strides else None


def _with_bodies(statement: Statement, known: dict[Node, Node]) -> Statement:
    """Return a statement with other bodies, which computes the same results."""
    yields = [known.get(result.yields, result.yields) for result in statement.results]
    if all(a is b.yields for a, b in zip(yields, statement.results, strict=True)):
        return statement
    results = [replace(r, yields=y) for r, y in zip(statement.results, yields, strict=True)]
    new = replace(statement, operands=operands_of(yields), results=results)
    _set_producers([new])
    return new
