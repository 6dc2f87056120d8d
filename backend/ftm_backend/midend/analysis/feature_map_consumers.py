"""Analysis: kernels that could recompute a feature map instead of loading it.

The feature map becomes a prologue of the kernel's product, or part of its epilogue. Example: a
convolution that reads ``relu(batch_norm(x))`` computes it from ``x`` while it loads its input.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from ftm_backend.ir.linalg.body_builder import constant, elementwise, operands_of, reading
from ftm_backend.ir.linalg.function import Node, Operand, Statement, Value
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.schedule.cost import estimate
from ftm_backend.midend.schedule.gemm.kernel_schedule import can_follow
from ftm_backend.midend.transforms.tensor.producer_inlining import (
    ReadPosition,
    cuts_of,
    element_around,
    inline_element,
    ones,
)
from ftm_backend.target.presets import MachineParameters

__all__ = [
    "FeatureMapConsumer",
    "FeatureMapProducer",
    "Inside",
    "can_recompute",
    "recompute_feature_map",
]


Inside = dict[tuple[object, ...], tuple[Operand, Statement]]
"""Tensors of ones with borders by type and sizes, and the statements that create the ones."""


class FeatureMapProducer:
    """Statements that compute a feature map, with and without a border of zeros.

    Args:
        image: The feature map.
        element: Its element, over its dimensions.
        made: The tensor of the same size that it is computed from.
        inside: Tensors of ones; new ones are added.
    """

    def __init__(self, image: Value, element: Node, made: Value, inside: Inside) -> None:
        """See the class."""
        self.image, self.element, self.made, self.inside = image, element, made, inside
        producer = image.producer
        self.origins = producer.origins if isinstance(producer, Statement) else ()
        self._made: dict[tuple[object, ...], Statement] = {}

    @property
    def statements(self) -> list[Statement]:
        """All statements created so far."""
        return list(self._made.values())

    def of(self, read: Value) -> Statement | None:
        """Return the statement that computes the feature map or its padded version ``read``.

        None if ``read`` has another shape, or if parameters vary along the border.
        """
        shape, border = self.image.shape, read.border
        place = ReadPosition(shape, (0,) * len(shape), shape, None)
        if border is not None:
            place = ReadPosition(read.shape, border.low, border.sizes, constant(0, read.dtype))
        others = [o for o in operands_of([self.element]) if o.value is not self.made]
        if place.sizes != shape or any(
            operand.index.coeffs[k] for operand in others for k in place.padded
        ):
            return None
        key = place.shape, place.low
        if key not in self._made:
            self._made[key] = self._make(place)
        return self._made[key]

    def _make(self, place: ReadPosition) -> Statement:
        rank, dtype = len(place.shape), self.image.dtype
        inside = None
        if place.fill is not None:
            first = place.padded[0]
            key = dtype, rank, place.shape[first:], place.low[first:], place.sizes[first:]
            if key not in self.inside:
                self.inside[key] = ones(dtype, place, rank)
            inside = self.inside[key][0]
        element = element_around(self.element, [self.made], place, inside)
        return elementwise(Value(dtype, place.shape), element, self.origins)


@dataclass(frozen=True, eq=False)
class FeatureMapConsumer:
    """A kernel that recomputes a feature map.

    Attributes:
        kernel: The kernel that loads it.
        kind: Kind of the new kernel.
        statements: Statements of the new kernel.
        replacements: Maps replaced statements to new ones.
        extra_cycles: Modelled extra cycles.
    """

    kernel: Kernel
    kind: KernelKind
    statements: list[Statement]
    replacements: dict[Statement, Statement]
    extra_cycles: float


def can_recompute(kernel: Kernel) -> bool:
    """Whether a kernel's kind allows it to recompute a feature map."""
    return (
        kernel.repeat is None
        and not kernel.one_core
        and kernel.kind in (KernelKind.CONTRACTION, KernelKind.COL2IM)
    )


def recompute_feature_map(
    kernel: Kernel, producers: FeatureMapProducer, machine: MachineParameters
) -> FeatureMapConsumer | None:
    """Return the kernel with the feature map recomputed; None if that is impossible.

    Args:
        kernel: A kernel that loads the feature map, and that ``can_recompute`` accepts.
        producers: The feature map.
        machine: The target.
    """
    first, *others = kernel.statements
    replacements: dict[Statement, Statement] = {}
    before: list[Statement] = []
    if producers.image in first.reads():
        found = _as_prologue(first, producers) if kernel.kind is KernelKind.CONTRACTION else None
        if found is None:
            return None
        before, replacements[first] = [found[0]], found[1]
    chain = [replacements.get(first, first)]
    for statement in others:
        if producers.image in statement.reads():
            inlined = _as_epilogue(statement, producers)
            if inlined is None or before:  # no network needs both
                return None
            replacements[statement] = inlined
        chain.append(replacements.get(statement, statement))
        if not can_follow(kernel.kind, chain[:-1], chain[-1], machine):
            return None
    kind = KernelKind.CONTRACTION_WITH_PROLOGUE if before else kernel.kind
    cycles_after = estimate(kind, [*before, *chain], machine)
    if cycles_after == inf:
        return None
    cycles_before = estimate(kernel.kind, kernel.statements, machine)
    return FeatureMapConsumer(
        kernel,
        kind,
        [*before, *chain],
        replacements,
        cycles_after - cycles_before,
    )


def _as_prologue(
    product: Statement, producers: FeatureMapProducer
) -> tuple[Statement, Statement] | None:
    """Return the statement that computes a product's operand, and the product that reads it."""
    read = {
        operand.value for operand in product.operands if operand.value.in_memory is producers.image
    }
    producer = producers.of(next(iter(read))) if len(read) == 1 else None
    if producer is None:
        return None
    (made,) = producer.writes()
    operands = {o: Operand(made, o.index) if o.value in read else o for o in product.operands}
    return producer, reading(product, operands.__getitem__)


def _as_epilogue(statement: Statement, producers: FeatureMapProducer) -> Statement | None:
    """Return the statement with the feature map's element substituted for its loads."""
    results = [replace(result, stores=list(result.stores)) for result in statement.results]
    made = replace(statement, op="linalg.generic", results=results, tensors=(), attributes={})
    cuts = cuts_of(made, producers.image, producers.image.shape)
    if (
        cuts is None
        or any(len(pieces) > 1 for pieces in cuts)
        or statement.is_reduction
        or statement.gathers
    ):
        return None
    inline_element(made, producers.image, producers.element, producers.image.shape, cuts)
    return made
