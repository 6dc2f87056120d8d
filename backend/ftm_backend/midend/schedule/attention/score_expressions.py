"""Scalar expressions of attention's statements, over the axes of the scores.

The *axes* are those of the batch, then m (queries), n (keys), d (the head dimension that Q K' sums
over) and v (the columns of V). The statements between two products are composed into one
hash-consed expression over these axes. So a softmax is recognized however it is divided into
statements.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeVar

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.body_builder import constant, operation
from ftm_backend.ir.linalg.function import FunctionResult, Node, Operand, Statement, Value, walk
from ftm_backend.midend.schedule.gemm.contraction import match

__all__ = [
    "LINEAR",
    "OEQ",
    "REDUCTIONS",
    "Loops",
    "NotAttention",
    "ScoreAxes",
    "ScoreExpressions",
    "is_fully_masked",
    "only",
    "substitute",
]

OEQ = 1
"""Predicate of ``arith.cmpf`` for ordered equality."""

LINEAR = {"arith.mulf": (0, 1), "arith.divf": (0,)}
"""Operations that are linear in the operands with these numbers."""

REDUCTIONS = ("max", "sum", "and")
"""Nodes that stand for a reduction of their operand along n."""

_OPAQUE = ("ftm.scatter", "ftm.scan", "ftm.sort", "ftm.conv_transpose")
"""Operations without an element as an expression."""
_STARTS = {"max": -inf, "sum": 0, "and": 1}
"""Initial values of reductions."""

T = TypeVar("T")

Loops = dict[int, tuple[int, ...]]
"""For each loop of a statement, the axes that it covers, outermost first."""


class NotAttention(Exception):
    """The statements do not match attention."""


def only(found: Iterable[T]) -> T:
    """Return the only item.

    Raises:
        NotAttention: There is none, or several.
    """
    items = list(found)
    if len(items) != 1:
        raise NotAttention
    return items[0]


@dataclass(frozen=True, eq=False)
class ScoreAxes:
    """Extents of the axes; the last four are m, n, d and v."""

    extents: tuple[int, ...]

    @property
    def axes(self) -> tuple[tuple[int, ...], int, int, int, int]:
        """Indices of the axes: the batch's, then m, n, d, v."""
        m = len(self.extents) - 4
        return tuple(range(m)), m, m + 1, m + 2, m + 3


