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
from math import inf

from ftm_backend.midend.analysis.use_def import homes, overwritten
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.schedule.attention.forward_tiling import attention_plan
from ftm_backend.midend.schedule.attention.match_forward import match_attention
from ftm_backend.midend.transforms.fusion.fuse_attention_backward import fuse_attention_backward
from ftm_backend.midend.transforms.fusion.fusion_cache import FusionCache
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup
from ftm_backend.midend.transforms.fusion.fusion_rule import FusionContext
from ftm_backend.target.presets import MachineParameters

__all__ = ["fuse_attention"]


def fuse_attention(module: KernelModule, machine: MachineParameters) -> KernelModule:
    """Fuse each attention of ``module``, except inside of sequential loops."""
    context = FusionContext(module, machine)
    fuse_attention_backward(context)
    fuser = _AttentionFuser(context)
    for kernel in [k for k in module.kernels if k.kind == "contraction" and k.repeat is None]:
        fuser.join(kernel)
    return module


class _AttentionFuser:
    """Fuses the kernels of the forward pass of attention."""

    def __init__(self, context: FusionContext) -> None:
        self.context = context
        self.cache = FusionCache(context.machine, context.builder.stored)

    def join(self, last: Kernel) -> None:
        """Fuse ``last`` with the kernels of its scores, if it is attention's second product."""
        for softmax in self._makers(last, "nest"):
            for scores in self._makers(softmax, "contraction"):
                members = [scores, softmax, last]
                if (
                    last in self.context.uses
                    and all(self._is_private(k, members) for k in members[:-1])
                    and self._fits(members)
                ):
                    self._join(self._with_producers(members))

    def _makers(self, kernel: Kernel, kind: str) -> list[Kernel]:
        """Return the kernels of one kind that compute an input of ``kernel``."""
        found = dict.fromkeys(map(self.context.uses.computing, kernel.inputs))
        return [
            k
            for k in found
            if k is not None and k is not kernel and k.kind == kind and k.repeat is None
        ]

    def _is_private(self, kernel: Kernel, members: Sequence[Kernel]) -> bool:
        """Return whether only ``members`` read what a kernel stores, and nothing is in place."""
        is_new = all(tie is None for tie in kernel.ties)
        return is_new and self.context.uses.is_private(kernel, members)

    def _fits(self, members: Sequence[Kernel]) -> bool:
        """Return whether the kernels are an attention that can be one kernel.

        It must fit on chip, and no kernel between them may overwrite their inputs.
        """
        if not self._is_planned(members):
            return False
        read = [value for kernel in members for value in kernel.inputs]
        first = min(members, key=self.context.module.kernels.index)
        others = self.context.uses.between(first, members[-1])[:-1]
        return overwritten(others).isdisjoint(homes(read))

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
                if plain and self._is_private(maker, members) and self._fits([maker, *members]):
                    members = [maker, *members]
                    found = True
        return members

    def _join(self, members: Sequence[Kernel]) -> None:
        *others, last = members
        statements = [s for k in members for s in k.statements]
        one_core = self._is_planned(members, units=1)
        groups = {kernel: FusionGroup("nest", []) for kernel in others}
        self.context.rebuild({**groups, last: FusionGroup("attention", statements, one_core)})
