"""Pass ``fuse-conv-backward``: the gradients of a convolution's input and of its weights become one
kernel, with what updates the weights.

Both read the gradient of the result, and weights: one as its factor, the other one to update them.
Where the weights are most of what is moved, they are read once in place of twice, and the products
of one hide behind the transfers of the other.
"""

from __future__ import annotations

from dataclasses import replace

from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.lowering.gemm import col2im
from ftm_backend.midend.schedule.gemm.conv_backward_plan import (
    match_conv_backward,
    plan_conv_backward,
)
from ftm_backend.midend.schedule.gemm.operand_roles import schedule
from ftm_backend.midend.schedule.gemm.panel_schedule import PanelSchedule
from ftm_backend.midend.transforms.fusion.fuse_ops import KernelFormer, homes, overwritten
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup
from ftm_backend.target.presets import MachineParameters

__all__ = ["fuse_conv_backward"]


def fuse_conv_backward(grouped: KernelModule, machine: MachineParameters) -> KernelModule:
    """Joins the kernels of both gradients of each convolution of the program itself; those in
    repeats stay as they are."""
    for kernel in [
        k for k in grouped.kernels if k.kind == "fold" and k.repeat is None and not k.one_core
    ]:
        _join(grouped, kernel, machine)
    return grouped


def _join(grouped: KernelModule, image: Kernel, machine: MachineParameters) -> None:
    """Joins the kernel that makes the gradient of an image with that of the weights, where there is
    one behind it and that pays."""
    read = {tensor.value for tensor in image.statements[0].tensors}
    for weights in grouped.kernels[grouped.kernels.index(image) + 1 :]:
        if (
            weights.kind == "contraction"
            and weights.repeat is None
            and not weights.one_core
            and read.issubset(weights.inputs)
        ):
            home = _home(grouped, image, weights)
            if home is not None and _pays(image, weights, machine):
                _replace(grouped, image, weights, home, machine)
                return


def _home(grouped: KernelModule, image: Kernel, weights: Kernel) -> Kernel | None:
    """The one of the kernels in whose place both may run, behind all that they need and before what
    needs them; None if there is none."""
    kernels = grouped.kernels
    between = kernels[kernels.index(image) + 1 : kernels.index(weights)]
    if any(tie is not None for tie in (*image.ties, *weights.ties)) or not overwritten(
        between
    ).isdisjoint(homes((*image.inputs, *weights.inputs))):
        return None
    if not set(image.outputs).isdisjoint(homes(weights.inputs)):
        return None
    if all(set(image.outputs).isdisjoint(homes(k.inputs)) for k in between):
        return weights
    return image if all(set(k.outputs).isdisjoint(homes(weights.inputs)) for k in between) else None


def _pays(image: Kernel, weights: Kernel, machine: MachineParameters) -> bool:
    found = match_conv_backward([*image.statements, *weights.statements], machine)
    joined = None if found is None else plan_conv_backward(found, machine)
    if joined is None:
        return False
    one, other = col2im.planned(image.statements, machine), schedule(weights.aligned, machine).plan
    return (
        one is not None
        and isinstance(other, PanelSchedule)
        and joined.cycles < one.cycles + other.cycles
    )


def _replace(
    grouped: KernelModule, image: Kernel, weights: Kernel, home: Kernel, machine: MachineParameters
) -> None:
    statements = [*image.statements, *weights.statements]
    former = KernelFormer(grouped.function, machine)
    kernels = [k for k in grouped.kernels if k is home or k not in (image, weights)]
    former.hold(statements if k is home else k.statements for k in kernels)
    joined = replace(former.kernel(FusionGroup("gradients", statements)), name=weights.name)
    grouped.kernels = [joined if k is home else k for k in kernels]
