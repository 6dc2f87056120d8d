"""Epilogue of a contraction: elementwise statements on a tile of C before it is stored.

Examples: bias, activation, residual, casts. The statements become one body over the contraction's
own loops: operands and index nodes are rewritten as functions of these loops, and intermediate
values disappear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ftm_backend.ir.linalg.affine import Affine, digits
from ftm_backend.ir.linalg.function import Node, Operand, Statement, Store, walk
from ftm_backend.midend.analysis.body_cost import MOST_OPERATIONS, interval, operations
from ftm_backend.midend.schedule.gemm.contraction import Contraction, axes_of, match
from ftm_backend.midend.schedule.gemm.tiling_problem import EpilogueTraffic
from ftm_backend.symbolic import guarded_equal, statically_known_equal
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = [
    "MOST_TILES",
    "Epilogue",
    "EpilogueOutput",
    "build_epilogue",
    "can_fuse_epilogue",
    "epilogue_traffic",
]

MOST_TILES = 10
"""Most tiles of C's extents of an epilogue. More would leave too little scratchpad for operands."""


@dataclass(frozen=True, eq=False)
class EpilogueOutput:
    """A result of the kernel: its element in the rewritten body, and its stores."""

    element: Node
    stores: tuple[Store, ...]


@dataclass(frozen=True, eq=False)
class Epilogue:
    """The body over one element of C.

    All indices are over the contraction's loops.

    Attributes:
        product: Placeholder of the contraction's element.
        outputs: Elements that are stored.
        operands: DDR tensors that the body loads.
        positions: Index functions that the body computes with.
    """

    product: Node
    outputs: tuple[EpilogueOutput, ...]
    operands: tuple[Operand, ...]
    positions: tuple[Affine, ...]


class _Rewriter:
    """Rewrites statements one by one over the contraction's loops."""

    def __init__(self, contraction: Contraction) -> None:
        result = contraction.statement.results[0]
        self.contraction = contraction
        self.rank = len(contraction.statement.loops)
        self.product = Node("carry", contraction.accumulator, payload=0)
        self.elements: dict[int, Node] = {id(result.value): self.product}
        # of each element, without the terms of loops of one iteration
        loops = zip(result.index.coeffs, contraction.statement.loops, strict=True)
        coeffs = tuple(0 if guarded_equal(n, 1) else c for c, n in loops)
        self.indices = {id(result.value): Affine(result.index.const, coeffs)}
        self.operands: dict[tuple[int, Affine], Node] = {}
        self.positions: dict[Affine, Node] = {}

    def loops_of(self, statement: Statement) -> list[int | None] | None:
        """Map each loop of ``statement`` to one of the contraction; None if they do not match."""
        reads = [o for o in statement.operands if id(o.value) in self.elements]
        if statement.is_reduction or statement.gathers or not reads or not statement.loops:
            return None
        loops = self._matching_loops(statement, reads[0])
        if loops is None:
            return None
        same = all(self._over(o.index, loops) == self.indices[id(o.value)] for o in reads)
        return loops if same else None

    def _matching_loops(self, statement: Statement, read: Operand) -> list[int | None] | None:
        """Map loops in the order of the elements that both walk; None if that leaves some out."""
        product = self.contraction.statement
        own = digits(product.loops, self.indices[id(read.value)])
        others = digits(statement.loops, read.index)
        if own is None or others is None or len(own) != len(others):
            return None
        loops = dict(zip(others, own, strict=True))
        has_all = all(k in loops or guarded_equal(n, 1) for k, n in enumerate(statement.loops))
        are_equal = all(
            statically_known_equal(statement.loops[k], product.loops[loop])
            for k, loop in loops.items()
        )
        return (
            [loops.get(k) for k in range(len(statement.loops))] if has_all and are_equal else None
        )

    def _over(self, index: Affine, loops: Sequence[int | None]) -> Affine:
        coeffs = [0] * self.rank
        for stride, loop in zip(index.coeffs, loops, strict=True):
            if loop is not None:
                coeffs[loop] = stride
        return Affine(index.const, tuple(coeffs))

    def rewrite(self, statement: Statement) -> list[EpilogueOutput] | None:
        """Rewrite a statement; return its outputs, or None if it cannot run on a tile of C."""
        loops = self.loops_of(statement)
        if loops is None:
            return None
        done: dict[int, Node] = {}
        for node in walk(result.yields for result in statement.results):
            done[id(node)] = self._rewrite(node, done, loops)
        outputs = []
        for result in statement.results:
            self.elements[id(result.value)] = done[id(result.yields)]
            self.indices[id(result.value)] = self._over(result.index, loops)
            outputs.append(
                EpilogueOutput(
                    done[id(result.yields)],
                    tuple(Store(s.target, self._over(s.index, loops)) for s in result.stores),
                )
            )
        return outputs

    def _rewrite(self, node: Node, done: dict[int, Node], loops: Sequence[int | None]) -> Node:
        if node.op == "in":
            computed = self.elements.get(id(node.payload.value))
            if computed is not None:
                return computed
            index = self._over(node.payload.index, loops)
            read = Node("in", node.dtype, payload=Operand(node.payload.value, index))
            return self.operands.setdefault((id(node.payload.value), index), read)
        if node.op == "index":
            index = self._over(node.payload, loops)
            return self.positions.setdefault(index, Node("index", node.dtype, payload=index))
        if not node.operands:
            return node
        return Node(node.op, node.dtype, tuple(done[id(n)] for n in node.operands), node.payload)

    @property
    def tiles(self) -> int:
        """Number of tiles of the operands."""
        return len(self.operands)


