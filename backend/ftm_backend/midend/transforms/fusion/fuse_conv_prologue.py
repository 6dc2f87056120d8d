"""Pass ``fuse-conv-prologue``: apply batch norm and ReLU in the convolutions that read them.

Example: ``y = conv(x)``, ``z = relu(a * y + b)``, where ``a`` and ``b`` come from the statistics of
the channels of ``y``. The next convolution reads ``z``; in the backward pass the gradient of its
weights reads ``z``, and the gradient of ReLU reads ``z > 0``. ``y`` stays in DDR for the backward
pass anyway, so all of these compute ``z`` from ``y`` as they load it, and no kernel stores ``z``.
The kernel of the first convolution computes the statistics (``fuse-gemm-reduction``), so that no
kernel reads ``y`` for them.

Both changes pay only together, so the pass compares the cost of all kernels before and after.
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
    can_fuse_sums,
    move_sums,
    summed,
    sums_of,
)
from ftm_backend.midend.transforms.fusion.fuse_ops import (
    KernelBuilder,
    homes,
    overwritten,
    rebuild_kernels,
)
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup, place_on_cores
from ftm_backend.midend.transforms.tensor.producer_inlining import is_elementwise
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["fuse_conv_prologue"]


@dataclass(frozen=True, eq=False)
class _FeatureMap:
    """A tensor that its consumers may compute themselves.

    Attributes:
        product: The kernel whose result it is computed from.
        user: The kernel that computes it.
        makers: The statements of ``user`` that compute it, in order.
        element: One element of it, over its dimensions.
        kept: The statements of ``user`` that ``sums`` belong to.
        others: Groups of statements of ``user`` that share no value with the rest.
        sums: The statements that compute statistics of the product's result.
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
        """The result of the product that it is computed from."""
        return self.product.outputs[0]

    @property
    def value(self) -> Value:
        """The feature map itself."""
        return self.makers[-1].results[0].value


def fuse_conv_prologue(module: KernelModule, machine: MachineParameters) -> KernelModule:
    """Let convolutions compute such feature maps, except inside of sequential loops."""
    inside: Inside = {}
    for product in list(filter(can_fuse_sums, module.kernels)):
        if product not in module.kernels:
            continue  # an earlier feature map was fused into it
        for user in [
            k
            for k in module.kernels
            if product.outputs[0] in k.inputs and k.kind == "nest" and k.repeat is None
        ]:
            feature_map = _match(module, product, user)
            if feature_map is not None and _compute(module, feature_map, inside, machine):
                break
    return module


# --- matching


def _match(module: KernelModule, product: Kernel, user: Kernel) -> _FeatureMap | None:
    """Return the feature map that ``user`` computes from the result of ``product``.

    None if there is none, or if something other than kernels reads it.
    """
    (made,) = product.outputs
    last = [
        s
        for s in user.statements
        if is_elementwise(s, made.shape) and s.results[0].value in user.outputs
    ]
    needed = {tensor.value for tensor in module.function.results}
    needed.update(
        value
        for item in module.function.body
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


def _compute(
    module: KernelModule, feature_map: _FeatureMap, inside: Inside, machine: MachineParameters
) -> bool:
    """Let all consumers of a feature map compute it, if they can and that takes fewer cycles.

    Returns:
        Whether they do.
    """
    makers = FeatureMapProducer(
        feature_map.value, feature_map.element, feature_map.made, dict(inside)
    )
    kernels = [kernel for kernel in module.kernels if feature_map.value in kernel.inputs]
    if not all(
        can_recompute(kernel) and _may_wait(module, feature_map, kernel) for kernel in kernels
    ):
        return False
    readers: list[FeatureMapConsumer] = []
    for kernel in kernels:
        reader = recompute_feature_map(kernel, makers, machine)
        if reader is None or not _pays(
            feature_map, sum(each.extra_cycles for each in (*readers, reader)), machine
        ):
            return False
        readers.append(reader)
    sums, at = (
        summed(feature_map.product, feature_map.sums, machine),
        module.kernels.index(feature_map.user),
    )
    if sums is None or not _pays(
        feature_map, sums[1] + sum(reader.extra_cycles for reader in readers), machine
    ):
        return False
    if not move_sums(
        module,
        feature_map.product,
        feature_map.user,
        feature_map.kept,
        feature_map.sums,
        sums[0],
        machine,
    ):
        return False
    _replace(module, feature_map, readers, makers, machine)
    _add(module, feature_map.others, at, machine)
    _add(
        module,
        [[made] for key, (_, made) in makers.inside.items() if key not in inside],
        0,
        machine,
    )
    inside.update(makers.inside)
    return True


def _may_wait(module: KernelModule, feature_map: _FeatureMap, reader: Kernel) -> bool:
    """Return whether the inputs of the feature map are intact when ``reader`` runs."""
    kernels = module.kernels
    between = kernels[kernels.index(feature_map.user) : kernels.index(reader) + 1]
    return overwritten(between).isdisjoint(
        homes(node.payload.value for node in walk([feature_map.element]) if node.op == "in")
    )


def _pays(feature_map: _FeatureMap, longer: float, machine: MachineParameters) -> bool:
    """Return whether ``longer`` cycles are fewer than computing the map in its own kernel takes."""
    moved = sum(
        ELEMENT_BYTES[value.dtype] * prod(value.shape)
        for value in (feature_map.made, feature_map.value)
    )
    return longer < moved / (cost_rules.bytes_per_cycle(machine, machine.cores) * machine.cores)


def _replace(
    module: KernelModule,
    feature_map: _FeatureMap,
    readers: list[FeatureMapConsumer],
    makers: FeatureMapProducer,
    machine: MachineParameters,
) -> None:
    """Replace the statements of the consumers by those that compute the feature map."""
    body = module.function.body
    at = body.index(feature_map.makers[-1])
    body[at : at + 1] = makers.statements
    body[:] = [
        *(made for _, made in makers.inside.values() if made not in body),
        *(s for s in body if s not in feature_map.makers),
    ]
    groups = {reader.kernel: FusionGroup(reader.kind, reader.statements) for reader in readers}
    for reader in readers:
        for old, new in reader.replacements.items():
            body[body.index(old)] = new
            for value in new.writes():
                value.producer = new
    rebuild_kernels(module, groups, machine)


def _add(
    module: KernelModule, nests: list[list[Statement]], at: int, machine: MachineParameters
) -> None:
    """Insert a kernel for each group of statements before kernel number ``at``."""
    for statements in nests:
        group = FusionGroup("nest", statements)
        place_on_cores(group, machine)
        builder = KernelBuilder(module.function, machine)
        builder.hold([statements, *(k.statements for k in module.kernels)])
        made = builder.kernel(group)
        made.name = f"remainder_{len(module.kernels)}"
        module.kernels.insert(at, made)
