"""Pass ``fuse-conv-prologue``: an image that products alone multiply is computed by them, of what
its statistics were taken of.

A convolution's result is normalized by the statistics of its channels, and an activation follows.
That image is multiplied by the next convolution and, in the backward pass, by the gradient of its
weights; the activation's gradient asks where it is positive. All of them can compute it of the
convolution's result, which is in memory anyway, and of the channels' parameters. The statistics are
then summed by the kernel of the convolution (``fuse-gemm-reduction``), so that no kernel reads the
result for them, and none writes the image.

The two decisions are one: what all kernels take that way, as they are planned, is held against what
they take now.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ftm_backend.ir.linalg.function import Node, Statement, Value, walk
from ftm_backend.midend.analysis.feature_map_consumers import (
    FeatureMapConsumer,
    FeatureMapProducer,
    Inside,
    can_recompute,
    recompute_feature_map,
)
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.lowering.gemm.prologue import composed_element
from ftm_backend.midend.schedule.loop_nest.capacity_check import common_domain
from ftm_backend.midend.transforms.fusion.fuse_gemm_reduction import (
    FusedSum,
    can_be_summed,
    move_sums,
    summed,
    sums_of,
)
from ftm_backend.midend.transforms.fusion.fuse_ops import (
    KernelFormer,
    form_anew,
    homes,
    overwritten,
)
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup, place_on_cores
from ftm_backend.midend.transforms.tensor.producer_inlining import is_elementwise
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["fuse_conv_prologue"]


@dataclass(frozen=True, eq=False)
class _FeatureMap:
    """What ``makers`` in the kernel ``user`` make of the result of ``product``: of ``element`` it
    is said over the image's dimensions.

    kept: the statements of the user that are about the ``sums``; others: those that have only been
        beside the image.
    """

    product: Kernel
    user: Kernel
    makers: list[Statement]
    element: Node
    kept: list[Statement]
    others: list[list[Statement]]
    sums: list[FusedSum]

    @property
    def made(self) -> Value:
        """What it is computed of."""
        return self.product.outputs[0]

    @property
    def value(self) -> Value:
        """The image itself."""
        return self.makers[-1].results[0].value


def fuse_conv_prologue(grouped: KernelModule, machine: MachineParameters) -> KernelModule:
    """Lets products of the program itself compute such images; those in repeats stay as they
    are."""
    inside: Inside = {}
    for product in list(filter(can_be_summed, grouped.kernels)):
        if product not in grouped.kernels:
            continue  # it computes an earlier image now
        for user in [
            k
            for k in grouped.kernels
            if product.outputs[0] in k.inputs and k.kind == "nest" and k.repeat is None
        ]:
            image = _image(grouped, product, user)
            if image is not None and _compute(grouped, image, inside, machine):
                break
    return grouped


# --- what it is
# ---------------------------------------------------------------------------------------------


def _image(grouped: KernelModule, product: Kernel, user: Kernel) -> _FeatureMap | None:
    """The image that a kernel makes of a product's result that it sums; None if there is none, or
    it is more than multiplied."""
    (made,) = product.outputs
    last = [
        s
        for s in user.statements
        if is_elementwise(s, made.shape) and s.results[0].value in user.outputs
    ]
    needed = {tensor.value for tensor in grouped.function.results}
    needed.update(
        value
        for item in grouped.function.body
        if not isinstance(item, Statement)
        for value in item.reads()
    )
    if (
        len(last) != 1
        or user.one_core
        or any(tie is not None for tie in user.ties)
        or last[0].results[0].value in needed
    ):
        return None
    makers = _makers(last[0], user, made.shape)
    element = composed_element(makers, made.shape)
    kept = [s for s in user.statements if s not in makers]
    inner = {s.results[0].value for s in makers}
    sums = sums_of(made, kept)
    if element is None or not sums or any(not inner.isdisjoint(s.reads()) for s in kept):
        return None
    wide = {
        n.payload.value
        for n in walk([element])
        if n.op == "in" and prod(n.payload.value.shape) == prod(made.shape)
    }
    others = _together(kept)
    about = next(each for each in others if sums[0].statement in each)
    others.remove(about)
    if (
        wide != {made}
        or any(each.statement not in about for each in sums)
        or any(common_domain(each) is None for each in others)
    ):
        return None
    return _FeatureMap(product, user, makers, element, about, others, sums)


def _together(statements: list[Statement]) -> list[list[Statement]]:
    """The statements, in order, apart where they have no value in common."""
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
    """The statement with those of its kernel that it is computed by element by element, in
    order."""
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


# --- computing it
# -------------------------------------------------------------------------------------------


def _compute(
    grouped: KernelModule, image: _FeatureMap, inside: Inside, machine: MachineParameters
) -> bool:
    """Lets the readers of an image compute it, if all of them can, and together take less time for
    that; whether they do."""
    makers = FeatureMapProducer(image.value, image.element, image.made, dict(inside))
    kernels = [kernel for kernel in grouped.kernels if image.value in kernel.inputs]
    if not all(can_recompute(kernel) and _may_wait(grouped, image, kernel) for kernel in kernels):
        return False
    readers: list[FeatureMapConsumer] = []
    for kernel in kernels:
        reader = recompute_feature_map(kernel, makers, machine)
        if reader is None or not _pays(
            image, sum(each.extra_cycles for each in (*readers, reader)), machine
        ):
            return False
        readers.append(reader)
    sums, at = summed(image.product, image.sums, machine), grouped.kernels.index(image.user)
    if sums is None or not _pays(
        image, sums[1] + sum(reader.extra_cycles for reader in readers), machine
    ):
        return False
    if not move_sums(grouped, image.product, image.user, image.kept, image.sums, sums[0], machine):
        return False
    _replace(grouped, image, readers, makers, machine)
    _add(grouped, image.others, at, machine)
    _add(
        grouped,
        [[made] for key, (_, made) in makers.inside.items() if key not in inside],
        0,
        machine,
    )
    inside.update(makers.inside)
    return True


def _may_wait(grouped: KernelModule, image: _FeatureMap, reader: Kernel) -> bool:
    """Whether nothing that the image is computed of is written over before the reader runs."""
    kernels = grouped.kernels
    between = kernels[kernels.index(image.user) : kernels.index(reader) + 1]
    return overwritten(between).isdisjoint(
        homes(node.payload.value for node in walk([image.element]) if node.op == "in")
    )


def _pays(image: _FeatureMap, longer: float, machine: MachineParameters) -> bool:
    """Whether that takes less time than reading what the image is computed of, and writing it, in a
    kernel of their own."""
    moved = sum(
        ELEMENT_BYTES[value.dtype] * prod(value.shape) for value in (image.made, image.value)
    )
    return longer < moved / (cost_rules.bytes_per_cycle(machine, machine.cores) * machine.cores)


def _replace(
    grouped: KernelModule,
    image: _FeatureMap,
    readers: list[FeatureMapConsumer],
    makers: FeatureMapProducer,
    machine: MachineParameters,
) -> None:
    """Puts the readers' statements in place of what they were."""
    body = grouped.function.body
    at = body.index(image.makers[-1])
    body[at : at + 1] = makers.statements
    body[:] = [
        *(made for _, made in makers.inside.values() if made not in body),
        *(s for s in body if s not in image.makers),
    ]
    clusters = {reader.kernel: FusionGroup(reader.kind, reader.statements) for reader in readers}
    for reader in readers:
        for old, new in reader.replacements.items():
            body[body.index(old)] = new
            for value in new.writes():
                value.producer = new
    form_anew(grouped, clusters, machine)


def _add(
    grouped: KernelModule, nests: list[list[Statement]], at: int, machine: MachineParameters
) -> None:
    """Kernels of some statements, before that number ``at``."""
    for statements in nests:
        cluster = FusionGroup("nest", statements)
        place_on_cores(cluster, machine)
        former = KernelFormer(grouped.function, machine)
        former.hold([statements, *(k.statements for k in grouped.kernels)])
        made = former.kernel(cluster)
        made.name = f"beside_{len(grouped.kernels)}"
        grouped.kernels.insert(at, made)
