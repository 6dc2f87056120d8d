"""Rule ``fuse-conv-prologue``: apply batch norm and ReLU in the convolutions that read them.

Example: ``y = conv(x)``, ``z = relu(a * y + b)``, where ``a`` and ``b`` come from the statistics of
the channels of ``y``. The next convolution reads ``z``; in the backward pass the gradient of its
weights reads ``z``, and the gradient of ReLU reads ``z > 0``. ``y`` stays in DDR for the backward
pass anyway, so all of these compute ``z`` from ``y`` as they load it, and no kernel stores ``z``.
The kernel of the first convolution computes the statistics (``fuse-gemm-reduction``), so that no
kernel reads ``y`` for them.

Both changes pay only together, so the pass compares the cost of all kernels before and after.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import prod

from ftm_backend.ir.linalg.function import Node, Statement, Value, walk
from ftm_backend.midend.analysis.feature_map_consumers import (
    FeatureMapConsumer,
    FeatureMapProducer,
    Inside,
    can_recompute,
    recompute_feature_map,
)
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.lowering.gemm.prologue import composed_element
from ftm_backend.midend.lowering.gemm.reduction_epilogue import PartialSums
from ftm_backend.midend.schedule.cost import bytes_of, traffic_cycles
from ftm_backend.midend.schedule.loop_nest.capacity_check import common_domain
from ftm_backend.midend.transforms.fusion.fuse_gemm_reduction import (
    FusedSum,
    is_anchor,
    move_sums,
    summed,
    sums_of,
)
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup, place_on_cores
from ftm_backend.midend.transforms.fusion.fusion_rule import Candidate, Cycles, FusionContext
from ftm_backend.midend.transforms.tensor.producer_inlining import is_elementwise

__all__ = ["candidates", "is_anchor"]


@dataclass(frozen=True, eq=False)
class _FeatureMap:
    """A tensor that its consumers may compute themselves.

    Attributes:
        product: The kernel whose result it is computed from.
        user: The kernel that computes it.
        makers: The statements of ``user`` that compute it, in order.
        element: One element of it, over its dimensions.
        others: Groups of statements of ``user`` that share no value with the rest, which are the
            makers and the statements that ``sums`` belong to.
        sums: The statements that compute statistics of the product's result.
    """

    product: Kernel
    user: Kernel
    makers: list[Statement]
    element: Node
    others: list[list[Statement]]
    sums: list[FusedSum]

    @property
    def made(self) -> Value:
        """The result of the product that it is computed from."""
        return self.product.outputs[0]

    @property
    def value(self) -> Value:
        """The feature map itself."""
        return self.makers[-1].results[0].value


def candidates(context: FusionContext, product: Kernel) -> Iterator[Candidate]:
    """Yield fusions of each kernel that computes a feature map from the matmul's result."""
    for user in context.users(product, KernelKind.LOOP_NEST):
        feature_map = _match(context, product, user)
        fusion = None if feature_map is None else _plan(context, feature_map)
        if fusion is not None:
            yield Candidate(
                (product, user, *(consumer.kernel for consumer in fusion.consumers)),
                partial(_cycles, context, fusion),
                partial(_apply, context, fusion),
            )


# --- matching


def _match(context: FusionContext, product: Kernel, user: Kernel) -> _FeatureMap | None:
    """Return the feature map that ``user`` computes from the result of ``product``.

    None if there is none, or if something other than kernels reads it.
    """
    (made,) = product.outputs
    last = _stored_elementwise(user, made.shape)
    if last is None or not context.uses.escapes.isdisjoint(last.writes()):
        return None
    makers = _makers(last, user, made.shape)
    element = composed_element(makers, made.shape)
    kept = [s for s in user.statements if s not in makers]
    sums = sums_of(made, kept)
    if element is None or not sums or _wide_inputs(element, made) != {made}:
        return None
    inner = {s.results[0].value for s in makers}
    if any(not inner.isdisjoint(s.reads()) for s in kept):
        return None
    others = _together(kept)
    about = next(each for each in others if sums[0].statement in each)
    others.remove(about)
    are_together = all(each.statement in about for each in sums)
    if not are_together or any(common_domain(each) is None for each in others):
        return None
    return _FeatureMap(product, user, makers, element, others, sums)


def _stored_elementwise(user: Kernel, shape: tuple[int, ...]) -> Statement | None:
    """Return the one elementwise statement over ``shape`` whose result a kernel stores."""
    if user.one_core or any(tie is not None for tie in user.ties):
        return None
    found = [
        s
        for s in user.statements
        if is_elementwise(s, shape) and s.results[0].value in user.outputs
    ]
    return found[0] if len(found) == 1 else None


def _wide_inputs(element: Node, like: Value) -> set[Value]:
    """Return the tensors of the size of ``like`` that an element is computed from."""
    read = {node.payload.value for node in walk([element]) if node.op == "in"}
    return {value for value in read if prod(value.shape) == prod(like.shape)}


def _together(statements: list[Statement]) -> list[list[Statement]]:
    """Split statements into groups that share no value; each keeps the order."""
    found: list[tuple[set[Value], list[Statement]]] = []
    for statement in statements:
        values, members = {*statement.reads(), *statement.writes()}, [statement]
        for other in [each for each in found if not values.isdisjoint(each[0])]:
            found.remove(other)
            values |= other[0]
            members = other[1] + members
        found.append((values, members))
    return [[s for s in statements if s in members] for _, members in found]


