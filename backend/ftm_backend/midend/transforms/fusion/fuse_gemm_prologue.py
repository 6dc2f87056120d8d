"""Pass ``fuse-gemm-prologue``: a factor that is made element by element for one product alone is
computed in the product's kernel.

The gradient of a network's first weights multiplies what a normalization's gradient makes of two
tensors, which nobody else reads: it would be written to memory and fetched once more. Instead
blocks of the two tensors arrive, and the block of the factor is computed on chip. The product is
planned both ways, and what the factor takes as a kernel of its own counts.
"""

from __future__ import annotations

from math import prod

from ftm_backend.ir.linalg.function import Statement, Value
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.schedule.gemm.operand_roles import schedule, schedule_with_prologue
from ftm_backend.midend.schedule.gemm.panel_schedule import PanelSchedule
from ftm_backend.midend.transforms.fusion.fuse_ops import KernelFormer, homes, overwritten
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup
from ftm_backend.symbolic import is_integer
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["fuse_gemm_prologue"]


def fuse_gemm_prologue(grouped: KernelModule, machine: MachineParameters) -> KernelModule:
    """Joins such kernels of the program itself; those in repeats stay as they are."""
    kept = {tensor.value for tensor in grouped.function.results}
    kept.update(
        value
        for item in grouped.function.body
        if not isinstance(item, Statement)
        for value in item.reads()
    )
    readers: dict[Value, list[Kernel]] = {}
    for kernel in grouped.kernels:
        for value in kernel.inputs:
            readers.setdefault(value, []).append(kernel)
    for kernel in [
        k
        for k in grouped.kernels
        if k.kind == "nest" and _makes_one(k) and kept.isdisjoint(k.outputs)
    ]:
        product = _reader(kernel, readers.get(kernel.outputs[0], []))
        if (
            product is not None
            and _may_wait(grouped, kernel, product)
            and _pays(kernel, product, machine)
        ):
            joined = _replace(grouped, kernel, product, machine)
            for value in joined.inputs:
                readers[value] = [
                    joined if k is product else k for k in readers[value] if k is not kernel
                ]
    return grouped


def _makes_one(kernel: Kernel) -> bool:
    """Whether it makes one tensor, of sizes that are known, and nothing in place."""
    if (
        kernel.repeat is not None
        or kernel.one_core
        or kernel.ties != [None]
        or kernel.made[0] is None
    ):
        return False
    return all(map(is_integer, kernel.outputs[0].shape))


def _reader(kernel: Kernel, readers: list[Kernel]) -> Kernel | None:
    """The kernel that alone reads what another one makes, as a factor of its product; None if there
    is no such kernel."""
    if (
        len(readers) != 1
        or readers[0].kind != "contraction"
        or readers[0].repeat is not None
        or readers[0].one_core
    ):
        return None
    read = [s for s in readers[0].statements if kernel.outputs[0] in s.reads()]
    return readers[0] if read == readers[0].statements[:1] else None


def _may_wait(grouped: KernelModule, kernel: Kernel, product: Kernel) -> bool:
    """Whether nothing that the factor is made of is written over before the product runs."""
    kernels = grouped.kernels
    between = kernels[kernels.index(kernel) + 1 : kernels.index(product)]
    return overwritten((*between, product)).isdisjoint(homes(kernel.inputs))


def _pays(kernel: Kernel, product: Kernel, machine: MachineParameters) -> bool:
    """Whether one kernel takes less time than the two of them."""
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
    grouped: KernelModule, kernel: Kernel, product: Kernel, machine: MachineParameters
) -> Kernel:
    statements = [*kernel.statements, *product.statements]
    former = KernelFormer(grouped.function, machine)
    kernels = [k for k in grouped.kernels if k is not kernel]
    former.hold(statements if k is product else k.statements for k in kernels)
    joined = former.kernel(FusionGroup("computed", statements))
    joined.name = product.name
    grouped.kernels = [joined if k is product else k for k in kernels]
    return joined
