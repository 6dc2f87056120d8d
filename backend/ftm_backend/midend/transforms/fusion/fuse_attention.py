"""Pass ``fuse-attention``: the product of queries and keys, the softmax of its rows and the product
with values become one kernel.

Only where DMA works beside the core: there scores would go through memory that the cores share. The
three kernels are joined if nobody else needs what lies between them; elementwise kernels that make
queries, keys, values or masks for them alone join them, too. What makes the gradients is joined
first (``join_backward``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from ftm_backend.ir.linalg.function import LinalgFunction, Statement, Value
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.schedule.attention.forward_tiling import attention_plan
from ftm_backend.midend.schedule.attention.match_forward import match_attention
from ftm_backend.midend.transforms.fusion.fuse_attention_backward import join_backward
from ftm_backend.midend.transforms.fusion.fuse_ops import KernelFormer, homes, overwritten
from ftm_backend.midend.transforms.fusion.fusion_cache import FusionCache
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup
from ftm_backend.target.presets import MachineParameters

__all__ = ["fuse_attention"]


def fuse_attention(grouped: KernelModule, machine: MachineParameters) -> KernelModule:
    """Joins the kernels of each attention of the program itself; those in repeats stay as they
    are."""
    former = KernelFormer(grouped.function, machine)
    join_backward(grouped, machine, former, _kept(grouped.function))
    joiner = _Joiner(grouped, machine, former)
    for kernel in [k for k in grouped.kernels if k.kind == "contraction" and k.repeat is None]:
        joiner.join(kernel)
    return grouped


class _Joiner:
    def __init__(
        self, grouped: KernelModule, machine: MachineParameters, former: KernelFormer
    ) -> None:
        self.grouped, self.former = grouped, former
        self.alike = FusionCache(machine, former.stored)
        self.kernel_of = {s: k for k in reversed(grouped.kernels) for s in k.statements}
        self.users: dict[Value, set[Kernel]] = {}
        for kernel in grouped.kernels:
            for value in kernel.inputs:
                self.users.setdefault(value, set()).add(kernel)
        self.kept = _kept(grouped.function)

    def join(self, last: Kernel) -> None:
        """Joins what makes the scores of ``last``, if it is the second product of an attention."""
        for softmax in self._makers(last, "nest"):
            for scores in self._makers(softmax, "contraction"):
                members = [scores, softmax, last]
                if (
                    last in self.grouped.kernels
                    and all(self._private(k, members) for k in members[:-1])
                    and self._fits(members)
                ):
                    self._join(self._with_producers(members))

    def _makers(self, kernel: Kernel, kind: str) -> list[Kernel]:
        """Kernels of a kind that compute an input."""
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
        """Whether all that a kernel leaves in memory is for ``members``."""
        return all(
            v not in self.kept and self.users.get(v, set()) <= set(members) for v in kernel.outputs
        ) and all(tie is None for tie in kernel.ties)

    def _fits(self, members: Sequence[Kernel]) -> bool:
        """Whether the kernels are an attention that fits on chip, and nothing in between changes
        what they read."""
        if not self._is_planned(members):
            return False
        read = homes(v for k in members for v in k.inputs)
        first = min(map(self.grouped.kernels.index, members))
        between = self.grouped.kernels[first : self.grouped.kernels.index(members[-1])]
        return overwritten(between).isdisjoint(read)

    def _is_planned(self, members: Sequence[Kernel], units: float = inf) -> bool:
        """Whether the kernels are an attention that fits on chip, in at most so many units of
        work."""
        statements = [s for k in members for s in k.statements]

        def find() -> bool:
            form = match_attention(statements)
            plan = None if form is None else attention_plan(form, self.alike.machine)
            return plan is not None and plan.units <= units

        return self.alike.ask(("attention", units, self.alike.statements(statements)), find)[0]

    def _with_producers(self, members: list[Kernel]) -> list[Kernel]:
        """``members`` with the elementwise kernels before them that work for them alone."""
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
        kernels = self.grouped.kernels
        self.former.hold(
            statements if k is last else k.statements
            for k in kernels
            if k is last or k not in members
        )
        joined = replace(
            self.former.kernel(FusionGroup("attention", statements, one_core)), name=last.name
        )
        kernels[kernels.index(last)] = joined
        self.grouped.kernels = [k for k in kernels if k not in members]
        self.kernel_of.update((s, joined) for s in statements)
        for users in self.users.values():
            if not users.isdisjoint(members):
                users.difference_update(members)
                users.add(joined)


def _kept(function: LinalgFunction) -> set[Value]:
    """Values that others than kernels need: results, and what updates and repeats read."""
    found = {t.value for t in function.results}
    for item in function.body:
        if not isinstance(item, Statement):
            found.update(item.reads())
    return found