def _makers(last: Statement, user: Kernel, shape: tuple[int, ...]) -> list[Statement]:
    """Return ``last`` and the elementwise statements of its kernel that only it depends on."""
    found = {last}
    for statement in reversed(user.statements):
        readers = [s for s in user.statements if statement.results[0].value in s.reads()]
        if (
            readers
            and found.issuperset(readers)
            and is_elementwise(statement, shape)
            and statement.results[0].value not in user.outputs
        ):
            found.add(statement)
    return [s for s in user.statements if s in found]


# --- rewriting


@dataclass(frozen=True, eq=False)
class _Fusion:
    """A feature map, the consumers that recompute it, and the sums of their product's result.

    Attributes:
        feature_map: The feature map.
        producer: Its statements, with and without a border.
        consumers: The kernels that recompute it.
        parts: The partial sums that the product computes.
        extra_cycles: Modelled cycles that consumers and product take longer.
        inside: Tensors of ones that the module has.
    """

    feature_map: _FeatureMap
    producer: FeatureMapProducer
    consumers: list[FeatureMapConsumer]
    parts: PartialSums
    extra_cycles: float
    inside: Inside


def _plan(context: FusionContext, feature_map: _FeatureMap) -> _Fusion | None:
    """Return how all consumers of a feature map recompute it; None if one cannot."""
    inside = context.ones
    producer = FeatureMapProducer(
        feature_map.value, feature_map.element, feature_map.made, dict(inside)
    )
    kernels = context.uses.readers(feature_map.value)
    if not all(can_recompute(k) and _may_wait(context, feature_map, k) for k in kernels):
        return None
    sums = summed(feature_map.product, feature_map.sums, context.machine)
    if sums is None:
        return None
    parts, extra_cycles = sums
    consumers: list[FeatureMapConsumer] = []
    for kernel in kernels:
        is_tuned = context.machine.choice("fuse-conv-prologue") == "fuse"
        if extra_cycles >= _spared(context, feature_map) and not is_tuned:
            return None  # the other consumers need no plan
        consumer = recompute_feature_map(kernel, producer, context.machine)
        if consumer is None:
            return None
        consumers.append(consumer)
        extra_cycles += consumer.extra_cycles
    return _Fusion(feature_map, producer, consumers, parts, extra_cycles, inside)


def _cycles(context: FusionContext, fusion: _Fusion) -> Cycles:
    """Return the cycles of the feature map's own kernel, and the extra cycles without it."""
    return Cycles(_spared(context, fusion.feature_map), fusion.extra_cycles)


def _spared(context: FusionContext, feature_map: _FeatureMap) -> float:
    """Return the cycles to load the product's result and store the feature map."""
    return traffic_cycles(context.machine, bytes_of((feature_map.made, feature_map.value)))


def _apply(context: FusionContext, fusion: _Fusion) -> bool:
    feature_map, producer, inside = fusion.feature_map, fusion.producer, fusion.inside
    at = context.module.kernels.index(feature_map.user)
    if not move_sums(
        context,
        feature_map.product,
        feature_map.user,
        feature_map.sums,
        fusion.parts,
        [*feature_map.makers, *chain(*feature_map.others)],
    ):
        return False
    _replace(context, fusion)
    _add(context, feature_map.others, at)
    ones = [[made] for key, (_, made) in producer.inside.items() if key not in inside]
    _add(context, ones, 0)
    inside.update(producer.inside)
    return True


def _may_wait(context: FusionContext, feature_map: _FeatureMap, reader: Kernel) -> bool:
    """Return whether the inputs of the feature map are intact when ``reader`` runs."""
    read = [node.payload.value for node in walk([feature_map.element]) if node.op == "in"]
    return context.uses.are_intact(read, feature_map.user, reader)


def _replace(context: FusionContext, fusion: _Fusion) -> None:
    """Replace the statements of the consumers by those that compute the feature map."""
    body, feature_map, producer = context.module.function.body, fusion.feature_map, fusion.producer
    at = body.index(feature_map.makers[-1])
    body[at : at + 1] = producer.statements
    body[:] = [
        *(made for _, made in producer.inside.values() if made not in body),
        *(s for s in body if s not in feature_map.makers),
    ]
    for consumer in fusion.consumers:
        for old, new in consumer.replacements.items():
            body[body.index(old)] = new
            for value in new.writes():
                value.producer = new
    context.body_changed()
    context.rebuild({c.kernel: FusionGroup(c.kind, c.statements) for c in fusion.consumers})


def _add(context: FusionContext, nests: list[list[Statement]], at: int) -> None:
    """Insert a kernel for each group of statements before kernel number ``at``."""
    kernels = context.module.kernels
    for statements in nests:
        group = FusionGroup(KernelKind.LOOP_NEST, statements)
        place_on_cores(group, context.machine)
        context.builder.hold([statements, *(k.statements for k in kernels)])
        made = context.builder.kernel(group)
        made.name = f"remainder_{len(kernels)}"
        kernels.insert(at, made)
    context.kernels_changed()
