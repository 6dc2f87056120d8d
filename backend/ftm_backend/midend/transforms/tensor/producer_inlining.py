"""Inline the computation of a tensor into the statements that read it.

An element of the tensor is a body over the tensor's dimensions; accesses of the reader replace
them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ftm_backend.ir.linalg.affine import Affine, row_major
from ftm_backend.ir.linalg.body_builder import constant, substitute
from ftm_backend.ir.linalg.body_printer import CMPF, CMPI
from ftm_backend.ir.linalg.function import (
    Border,
    Node,
    Operand,
    Statement,
    Tensor,
    Value,
    copy_statement,
    united_origins,
)

__all__ = [
    "Cuts",
    "ReadPosition",
    "coordinates",
    "cuts_of",
    "element_around",
    "inline_element",
    "is_elementwise",
    "is_whole",
    "ones",
    "substitute_indices",
]

Cuts = tuple[tuple[int, ...], ...]
"""The extents that each loop is split into, outer first."""

Operands = dict[tuple[Value, Affine], Operand]
"""The operands of a statement, by value and access."""


@dataclass(frozen=True, eq=False)
class ReadPosition:
    """A tensor inside of a padded one.

    Attributes:
        shape: Extents of the padded tensor.
        low: Elements before the tensor in each dimension.
        sizes: Extents of the tensor.
        fill: The number around it; None without padding.
    """

    shape: tuple[int, ...]
    low: tuple[int, ...]
    sizes: tuple[int, ...]
    fill: Node | None

    @property
    def padded(self) -> list[int]:
        """The dimensions that are padded."""
        return [
            k for k, (whole, n) in enumerate(zip(self.shape, self.sizes, strict=True)) if whole != n
        ]


def cuts_of(statement: Statement, value: Value, shape: Sequence[int]) -> Cuts | None:
    """Return how to split loops so that each walks along one dimension of ``value``.

    Args:
        statement: Reads ``value``.
        value: The tensor.
        shape: Its extents, which may merge or split those of ``value``.

    Returns:
        The pieces of each loop; None if no split does that.
    """
    cuts: list[tuple[int, ...]] = [(n,) for n in statement.loops]
    strides = row_major(shape)
    for operand in statement.operands:
        if operand.value is not value:
            continue
        for k, step in enumerate(operand.index.coeffs):
            dim = next(
                (d for d, stride in enumerate(strides) if stride == step and shape[d] > 1), 0
            )
            pieces: list[int] = []
            left = statement.loops[k]
            while step and dim and left > shape[dim] and left % shape[dim] == 0:
                pieces.insert(0, shape[dim])
                left //= shape[dim]
                dim -= 1
            wanted = (left, *pieces)
            if cuts[k] not in (wanted, (statement.loops[k],)):
                return None
            cuts[k] = wanted
    found = tuple(cuts)
    loops = [n for pieces in cuts for n in pieces]
    if any(
        coordinates(loops, _over(o.index, found), shape) is None
        for o in statement.operands
        if o.value is value
    ):
        return None
    return found if all(_indexed(result.indices, found) for result in statement.results) else None


def inline_element(
    statement: Statement, value: Value, element: Node, shape: Sequence[int], cuts: Cuts
) -> None:
    """Rewrite a statement so that it computes ``element`` instead of reading ``value``, in place.

    Args:
        statement: Reads ``value``.
        value: The tensor.
        element: The body of one element over the dimensions of ``shape``.
        shape: The extents of the tensor.
        cuts: The result of `cuts_of`.
    """
    loops = tuple(n for pieces in cuts for n in pieces)
    operands: Operands = {}
    if isinstance(value.producer, Statement):
        statement.origins = united_origins(statement, value.producer)

    def computed(access: Affine) -> Node:
        places = coordinates(loops, access, shape)
        assert places is not None, "cuts_of has found them"
        return substitute_indices(element, places, len(loops), operands)

    there: dict[Affine, Node] = {}

    def inlined(node: Node) -> Node | None:
        if node.op == "index":
            return Node("index", node.dtype, payload=_over(node.payload, cuts))
        if node.op != "in":
            return None
        access = _over(node.payload.index, cuts)
        if node.payload.value is value:
            return there.setdefault(access, computed(access))
        return _read(node.payload.value, access, operands)

    done = substitute((result.yields for result in statement.results), inlined)
    for result in statement.results:
        result.yields, result.index = done[result.yields], _over(result.index, cuts)
        result.value.shape, result.indices = _cut_dimensions(
            result.value.shape, result.indices, cuts
        )
        if isinstance(result.init, Operand):
            result.init = Operand(result.init.value, _over(result.init.index, cuts))
    statement.reduced = tuple(
        flag for flag, pieces in zip(statement.reduced, cuts, strict=True) for _ in pieces
    )
    statement.loops, statement.operands = loops, list(operands.values())


def substitute_indices(
    element: Node, places: Sequence[Affine], rank: int, operands: Operands
) -> Node:
    """Return ``element`` with a function of loops for each of its dimensions.

    Args:
        element: A body over some dimensions.
        places: For each dimension its function of the loops.
        rank: Number of loops.
        operands: Gets the operands that the new body reads.
    """

    def read(node: Node) -> Node | None:
        if node.op != "in":
            return None
        index = Affine.constant(node.payload.index.const, rank)
        for place, factor in zip(places, node.payload.index.coeffs, strict=True):
            index = index + place.scaled(factor)
        return _read(node.payload.value, index, operands)

    return substitute([element], read)[element]


def ones(dtype: str, place: ReadPosition, rank: int) -> tuple[Operand, Statement]:
    """Return an operand that is 1 inside of a padded tensor and 0 in the padding.

    Args:
        dtype: Type of the operand.
        place: The tensor inside of the padded one.
        rank: Number of dimensions.

    Returns:
        The operand, and the statement that makes the ones.
    """
    first = place.padded[0]
    made = copy_statement(Tensor.whole(Value(dtype, place.sizes[first:], splat=constant(1, dtype))))
    shape = place.shape[first:]
    border = Border(made.results[0].value, place.sizes[first:], place.low[first:])
    return Operand(
        Value(dtype, shape, border=border), Affine(0, (*[0] * first, *row_major(shape)))
    ), made


def element_around(
    element: Node, wide: Collection[Value], place: ReadPosition, inside: Operand | None
) -> Node:
    """Return the body of an element of a padded tensor, over its dimensions.

    Args:
        element: The body of an element inside of the padding.
        wide: The tensors that ``element`` reads element by element.
        place: The tensor inside of the padded one.
        inside: The operand from `ones`; None without padding.
    """
    within = {
        v: v
        if inside is None
        else Value(v.dtype, place.shape, border=Border(v, place.sizes, place.low))
        for v in wide
    }
    whole = Affine(0, row_major(place.shape))

    def padded(node: Node) -> Node | None:
        is_wide = node.op == "in" and node.payload.value in within
        if not is_wide or not is_whole(node.payload.index, place.sizes):
            return None
        return Node("in", node.dtype, payload=Operand(within[node.payload.value], whole))

    made = substitute([element], padded)[element]
    if inside is None:
        return made
    kind = inside.value.dtype
    test = ("arith.cmpf", CMPF.index("oeq")) if "f" in kind else ("arith.cmpi", CMPI.index("eq"))
    is_around = Node(test[0], "i1", (Node("in", kind, payload=inside), constant(0, kind)), test[1])
    assert place.fill is not None
    return Node("arith.select", made.dtype, (is_around, place.fill, made))


def is_elementwise(statement: Statement, shape: tuple[int, ...]) -> bool:
    """Return whether a statement computes a tensor of ``shape`` element by element.

    It must have one loop for each dimension.
    """
    if (
        statement.op != "linalg.generic"
        or len(statement.results) != 1
        or statement.is_reduction
        or statement.gathers
    ):
        return False
    return statement.loops == shape and is_whole(statement.results[0].index, shape)


def is_whole(index: Affine, shape: tuple[int, ...]) -> bool:
    """Return whether an access is the row-major index, over one loop for each dimension.

    Loops with one iteration may have any coefficient. An access over another number of loops, as in
    a consumer of a flattened tensor, is not whole.
    """
    if index.const or len(index.coeffs) != len(shape):
        return False
    steps = zip(shape, index.coeffs, row_major(shape), strict=True)
    return all(n == 1 or c == step for n, c, step in steps)


def _read(value: Value, index: Affine, operands: Operands) -> Node:
    return Node(
        "in", value.dtype, payload=operands.setdefault((value, index), Operand(value, index))
    )


def _over(index: Affine, cuts: Cuts) -> Affine:
    """Return a function of loops as a function of their pieces."""
    coeffs: list[int] = []
    for step, pieces in zip(index.coeffs, cuts, strict=True):
        coeffs += [step * inner for inner in row_major(pieces)]
    return Affine(index.const, tuple(coeffs))


def _indexed(indices: Sequence[Affine], cuts: Cuts) -> bool:
    """Return whether each loop that is split is a dimension of the result by itself."""
    for k, pieces in enumerate(cuts):
        for index in indices if len(pieces) > 1 else ():
            if index.coeffs[k] and index != Affine.loop(k, len(cuts)):
                return False
    return True


def _cut_dimensions(
    shape: Sequence[int], indices: Sequence[Affine], cuts: Cuts
) -> tuple[tuple[int, ...], tuple[Affine, ...]]:
    """Return shape and indices of a result with one dimension for each piece of a loop."""
    first = [sum(map(len, cuts[:k])) for k in range(len(cuts))]
    rank = sum(map(len, cuts))
    sizes: list[int] = []
    places: list[Affine] = []
    for extent, index in zip(shape, indices, strict=True):
        loop = next(
            (k for k, pieces in enumerate(cuts) if len(pieces) > 1 and index.coeffs[k]), None
        )
        sizes += [extent] if loop is None else cuts[loop]
        places += (
            [_over(index, cuts)]
            if loop is None
            else [Affine.loop(first[loop] + k, rank) for k in range(len(cuts[loop]))]
        )
    return tuple(sizes), tuple(places)


def coordinates(loops: Sequence[int], access: Affine, shape: Sequence[int]) -> list[Affine] | None:
    """Return the position in each dimension that a row-major access reads.

    None if the loops leave a dimension.
    """
    rest, steps = access.const, list(access.coeffs)
    found = []
    for extent, stride in zip(shape, row_major(shape), strict=True):
        const, rest = divmod(rest, stride)
        coeffs = tuple(step // stride if step > 0 and step % stride == 0 else 0 for step in steps)
        steps = [step - taken * stride for step, taken in zip(steps, coeffs, strict=True)]
        if const + sum(taken * (n - 1) for taken, n in zip(coeffs, loops, strict=True)) >= extent:
            return None
        found.append(Affine(const, coeffs))
    return found if access.const >= 0 and rest == 0 and not any(steps) else None
