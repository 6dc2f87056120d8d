"""Pass ``fuse-gemm-prologue``: compute a matmul operand inside of the matmul's kernel.

Example: ``dw = x.T @ (a * dy + b * y)``, the gradient of a network's first weights behind batch
norm. Nothing else reads the operand in parentheses. Instead of a kernel that stores it, the matmul
loads blocks of ``dy`` and ``y`` and computes the block of the operand on chip.

The operand must be elementwise and have no other reader. The cost is planned with and without.
"""

from __future__ import annotations

from math import prod

from ftm_backend.ir.linalg.function import Statement, Value
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.schedule.gemm.contraction_schedule import schedule, schedule_with_prologue
from ftm_backend.midend.schedule.gemm.panel_schedule import PanelSchedule
from ftm_backend.midend.transforms.fusion.fuse_ops import KernelBuilder, homes, overwritten
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup
from ftm_backend.symbolic import is_integer
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["fuse_gemm_prologue"]


def fuse_gemm_prologue(module: KernelModule, machine: MachineParameters) -> KernelModule:
    """Fuse elementwise kernels into the matmuls that read them, except inside of loops."""
    kept = {tensor.value for tensor in module.function.results}
    kept.update(
        value
        for item in module.function.body
        if not isinstance(item, Statement)
        for value in item.reads()
    )
    readers: dict[Value, list[Kernel]] = {}
    for kernel in module.kernels:
        for value in kernel.inputs:
            readers.setdefault(value, []).append(kernel)
    for kernel in [
        k
        for k in module.kernels
        if k.kind == "nest" and _makes_one(k) and kept.isdisjoint(k.outputs)
    ]:
        product = _reader(kernel, readers.get(kernel.outputs[0], []))
        if (
            product is not None
            and _may_wait(module, kernel, product)
            and _pays(kernel, product, machine)
        ):
            joined = _replace(module, kernel, product, machine)
            for value in joined.inputs:
                readers[value] = [
                    joined if k is product else k for k in readers[value] if k is not kernel
                ]
    return module


def _makes_one(kernel: Kernel) -> bool:
    """Return whether a kernel stores one tensor of constant sizes, and nothing in place."""
    if (
        kernel.repeat is not None
        or kernel.one_core
        or kernel.ties != [None]
        or kernel.made[0] is None
    ):
        return False
    return all(map(is_integer, kernel.outputs[0].shape))


def _reader(kernel: Kernel, readers: list[Kernel]) -> Kernel | None:
    """Return the matmul's kernel that alone reads ``kernel``, as an operand; None otherwise."""
    if (
        len(readers) != 1
        or readers[0].kind != "contraction"
        or readers[0].repeat is not None
        or readers[0].one_core
    ):
        return None
    read = [s for s in readers[0].statements if kernel.outputs[0] in s.reads()]
    return readers[0] if read == readers[0].statements[:1] else None


def _may_wait(module: KernelModule, kernel: Kernel, product: Kernel) -> bool:
    """Return whether no kernel up to ``product`` overwrites the inputs of ``kernel``."""
    kernels = module.kernels
    between = kernels[kernels.index(kernel) + 1 : kernels.index(product)]
    return overwritten((*between, product)).isdisjoint(homes(kernel.inputs))


def _pays(kernel: Kernel, product: Kernel, machine: MachineParameters) -> bool:
    """Return whether one kernel takes fewer cycles than both."""
    apart = schedule(product.aligned, machine).plan
    rate = cost_rules.bytes_per_cycle(machine, machine.cores) * machine.cores
    moved = sum(ELEMENT_BYTES[v.dtype] * prod(v.shape) for v in (*kernel.inputs, *kernel.outputs))
    if not isinstance(apart, PanelSchedule):
        return False
    together = schedule_with_prologue(product.aligned, kernel.statements, machine)
    if together is None or not isinstance(together.plan, PanelSchedule):
        return False
    return together.plan.cycles < apart.cycles + moved / rate


def _replace(
    module: KernelModule, kernel: Kernel, product: Kernel, machine: MachineParameters
) -> Kernel:
    statements = [*kernel.statements, *product.statements]
    builder = KernelBuilder(module.function, machine)
    kernels = [k for k in module.kernels if k is not kernel]
    builder.hold(statements if k is product else k.statements for k in kernels)
    joined = builder.kernel(FusionGroup("computed", statements))
    joined.name = product.name
    module.kernels = [joined if k is product else k for k in kernels]
    return joined
