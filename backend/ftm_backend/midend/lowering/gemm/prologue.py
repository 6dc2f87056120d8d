"""Prologue of a contraction: computes an operand on chip, block by block, as its inputs arrive.

Example: ``relu(scale * x + shift)`` as the operand B of a matmul.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.body_builder import operands_of, substitute
from ftm_backend.ir.linalg.function import Node, Operand, Statement, Value, walk
from ftm_backend.midend.schedule.gemm.contraction import Contraction
from ftm_backend.midend.transforms.tensor.producer_inlining import (
    coordinates,
    is_elementwise,
    is_whole,
    substitute_indices,
)

__all__ = ["OperandPrologue", "composed_element", "match_prologue"]


@dataclass(frozen=True, eq=False)
class OperandPrologue:
    """The prologue of an operand.

    Attributes:
        operand: One of the contraction's two operands.
        element: Its element as an expression.
        operands: The tensors that the expression loads, over the contraction's loops.
    """

    operand: Operand
    element: Node
    operands: tuple[Operand, ...]
    reduced: tuple[bool, ...]
    """For each loop, whether the contraction sums over it."""

    @property
    def elementwise(self) -> list[Operand]:
        """The tensors with one element for each element of the operand."""
        return [operand for operand in self.operands if operand.index == self.operand.index]

    @property
    def supports_blocks(self) -> bool:
        """Whether blocks of the operand can be computed.

        No tensor may have a border. Tensors other than ``elementwise`` may depend only on reduced
        loops, or only on the others.
        """
        for operand in self.operands:
            along = {
                reduced for c, reduced in zip(operand.index.coeffs, self.reduced, strict=True) if c
            }
            if operand.value.border is not None or (
                len(along) > 1 and operand.index != self.operand.index
            ):
                return False
        return True


def match_prologue(producers: Sequence[Statement], product: Contraction) -> OperandPrologue | None:
    """Match statements that compute an operand of a product.

    None if they are not elementwise, or if the product reads the result twice.
    """
    value = producers[-1].results[0].value
    read = [operand for operand in (product.a, product.b) if operand.value is value]
    composed = composed_element(producers, value.shape)
    if len(read) != 1 or composed is None:
        return None
    loops = product.statement.loops
    coordinates_of_operand = coordinates(loops, read[0].index, value.shape)
    if coordinates_of_operand is None:
        return None
    operands: dict[tuple[Value, Affine], Operand] = {}
    element = substitute_indices(composed, coordinates_of_operand, len(loops), operands)
    found = OperandPrologue(read[0], element, tuple(operands.values()), product.statement.reduced)
    return (
        found
        if found.elementwise and all(operand.value.splat is None for operand in found.operands)
        else None
    )


def composed_element(producers: Sequence[Statement], shape: tuple[int, ...]) -> Node | None:
    """Return the element that the last statement computes, from values of other statements.

    None if the statements are not elementwise over ``shape``.
    """
    elements: dict[Value, Node] = {}
    for maker in producers:
        if not is_elementwise(maker, shape):
            return None
        body = maker.results[0].yields
        if any(node.op in ("index", "gather", "carry") for node in walk([body])):
            return None
        read = [o for o in operands_of([body]) if o.value in elements]
        if not all(is_whole(operand.index, shape) for operand in read):
            return None
        elements[maker.results[0].value] = substitute(
            [body], lambda n: elements.get(n.payload.value) if n.op == "in" else None
        )[body]
    return elements[producers[-1].results[0].value]
