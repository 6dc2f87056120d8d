"""Pass ``fuse-attention``: fuse attention into one kernel.

Example: ``softmax(q @ k.T + mask) @ v`` has a kernel for each product and one for the softmax,
which pass the scores through DDR. Fused, the scores stay in the scratchpad. Elementwise kernels
that only compute queries, keys, values or the mask for them join the kernel.

The kernels are fused if nothing else reads the values between them, and if a plan for the whole
fits on chip (``schedule/attention``). The gradients of attention are fused first
(``fuse_attention_backward``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from ftm_backend.ir.linalg.function import LinalgFunction, Statement, Value
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.schedule.attention.forward_tiling import attention_plan
from ftm_backend.midend.schedule.attention.match_forward import match_attention
from ftm_backend.midend.transforms.fusion.fuse_attention_backward import fuse_attention_backward
from ftm_backend.midend.transforms.fusion.fuse_ops import KernelBuilder, homes, overwritten
from ftm_backend.midend.transforms.fusion.fusion_cache import FusionCache
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup
from ftm_backend.target.presets import MachineParameters

__all__ = ["fuse_attention"]


def fuse_attention(module: KernelModule, machine: MachineParameters) -> KernelModule:
    """Fuse each attention of ``module``, except inside of sequential loops."""
    builder = KernelBuilder(module.function, machine)
    fuse_attention_backward(module, machine, builder, _kept(module.function))
    fuser = _AttentionFuser(module, machine, builder)
    for kernel in [k for k in module.kernels if k.kind == "contraction" and k.repeat is None]:
        fuser.join(kernel)
    return module


class _AttentionFuser:
    """Fuses the kernels of the forward pass of attention."""

    def __init__(
        self, module: KernelModule, machine: MachineParameters, builder: KernelBuilder
    ) -> None:
        self.module, self.builder = module, builder
        self.cache = FusionCache(machine, builder.stored)
        self.kernel_of = {s: k for k in reversed(module.kernels) for s in k.statements}
        self.users: dict[Value, set[Kernel]] = {}
        for kernel in module.kernels:
            for value in kernel.inputs:
                self.users.setdefault(value, set()).add(kernel)
        self.kept = _kept(module.function)

    def join(self, last: Kernel) -> None:
        """Fuse ``last`` with the kernels of its scores, if it is attention's second product."""
        for softmax in self._makers(last, "nest"):
            for scores in self._makers(softmax, "contraction"):
                members = [scores, softmax, last]
                if (
                    last in self.module.kernels
                    and all(self._private(k, members) for k in members[:-1])
                    and self._fits(members)
                ):
                    self._join(self._with_producers(members))

    def _makers(self, kernel: Kernel, kind: str) -> list[Kernel]:
        """Return the kernels of one kind that compute an input of ``kernel``."""
        found = [
            self.kernel_of.get(v.producer)
            for v in kernel.inputs
            if isinstance(v.producer, Statement)
        ]
        return list(
            dict.fromkeys(
                k
                for k in found
                if k is not None and k is not kernel and k.kind == kind and k.repeat is None
            )
        )

    def _private(self, kernel: Kernel, members: Sequence[Kernel]) -> bool:
        """Return whether only ``members`` read what a kernel stores."""
        return all(
            v not in self.kept and self.users.get(v, set()) <= set(members) for v in kernel.outputs
        ) and all(tie is None for tie in kernel.ties)

    def _fits(self, members: Sequence[Kernel]) -> bool:
        """Return whether the kernels are an attention that can be one kernel.

        It must fit on chip, and no kernel between them may overwrite their inputs.
        """
        if not self._is_planned(members):
            return False
        read = homes(v for k in members for v in k.inputs)
        first = min(map(self.module.kernels.index, members))
        between = self.module.kernels[first : self.module.kernels.index(members[-1])]
        return overwritten(between).isdisjoint(read)

    def _is_planned(self, members: Sequence[Kernel], units: float = inf) -> bool:
        """Return whether there is a plan for the kernels with at most ``units`` units of work."""
        statements = [s for k in members for s in k.statements]

        def find() -> bool:
            form = match_attention(statements)
            plan = None if form is None else attention_plan(form, self.cache.machine)
            return plan is not None and plan.units <= units

        return self.cache.get_or_compute(
            ("attention", units, self.cache.statements_key(statements)), find
        )[0]

    def _with_producers(self, members: list[Kernel]) -> list[Kernel]:
        """Return ``members`` and the elementwise kernels before them that only they read."""
        found = True
        while found:
            found = False
            for maker in [
                k for member in members for k in self._makers(member, "nest") if k not in members
            ]:
                plain = not any(s.is_reduction or s.gathers for s in maker.statements)
                if plain and self._private(maker, members) and self._fits([maker, *members]):
                    members = [maker, *members]
                    found = True
        return members

    def _join(self, members: Sequence[Kernel]) -> None:
        last = members[-1]
        statements = [s for k in members for s in k.statements]
        one_core = self._is_planned(members, units=1)
        kernels = self.module.kernels
        self.builder.hold(
            statements if k is last else k.statements
            for k in kernels
            if k is last or k not in members
        )
        joined = replace(
            self.builder.kernel(FusionGroup("attention", statements, one_core)), name=last.name
        )
        kernels[kernels.index(last)] = joined
        self.module.kernels = [k for k in kernels if k not in members]
        self.kernel_of.update((s, joined) for s in statements)
        for users in self.users.values():
            if not users.isdisjoint(members):
                users.difference_update(members)
                users.add(joined)


def _kept(function: LinalgFunction) -> set[Value]:
    """Return the values that something other than a kernel reads: results, updates and loops."""
    found = {t.value for t in function.results}
    for item in function.body:
        if not isinstance(item, Statement):
            found.update(item.reads())
    return found