def build_epilogue(contraction: Contraction, statements: Sequence[Statement]) -> Epilogue:
    """Return the epilogue of ``contraction`` that consists of elementwise ``statements``.

    Raises:
        ValueError: ``can_fuse_epilogue`` rejects a statement.
    """
    rewriter = _Rewriter(contraction)
    result = contraction.statement.results[0]
    outputs = [EpilogueOutput(rewriter.product, tuple(result.stores))]
    for statement in statements:
        tile_extents = rewriter.rewrite(statement)
        if tile_extents is None:
            raise ValueError(
                f"{statement.op} over {statement.loops} cannot follow a contraction in its kernel"
            )
        outputs += tile_extents
    reads = tuple(node.payload for node in rewriter.operands.values())
    return Epilogue(
        rewriter.product, tuple(o for o in outputs if o.stores), reads, tuple(rewriter.positions)
    )


def epilogue_traffic(epilogue: Epilogue, machine: MachineParameters) -> EpilogueTraffic:
    """Describe an epilogue to the cost model."""
    broadcasts = list(filter(_is_broadcast, epilogue.operands)) if machine.uses_panels else []
    operands = [o for o in epilogue.operands if o not in broadcasts]
    loaded, elements = [o.value.dtype for o in operands], [x.element for x in epilogue.outputs]
    tiles = [*loaded, *(each.dtype for each in elements if each is not epilogue.product)]
    body = 0.0
    if machine.uses_panels:
        body = interval(machine, elements, len(tiles) + len(broadcasts) + 1)
    return EpilogueTraffic(
        tiles=len(tiles),
        extra_bytes=_extra_bytes(tiles, epilogue.product.dtype),
        operands=len(operands),
        broadcasts=len(broadcasts),
        bytes=_bytes([*loaded, *(element.dtype for element in elements[1:])]),
        c_layout_bytes=_bytes(_like_c(epilogue, operands)),
        interval=body,
    )


def _extra_bytes(dtypes: Sequence[str], product: str) -> int:
    """Return the bytes by which elements exceed those of the product's type."""
    return sum(max(0, ELEMENT_BYTES[dtype] - ELEMENT_BYTES[product]) for dtype in dtypes)


def _is_broadcast(operand: Operand) -> bool:
    """Whether an operand is constant along all loops but one."""
    return sum(map(bool, operand.index.coeffs)) <= 1


def _like_c(epilogue: Epilogue, operands: Sequence[Operand]) -> list[str]:
    """Return the types of operands and further outputs that lie in memory as the result does."""
    stored = {store.index.coeffs for output in epilogue.outputs[:1] for store in output.stores}
    found = [operand.value.dtype for operand in operands if operand.index.coeffs in stored]
    return found + [
        x.element.dtype
        for x in epilogue.outputs[1:]
        if {store.index.coeffs for store in x.stores} <= stored
    ]


def _bytes(dtypes: Sequence[str]) -> int:
    return sum(ELEMENT_BYTES[dtype] for dtype in dtypes)


def can_fuse_epilogue(chain: Sequence[Statement], candidate: Statement) -> bool:
    """Whether ``candidate`` can be fused into the epilogue of a contraction.

    It must be elementwise over exactly the contraction's result, and read a value of the chain at
    the same element. Its other operands may be any affine reads. If it computes with indices
    (random numbers, masks), these must be one linear function of the tile's row and column.

    Args:
        chain: The contraction and its present epilogue.
        candidate: The statement.
    """
    contraction = match(chain[0])
    if contraction is None or operations([*chain, candidate]) > MOST_OPERATIONS:
        return False
    rewriter = _Rewriter(contraction)
    if any(rewriter.rewrite(statement) is None for statement in (*chain[1:], candidate)):
        return False
    if rewriter.tiles > MOST_TILES:
        return False
    return not rewriter.positions or _has_single_axes(rewriter)


def _has_single_axes(rewriter: _Rewriter) -> bool:
    """Whether the rows and the columns of all accesses are one axis each."""
    contraction = rewriter.contraction
    others = [node.payload.index for node in rewriter.operands.values()]
    stores = [s.index for s in contraction.statement.results[0].stores]
    form = axes_of(contraction, [*others, *stores, *rewriter.positions])
    return len(form.m) <= 1 and len(form.n) <= 1