class ScoreExpressions:
    """Elements of values as expressions over the axes.

    Attributes:
        inside: The statements that are composed. Results of other statements are loads.
        sums: The products of ``inside``, each with the axis that it sums along, counted from the
            end: -2 for d, -1 for v.
        extents: Extents of the axes.
        n: Index of the axis n.
    """

    extents: tuple[int, ...]
    n: int

    def __init__(self, inside: Sequence[Statement], products: Mapping[Statement, int]) -> None:
        """Start with no expressions; ``find_axes`` must be called next."""
        self.inside: Collection[Statement] = set(inside)
        self.order, self.sums = inside, products
        self.nodes: dict[tuple[object, ...], Node] = {}
        self.products: dict[Statement, Node] = {}
        self.product_operands: dict[Statement, tuple[Node, Node]] = {}

    @property
    def rank(self) -> int:
        """Number of axes."""
        return self.n + 3

    # --- axes

    def find_axes(self) -> None:
        """Find the axes and their extents.

        The batch, m and n come from the reduction that computes the row maximum, d and v from the
        products.

        Raises:
            NotAttention: There is no such reduction.
        """
        largest = only(filter(_is_row_maximum, self.order))
        loops = [k for k, extent in enumerate(largest.loops) if extent != 1]
        reduced = only(k for k in loops if largest.reduced[k])
        if len(loops) < 2:
            raise NotAttention
        order = [*(k for k in loops if k != reduced), reduced]
        self.n = len(order) - 1
        extents = [*(largest.loops[k] for k in order), 0, 0]
        for product, axis in self.sums.items():
            extents[axis] = product.loops[_reduced_loop(product)]
        self.extents = tuple(extents)

    def is_score(self, value: Value) -> bool:
        """Whether a value has an element per score and is not a boolean mask."""
        return value.dtype != "i1" and _volume(value.shape) == _volume(self.extents[:-2])

    def score_index(self, value: Value) -> Affine:
        """Return the row-major index of a tensor of all scores."""
        coeffs, stride = [0] * self.rank, 1
        for axis in range(self.n, -1, -1):
            coeffs[axis], stride = stride, stride * self.extents[axis]
        return Affine(0, tuple(coeffs))

    def loops(
        self, extents: Sequence[int], index: Affine, index_of_axes: Affine, known: Loops
    ) -> Loops:
        """Map the loops of a statement to axes.

        Args:
            extents: Extents of the loops.
            index: The elements that the statement accesses, as a function of its loops.
            index_of_axes: The same elements, as a function of the axes.
            known: Loops that are already mapped.

        Raises:
            NotAttention: The two functions do not match.
        """
        if index.const != index_of_axes.const:
            raise NotAttention
        loops = dict(known)
        free = [
            axis
            for axis, stride in enumerate(index_of_axes.coeffs)
            if stride and not any(axis in axes_taken for axes_taken in known.values())
        ]
        for loop, extent in enumerate(extents):
            if loop not in loops and extent != 1:
                loops[loop] = self._take_axes(index.coeffs[loop], extent, index_of_axes, free)
        if free:
            raise NotAttention
        return loops

    def _take_axes(
        self, stride: int, extent: int, index_of_axes: Affine, free: list[int]
    ) -> tuple[int, ...]:
        """Take the axes that a loop covers from the free ones, outermost first."""
        taken: list[int] = []
        while extent != 1:
            matching = (
                a
                for a in free
                if index_of_axes.coeffs[a] == stride and extent % self.extents[a] == 0
            )
            axis = next(matching, None)
            if axis is None:
                raise NotAttention
            free.remove(axis)
            taken.insert(0, axis)
            stride, extent = stride * self.extents[axis], extent // self.extents[axis]
        return tuple(taken)

    def over(self, index: Affine, loops: Loops) -> Affine:
        """Map an index over a statement's loops to the axes."""
        coeffs = [0] * self.rank
        for loop, axes in loops.items():
            stride = index.coeffs[loop]
            for axis in reversed(axes):
                coeffs[axis] += stride
                stride *= self.extents[axis]
        return Affine(index.const, tuple(coeffs))

    # --- elements

    def intern(
        self, op: str, dtype: str, operands: tuple[Node, ...], payload: object = None
    ) -> Node:
        """Return the unique node with these fields (hash consing)."""
        shown = (id(payload.value), payload.index) if isinstance(payload, Operand) else payload
        key = (op, dtype, *map(id, operands), repr(shown))
        if key not in self.nodes:
            simplified = operation(op, dtype, operands, payload)
            self.nodes[key] = (
                simplified
                if simplified.op == op
                else self.intern(
                    simplified.op, simplified.dtype, simplified.operands, simplified.payload
                )
            )
        return self.nodes[key]

    def element(self, value: Value, index_of_axes: Affine) -> Node:
        """Return the element of a value at ``index_of_axes``, as an expression."""
        producer = value.producer
        if not isinstance(producer, Statement) or producer not in self.inside:
            return self.intern("in", value.dtype, (), Operand(value, index_of_axes))
        if producer.gathers or producer.op in _OPAQUE:
            raise NotAttention
        result = next(r for r in producer.results if r.value is value)
        known = self._reduced_axes(producer, index_of_axes)
        loops = self.loops(producer.loops, result.index, index_of_axes, known)
        if producer in self.sums:
            return self._product(producer, loops)
        element = self._composed(result.yields, loops)
        return self._reduction(result, element) if producer.is_reduction else element

    def _composed(self, yields: Node, loops: Loops) -> Node:
        """Return what a statement yields, in terms of the elements that it reads."""
        made: dict[int, Node] = {}
        for node in walk([yields]):
            made[id(node)] = self._node(node, tuple(made[id(x)] for x in node.operands), loops)
        return made[id(yields)]

    def _reduction(self, result: FunctionResult, element: Node) -> Node:
        """Return the node of a reduction of ``element``, which must start at its identity."""
        init, start = result.init, _STARTS.get(str(result.combine))
        is_constant = isinstance(init, Node) and init.op == "constant"
        if start is None or not is_constant or not isinstance(init, Node) or init.payload != start:
            raise NotAttention
        return self.intern(str(result.combine), element.dtype, (element,))

    def _reduced_axes(self, producer: Statement, index_of_axes: Affine) -> Loops:
        """Return the axis that each reduced loop of a product or of a row's reduction is."""
        if producer in self.sums:
            return {_reduced_loop(producer): (self.rank + self.sums[producer],)}
        if not producer.is_reduction:
            return {}
        known: Loops = {
            k: (self.n,)
            for k, n in enumerate(producer.loops)
            if producer.reduced[k] and n == self.extents[self.n]
        }
        if len(known) != 1 or index_of_axes.coeffs[self.n]:
            raise NotAttention
        return known

    def _node(self, node: Node, operands: tuple[Node, ...], loops: Loops) -> Node:
        if node.op == "in":
            return self.element(node.payload.value, self.over(node.payload.index, loops))
        if node.op == "index":
            return self.intern("index", node.dtype, (), self.over(node.payload, loops))
        if node.op in ("carry", "gather"):
            raise NotAttention
        return self.intern(node.op, node.dtype, operands, node.payload)

    def _product(self, producer: Statement, loops: Loops) -> Node:
        """Return the placeholder of a product's element.

        Also record its operands: the one that depends on m, then the one that depends on n.
        """
        contraction = match(producer)
        if contraction is None or not contraction.starts_at_zero:
            raise NotAttention
        if producer not in self.products:
            a, b = (
                self.element(x.value, self.over(x.index, loops))
                for x in (contraction.a, contraction.b)
            )
            self.product_operands[producer] = (b, a) if self._depends_on(a, self.n) else (a, b)
            self.products[producer] = self.intern(
                "product", contraction.accumulator, (), self.sums[producer]
            )
        return self.products[producer]

    # --- softmax

    def find_softmax(self, weight: Node) -> Node:
        """Return the softmax (exponential divided by its sum) that ``weight`` contains."""
        return only(filter(_is_softmax, walk([weight])))

    def without_division(
        self, node: Node, row: Node, empty: Node, score: Node, given: list[Node]
    ) -> Node:
        """Return ``node``, which is linear in the softmax ``row``, without the division by the sum.

        Args:
            node: The expression.
            row: The softmax: exponential divided by sum.
            empty: Placeholder of the condition that all scores of a row are -inf.
            score: The softmax's input.
            given: Receives the weight that the program defines for such a row.

        Raises:
            NotAttention: The expression is not linear.
        """
        if node is row:
            return row.operands[0]
        at, operands = self._divided_operand(node, row, empty, score, given)
        operands[at] = self.without_division(operands[at], row, empty, score, given)
        return self.intern(node.op, node.dtype, tuple(operands))

    def _divided_operand(
        self, node: Node, row: Node, empty: Node, score: Node, given: list[Node]
    ) -> tuple[int, list[Node]]:
        """Return the number of the operand that contains ``row``, and the new operands.

        Raises:
            NotAttention: The node is not linear in that operand.
        """
        operands = list(node.operands)
        if node.op in ("arith.truncf", "arith.extf"):
            return 0, operands
        if node.op == "arith.select":
            return self._selected_operand(operands, empty, score, given)
        side = only(k for k in LINEAR.get(node.op, ()) if row in walk([operands[k]]))
        if not self.is_score_free(operands[1 - side]):
            raise NotAttention
        return side, operands

    def _selected_operand(
        self, operands: list[Node], empty: Node, score: Node, given: list[Node]
    ) -> tuple[int, list[Node]]:
        """Return the same for a selection between the weights and others."""
        condition, yes, no = operands
        if _is_fully_masked(condition, score) and self.is_score_free(yes) and not given:
            given.append(yes)
            return 2, [empty, yes, no]
        zeros = [k for k in (1, 2) if _is_zero(operands[k])]
        if not zeros or not self.is_score_free(condition):
            raise NotAttention
        return 3 - zeros[0], operands

    def is_score_free(self, node: Node) -> bool:
        """Whether a node does not depend on scores."""
        return all(n.op not in ("product", *REDUCTIONS) for n in walk([node]))

    def _depends_on(self, node: Node, axis: int) -> bool:
        return any(n.payload.index.coeffs[axis] for n in walk([node]) if n.op == "in")

    def check_free(self, node: Node, axis: int) -> None:
        """Check that an operand is elementwise, constant along ``axis``, and loads something.

        Raises:
            NotAttention: It is not.
        """
        nodes = walk([node])
        steps = [
            n.payload.index if n.op == "in" else n.payload for n in nodes if n.op in ("in", "index")
        ]
        if (
            not self.is_score_free(node)
            or any(x.coeffs[axis] for x in steps)
            or not any(n.op == "in" for n in nodes)
        ):
            raise NotAttention


