"""Pass ``fuse-conv-backward``: compute both gradients of a convolution in one kernel.

Example: ``dx = conv_transpose(dy, w)``, ``dw = conv(x, dy)``, ``w -= lr * dw``. Both read ``dy``,
and the first and the last read ``w``. If the weights are most of the traffic, one kernel reads them
once instead of twice, and the products for ``dx`` run during the transfers for ``dw``.
"""

from __future__ import annotations

from dataclasses import replace

from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.lowering.gemm import col2im
from ftm_backend.midend.schedule.gemm.contraction_schedule import schedule
from ftm_backend.midend.schedule.gemm.conv_backward_plan import (
    match_conv_backward,
    plan_conv_backward,
)
from ftm_backend.midend.schedule.gemm.panel_schedule import PanelSchedule
from ftm_backend.midend.transforms.fusion.fuse_ops import KernelBuilder, homes, overwritten
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup
from ftm_backend.target.presets import MachineParameters

__all__ = ["fuse_conv_backward"]


def fuse_conv_backward(module: KernelModule, machine: MachineParameters) -> KernelModule:
    """Fuse both gradients of each convolution, except inside of sequential loops."""
    for kernel in [
        k for k in module.kernels if k.kind == "fold" and k.repeat is None and not k.one_core
    ]:
        _join(module, kernel, machine)
    return module


def _join(module: KernelModule, grad_input: Kernel, machine: MachineParameters) -> None:
    """Fuse a kernel of an input's gradient with a later kernel of the weights' gradient."""
    read = {tensor.value for tensor in grad_input.statements[0].tensors}
    for grad_weight in module.kernels[module.kernels.index(grad_input) + 1 :]:
        if (
            grad_weight.kind == "contraction"
            and grad_weight.repeat is None
            and not grad_weight.one_core
            and read.issubset(grad_weight.inputs)
        ):
            home = _home(module, grad_input, grad_weight)
            if home is not None and _pays(grad_input, grad_weight, machine):
                _replace(module, grad_input, grad_weight, home, machine)
                return


def _home(module: KernelModule, grad_input: Kernel, grad_weight: Kernel) -> Kernel | None:
    """Return the kernel at whose position the fused kernel can run; None if there is none.

    At that position the inputs of both must be computed, and no consumer may come before it.
    """
    kernels = module.kernels
    between = kernels[kernels.index(grad_input) + 1 : kernels.index(grad_weight)]
    if any(tie is not None for tie in (*grad_input.ties, *grad_weight.ties)) or not overwritten(
        between
    ).isdisjoint(homes((*grad_input.inputs, *grad_weight.inputs))):
        return None
    if not set(grad_input.outputs).isdisjoint(homes(grad_weight.inputs)):
        return None
    if all(set(grad_input.outputs).isdisjoint(homes(k.inputs)) for k in between):
        return grad_weight
    return (
        grad_input
        if all(set(k.outputs).isdisjoint(homes(grad_weight.inputs)) for k in between)
        else None
    )


def _pays(grad_input: Kernel, grad_weight: Kernel, machine: MachineParameters) -> bool:
    """Return whether the fused kernel takes fewer cycles than both kernels."""
    found = match_conv_backward([*grad_input.statements, *grad_weight.statements], machine)
    joined = None if found is None else plan_conv_backward(found, machine)
    if joined is None:
        return False
    one, other = (
        col2im.planned(grad_input.statements, machine),
        schedule(grad_weight.aligned, machine).plan,
    )
    return (
        one is not None
        and isinstance(other, PanelSchedule)
        and joined.cycles < one.cycles + other.cycles
    )


def _replace(
    module: KernelModule,
    grad_input: Kernel,
    grad_weight: Kernel,
    home: Kernel,
    machine: MachineParameters,
) -> None:
    statements = [*grad_input.statements, *grad_weight.statements]
    builder = KernelBuilder(module.function, machine)
    kernels = [k for k in module.kernels if k is home or k not in (grad_input, grad_weight)]
    builder.hold(statements if k is home else k.statements for k in kernels)
    joined = replace(builder.kernel(FusionGroup("gradients", statements)), name=grad_weight.name)
    module.kernels = [joined if k is home else k for k in kernels]
