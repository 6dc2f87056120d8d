"""Kernels that read an image, as they are if they compute it themselves: as a factor of their product, or in what follows that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ftm_backend.linalg.affine import Affine, row_major
from ftm_backend.linalg.ir import Node, Operand, Result, Statement, Value, walk
from ftm_backend.linalg.nodes import constant
from ftm_backend.machine.presets import MachineParameters
from ftm_backend.midend.contractions import folds
from ftm_backend.midend.contractions.epilogue import can_fuse_epilogue
from ftm_backend.midend.contractions.panel_plan import PanelPlan
from ftm_backend.midend.contractions.schedule import computed_schedule, schedule
from ftm_backend.midend.kernel import Kernel
from ftm_backend.midend.read_inside import Place, cuts_of, element_around, ones, read_instead, rebuilt
from ftm_backend.midend.reloop import align_all

__all__ = ["Makers", "Reader", "reader_of"]


class Makers:
    """Statements that make an image of what it is computed of, with and without zeros around it; each is made once.

    element: of the image, over its dimensions; made: the tensor of its size that it is computed of.
    inside: for a place the tensor that tells it from what is around it, and the statement that makes that.
    """

    def __init__(self, image: Value, element: Node, made: Value, inside: dict[Place, tuple[Operand, Statement]]) -> None:
        self.image, self.element, self.made, self.inside = image, element, made, inside
        self.statements: dict[Place, Statement] = {}

    def of(self, read: Value) -> Statement | None:
        """What makes ``read``, the image or that with a border; None if the border is around another shape."""
        border, shape = read.border, self.image.shape
        place = Place(shape, (0,) * len(shape), shape, None)
        if border is not None:
            place = Place(read.shape, border.low, border.sizes, constant(0, read.dtype))
        if place.sizes != shape or len(place.shape) != len(shape) or not self._is_known(place):
            return None
        found = next((key for key in self.statements if _same(key, place)), None)
        return self._make(place) if found is None else self.statements[found]

    def _is_known(self, place: Place) -> bool:
        """Whether all else that the image is computed of is the same along what has a border."""
        reads = [node.payload for node in walk([self.element]) if node.op == "in" and node.payload.value is not self.made]
        return not any(operand.index.coeffs[k] for operand in reads for k in place.padded)

    def _make(self, place: Place) -> Statement:
        inside = None
        if place.fill is not None:
            known = next((key for key in self.inside if _same(key, place)), None)
            if known is None:
                known = place
                self.inside[place] = ones(self.image.dtype, place, len(place.shape))
            inside = self.inside[known][0]
        element = element_around(self.element, [self.made], place, inside)
        value, rank = Value(self.image.dtype, place.shape), len(place.shape)
        result = Result(value, Affine(0, row_major(place.shape)), tuple(Affine.loop(k, rank) for k in range(rank)), element)
        operands = list(dict.fromkeys(node.payload for node in walk([element]) if node.op == "in"))
        value.producer = self.statements[place] = Statement("linalg.generic", place.shape, (False,) * rank, operands, [result])
        return value.producer


def _same(one: Place, other: Place) -> bool:
    return (one.shape, one.low, one.sizes) == (other.shape, other.low, other.sizes)


@dataclass(frozen=True, eq=False)
class Reader:
    """A kernel that computes an image: its kind and statements, which of them stand in place of others, and cycles that it takes longer."""

    kernel: Kernel
    kind: str
    statements: list[Statement]
    instead: dict[Statement, Statement]
    longer: float


def reader_of(kernel: Kernel, makers: Makers, machine: MachineParameters) -> Reader | None:
    """The kernel, which reads an image, as one that computes it; None if it cannot."""
    first, *others = kernel.statements
    if kernel.repeat is not None or kernel.one_core or kernel.kind not in ("contraction", "fold"):
        return None
    instead: dict[Statement, Statement] = {}
    before: list[Statement] = []
    if makers.image in first.reads():
        found = _multiplied(first, makers) if kernel.kind == "contraction" else None
        if found is None:
            return None
        before, instead[first] = [found[0]], found[1]
    chain = [instead.get(first, first)]
    for statement in others:
        if makers.image in statement.reads():
            inlined = _inlined(statement, makers)
            if inlined is None or before:  # both is nothing that a network does
                return None
            instead[statement] = inlined
        chain.append(instead.get(statement, statement))
        if not _can_follow(kernel.kind)(chain[:-1], chain[-1], machine):
            return None
    apart, together = _cycles(kernel.kind, kernel.statements, [], machine), _cycles(kernel.kind, chain, before, machine)
    if apart is None or together is None:
        return None
    return Reader(kernel, "computed" if before else kernel.kind, [*before, *chain], instead, together - apart)


def _can_follow(kind: str) -> Callable[[Sequence[Statement], Statement, MachineParameters], bool]:
    return folds.can_follow if kind == "fold" else lambda chain, statement, machine: can_fuse_epilogue(chain, statement)


def _cycles(kind: str, statements: list[Statement], makers: list[Statement], machine: MachineParameters) -> float | None:
    """What a kernel takes, if it is made of panels."""
    if kind == "fold":
        plan = folds.planned(statements, machine)
        return None if plan is None else plan.cycles
    chosen = computed_schedule(align_all(statements), makers, machine) if makers else schedule(align_all(statements), machine)
    return chosen.plan.cycles if chosen is not None and isinstance(chosen.plan, PanelPlan) else None


def _multiplied(product: Statement, makers: Makers) -> tuple[Statement, Statement] | None:
    """What makes the image as a product reads it, and the product of that."""
    read = {operand.value for operand in product.operands if operand.value.in_memory is makers.image}
    maker = makers.of(next(iter(read))) if len(read) == 1 else None
    if maker is None:
        return None
    (made,) = maker.writes()
    operands = {o: Operand(made, o.index) if o.value in read else o for o in product.operands}
    (result,) = product.results
    done: dict[Node, Node] = {}
    for node in walk([result.yields]):
        done[node] = Node("in", node.dtype, payload=operands[node.payload]) if node.op == "in" else rebuilt(node, done)
    results = [replace(result, yields=done[result.yields], stores=list(result.stores))]
    return maker, Statement("linalg.generic", product.loops, product.reduced, list(operands.values()), results)


def _inlined(statement: Statement, makers: Makers) -> Statement | None:
    """A statement that computes the image's elements where it has read them."""
    results = [replace(result, stores=list(result.stores)) for result in statement.results]
    made = replace(statement, op="linalg.generic", results=results, tensors=(), attributes={})
    cuts = cuts_of(made, makers.image, makers.image.shape)
    if cuts is None or any(len(pieces) > 1 for pieces in cuts) or statement.is_reduction or statement.gathers:
        return None
    read_instead(made, makers.image, makers.element, makers.image.shape, cuts)
    return made
