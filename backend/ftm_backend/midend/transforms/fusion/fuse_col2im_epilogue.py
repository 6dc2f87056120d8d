"""Pass ``fuse-col2im-epilogue``: what follows a transposed convolution element by element is
computed of its images before they are stored.

The gradient of an image is added to that of a residual connection, and masked as the activation
behind the image was; both would be read again for that, by a normalization's gradient that has to
wait for DDR. The product's kernel has its images on chip, and time to fetch the others. It is
planned both ways, and what the other kernel need not read any more counts.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ftm_backend.ir.linalg.function import Statement, Value
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.lowering.gemm import col2im
from ftm_backend.midend.schedule.loop_nest.capacity_check import common_domain, fits_tiles
from ftm_backend.midend.transforms.fusion.fuse_ops import (
    KernelFormer,
    form_anew,
    homes,
    overwritten,
)
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup, place_on_cores
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["fuse_col2im_epilogue"]


def fuse_col2im_epilogue(grouped: KernelModule, machine: MachineParameters) -> KernelModule:
    """Moves such statements of the program itself; those in repeats stay where they are."""
    for fold in [
        k for k in grouped.kernels if k.kind == "fold" and k.repeat is None and not k.one_core
    ]:
        _finish(grouped, fold, machine)
    return grouped


def _finish(grouped: KernelModule, fold: Kernel, machine: MachineParameters) -> None:
    """Moves what follows one product, as much as pays."""
    users = [k for k in grouped.kernels if not set(fold.outputs).isdisjoint(k.inputs)]
    if len(users) != 1 or users[0].kind != "nest" or users[0].repeat is not None:
        return
    (user,) = users
    following = _following(grouped, fold, user, machine)
    for number in range(len(following), 0, -1):
        moved = following[:number]
        if _gain(fold, user, moved, machine) > 0 and _remains(grouped, user, moved, machine):
            _move(grouped, fold, user, moved, machine)
            return


def _following(
    grouped: KernelModule, fold: Kernel, user: Kernel, machine: MachineParameters
) -> list[Statement]:
    """The statements of the user that may follow, one after the other; each but the last one is
    read by the next alone."""
    kernels, function = grouped.kernels, grouped.function
    first = kernels.index(fold)
    later = {value for kernel in kernels[first:] for value in kernel.outputs}
    changed = overwritten(kernels[first : kernels.index(user)])
    kept = {tensor.value for tensor in function.results}
    kept.update(
        value for item in function.body if not isinstance(item, Statement) for value in item.reads()
    )
    found: list[Statement] = []
    (made,) = fold.statements[-1].writes()
    while made not in kept:
        readers = [
            item for item in function.body if isinstance(item, Statement) and made in item.reads()
        ]
        if len(readers) != 1 or readers[0] not in user.statements:
            break
        others = [value for value in readers[0].reads() if value is not made]
        if not (later | changed).isdisjoint(homes(others)) or not set(user.inputs).issuperset(
            others
        ):
            break
        if not col2im.can_follow([*fold.statements, *found], readers[0], machine):
            break
        found.append(readers[0])
        (made,) = readers[0].writes()
    return found


def _gain(fold: Kernel, user: Kernel, moved: list[Statement], machine: MachineParameters) -> float:
    """Cycles that are saved where statements are moved from the user: what it need not read, or
    write and read, any more."""
    # the last one is stored
    joined = [
        replace(s, results=[replace(r, stores=[]) for r in s.results])
        for s in (*fold.statements, *moved)
    ]
    apart, together = col2im.planned(fold.statements, machine), col2im.planned(joined, machine)
    if apart is None or together is None:
        return 0.0
    left = {
        value
        for statement in user.statements
        if statement not in moved
        for value in statement.reads()
    }
    (made,) = moved[-1].writes()
    spared = sum(map(_bytes, (value for value in user.inputs if value not in left)))
    spared += _bytes(made) * ((made in user.outputs) - (made in left))
    return (
        apart.cycles
        + spared / (cost_rules.bytes_per_cycle(machine, machine.cores) * machine.cores)
        - together.cycles
    )


def _bytes(value: Value) -> int:
    return ELEMENT_BYTES[value.dtype] * prod(value.shape)


def _remains(
    grouped: KernelModule, user: Kernel, moved: list[Statement], machine: MachineParameters
) -> bool:
    """Whether what is left of the user is nothing, or still a nest."""
    left = [statement for statement in user.statements if statement not in moved]
    domain = common_domain(left) if left else None
    return not left or (
        domain is not None
        and fits_tiles(domain, machine, KernelFormer(grouped.function, machine).stored)
    )


def _move(
    grouped: KernelModule,
    fold: Kernel,
    user: Kernel,
    moved: list[Statement],
    machine: MachineParameters,
) -> None:
    left = FusionGroup(
        "nest", [statement for statement in user.statements if statement not in moved]
    )
    longer = FusionGroup("fold", [*fold.statements, *moved])
    grouped.kernels = [
        kernel for kernel in grouped.kernels if kernel is not user or left.statements
    ]
    for cluster in (longer, left):
        place_on_cores(cluster, machine)
    form_anew(grouped, {fold: longer, user: left}, machine)