def _reduced_loop(product: Statement) -> int:
    """Return the loop that a product sums over."""
    return only(k for k, n in enumerate(product.loops) if n != 1 and product.reduced[k])


def _is_row_maximum(statement: Statement) -> bool:
    """Whether a statement is a maximum of one tensor."""
    is_maximum = statement.is_reduction and statement.results[0].combine == "max"
    return is_maximum and len(statement.operands) == 1


def _is_softmax(node: Node) -> bool:
    """Whether a node is ``exp(x - max(x)) / sum(exp(x - max(x)))``."""
    if (
        node.op != "arith.divf"
        or node.operands[1].op != "sum"
        or node.operands[1].operands[0] is not node.operands[0]
    ):
        return False
    top = node.operands[0]
    if top.op != "math.exp" or top.operands[0].op != "arith.subf":
        return False
    x, largest = top.operands[0].operands
    return largest.op == "max" and largest.operands[0] is x


def _is_fully_masked(node: Node, score: Node) -> bool:
    """Whether a node is the condition that all scores of a row, or their maximum, are -inf."""
    test = node.operands[0] if node.op == "and" else node
    if test.op != "arith.cmpf" or test.payload != OEQ:
        return False
    x, number = test.operands
    if node is test:
        if x.op != "max":
            return False
        (x,) = x.operands
    same = x is score or (score.op == "arith.extf" and score.operands[0] is x)
    return same and number.op == "constant" and number.payload == -inf


def _is_zero(node: Node) -> bool:
    return node.op == "constant" and node.payload == 0


def _volume(extents: Sequence[int]) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total


def substitute(node: Node, made: dict[int, Node]) -> Node:
    """Replace nodes below ``node``.

    Args:
        node: The root.
        made: Replacements by the id of the replaced node. New nodes are added.
    """
    if id(node) not in made:
        operands = tuple(substitute(x, made) for x in node.operands)
        changed = any(x is not y for x, y in zip(operands, node.operands, strict=True))
        made[id(node)] = Node(node.op, node.dtype, operands, node.payload) if changed else node
    return made[id(node)]


def is_fully_masked(largest: Node) -> Node:
    """Return the condition that all scores of a row are -inf, so that their maximum is."""
    return Node("arith.cmpf", "i1", (largest, constant(-inf, largest.dtype)), OEQ)
