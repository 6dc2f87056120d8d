"""Pass ``fuse-col2im-epilogue``: apply elementwise consumers of a transposed convolution on chip.

Example: the gradient of a feature map is added to the gradient of a residual connection and masked
by ReLU, ``(fold(...) + d) * (y > 0)``. The kernel of the transposed convolution holds its result in
the scratchpad after col2im, so it applies both before it stores. Otherwise the next kernel, which
waits for DDR anyway, reads all three tensors again.

The cost is planned with and without the epilogue; traffic that the consumer saves counts.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ftm_backend.ir.linalg.function import Statement, Value
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.lowering.gemm import col2im
from ftm_backend.midend.schedule.loop_nest.capacity_check import common_domain, fits_tiles
from ftm_backend.midend.transforms.fusion.fuse_ops import (
    KernelBuilder,
    homes,
    overwritten,
    rebuild_kernels,
)
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup, place_on_cores
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["fuse_col2im_epilogue"]


def fuse_col2im_epilogue(module: KernelModule, machine: MachineParameters) -> KernelModule:
    """Move elementwise consumers into the kernels of transposed convolutions.

    Sequential loops stay unchanged.
    """
    for fold in [
        k for k in module.kernels if k.kind == "fold" and k.repeat is None and not k.one_core
    ]:
        _finish(module, fold, machine)
    return module


def _finish(module: KernelModule, fold: Kernel, machine: MachineParameters) -> None:
    """Move as many consumers of one transposed convolution as pays."""
    users = [k for k in module.kernels if not set(fold.outputs).isdisjoint(k.inputs)]
    if len(users) != 1 or users[0].kind != "nest" or users[0].repeat is not None:
        return
    (user,) = users
    following = _following(module, fold, user, machine)
    for number in range(len(following), 0, -1):
        moved = following[:number]
        if _gain(fold, user, moved, machine) > 0 and _remains(module, user, moved, machine):
            _move(module, fold, user, moved, machine)
            return


def _following(
    module: KernelModule, fold: Kernel, user: Kernel, machine: MachineParameters
) -> list[Statement]:
    """Return the statements of ``user`` that can be the epilogue of ``fold``, in order.

    Only the next statement reads the result of one, except for the last.
    """
    kernels, function = module.kernels, module.function
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
    """Return the cycles that moving statements out of ``user`` saves.

    The traffic that ``user`` saves counts against the longer plan of ``fold``.
    """
    # only the last result is stored
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
    module: KernelModule, user: Kernel, moved: list[Statement], machine: MachineParameters
) -> bool:
    """Return whether the statements that stay in ``user`` are none or still share a loop nest."""
    left = [statement for statement in user.statements if statement not in moved]
    domain = common_domain(left) if left else None
    return not left or (
        domain is not None
        and fits_tiles(domain, machine, KernelBuilder(module.function, machine).stored)
    )


def _move(
    module: KernelModule,
    fold: Kernel,
    user: Kernel,
    moved: list[Statement],
    machine: MachineParameters,
) -> None:
    left = FusionGroup(
        "nest", [statement for statement in user.statements if statement not in moved]
    )
    longer = FusionGroup("fold", [*fold.statements, *moved])
    module.kernels = [kernel for kernel in module.kernels if kernel is not user or left.statements]
    for group in (longer, left):
        place_on_cores(group, machine)
    rebuild_kernels(module, {fold: longer, user: left}, machine)
