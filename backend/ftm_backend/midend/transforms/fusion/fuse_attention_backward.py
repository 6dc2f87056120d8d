"""Fuse the gradients of attention into one kernel, as a part of pass ``fuse-attention``.

The search starts at the kernel that computes the gradient of the scores. It follows tensors that
have one element for each score to the kernels around it. The fused kernel recomputes scores and
softmax if other kernels need them too, as the forward pass does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.function import Value
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.schedule.attention.backward_multipass_tiling import fits
from ftm_backend.midend.schedule.attention.match_backward import match_attention_backward
from ftm_backend.midend.transforms.fusion.fuse_ops import KernelBuilder, homes
from ftm_backend.midend.transforms.fusion.fusion_cache import FusionCache
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup
from ftm_backend.target.presets import MachineParameters

__all__ = ["fuse_attention_backward"]

_MOST = 16
"""Largest number of connected kernels that the search considers."""


def fuse_attention_backward(
    module: KernelModule, machine: MachineParameters, builder: KernelBuilder, kept: set[Value]
) -> None:
    """Fuse the gradients of each attention of ``module``, except inside of sequential loops.

    Args:
        module: The kernels, changed in place.
        machine: The machine to plan for.
        builder: Builds the fused kernels.
        kept: Values that something other than a kernel reads.
    """
    cache = FusionCache(machine, builder.stored)
    fuser = _AttentionFuser(module, cache, builder, kept)
    for kernel in [k for k in module.kernels if k.kind == "nest" and k.repeat is None]:
        if kernel in module.kernels and fuser.join(kernel):
            fuser = _AttentionFuser(module, cache, builder, kept)


class _AttentionFuser:
    """Fuses the kernels of the gradients of attention."""

    def __init__(
        self, module: KernelModule, cache: FusionCache, builder: KernelBuilder, kept: set[Value]
    ) -> None:
        self.module, self.cache, self.builder, self.kept = module, cache, builder, kept
        self.maker = {v: k for k in module.kernels for v in k.outputs}
        self.users: dict[Value, list[Kernel]] = {}
        for kernel in module.kernels:
            for value in kernel.inputs:
                self.users.setdefault(value, []).append(kernel)

    def join(self, slopes: Kernel) -> bool:
        """Fuse the kernels around ``slopes``, if it computes the gradient of the scores.

        Such a gradient is read by two products: those for the gradients of queries and keys.

        Returns:
            Whether kernels were fused.
        """
        for value in slopes.outputs:
            if sum(k.kind == "contraction" for k in self.users.get(value, ())) == 2:
                near = self._near(slopes, volume(value.shape))
                makers = [k for k in near if any(self._passes(v, value) for v in k.outputs)]
                lasts = [k for k in near if k not in makers and k.kind == "contraction"]
                if not any(
                    r.combine == "max" for k in makers for s in k.statements for r in s.results
                ):
                    continue
                if sum(k.kind == "contraction" for k in self._needed([slopes], makers)) != 2:
                    # the softmax depends on the product of the scores alone
                    continue
                needing = set(self.users[value])
                for three in combinations(
                    reversed(lasts), 3
                ):  # products of the forward pass come first
                    if len(needing.intersection(three)) == 2 and self._join(
                        self._needed(three, makers), three, slopes
                    ):
                        return True
        return False

    def _passes(self, value: Value, like: Value) -> bool:
        """Return whether a kernel reads ``value``, and it has as many elements as ``like``."""
        return volume(value.shape) == volume(like.shape) and bool(self.users.get(value))

    def _near(self, kernel: Kernel, size: int) -> list[Kernel]:
        """Return the kernels connected to ``kernel`` by tensors of ``size`` elements, in order.

        Empty if there are more than `_MOST`.
        """
        found, queue = {kernel}, [kernel]
        while queue and len(found) <= _MOST:
            here = queue.pop()
            for value in (*here.inputs, *here.outputs):
                if value in self.maker and volume(value.shape) == size:
                    neighbors = [
                        k
                        for k in (self.maker[value], *self.users.get(value, ()))
                        if k not in found and k.repeat is None and k.kind in ("nest", "contraction")
                    ]
                    found.update(neighbors)
                    queue += neighbors
        return [k for k in self.module.kernels if k in found] if len(found) <= _MOST else []

    def _needed(self, lasts: Sequence[Kernel], makers: Sequence[Kernel]) -> list[Kernel]:
        """Return ``lasts`` and those of ``makers`` that they depend on, in order."""
        found = set(lasts)
        queue = list(lasts)
        while queue:
            before = {self.maker[v] for v in queue.pop().inputs if v in self.maker}
            new = [k for k in makers if k in before and k not in found]
            found.update(new)
            queue += new
        return [k for k in self.module.kernels if k in found]

    def _join(self, members: list[Kernel], lasts: Sequence[Kernel], slopes: Kernel) -> bool:
        """Fuse ``members`` if they are the gradients of an attention that fits on chip.

        Only the scores and their softmax may be computed twice.

        Args:
            members: The kernels to fuse, in order.
            lasts: Those of them that compute the gradients of queries, keys and values.
            slopes: The one that computes the gradient of the scores.

        Returns:
            Whether they were fused.
        """
        if any(t is not None for k in members for t in k.ties) or not self._fits(members):
            return False
        while (more := self._producers(members)) and self._fits([*more, *members]):
            members = [*more, *members]
        order, shared = self._order(members, lasts), self._shared(members, lasts)
        if order is None or slopes in shared or sum(k.kind == "contraction" for k in shared) > 1:
            return False
        before, after = order
        statements = [s for k in members for s in k.statements]
        remaining = [k for k in (*before, *after) if k not in members or k in shared]
        self.builder.hold([*(k.statements for k in remaining), statements])
        joined = replace(
            self.builder.kernel(FusionGroup("attention-backward", statements)), name=lasts[0].name
        )
        kernels = [
            k
            if k not in shared
            else replace(
                self.builder.kernel(FusionGroup(k.kind, k.statements, k.one_core)), name=k.name
            )
            for k in before
            if k not in members or k in shared
        ]
        self.module.kernels = [*kernels, joined, *(k for k in after if k not in members)]
        return True

    def _fits(self, members: Sequence[Kernel]) -> bool:
        """Return whether the members are the gradients of an attention that fits on chip."""
        statements = [s for k in members for s in k.statements]

        def find() -> bool:
            form = match_attention_backward(statements)
            return form is not None and fits(form, self.cache.machine)

        return self.cache.get_or_compute(
            ("attention's gradients", self.cache.statements_key(statements)), find
        )[0]

    def _producers(self, members: Sequence[Kernel]) -> list[Kernel]:
        """Return the elementwise kernels that compute inputs for ``members`` only."""
        makers = [self.maker[v] for k in members for v in k.inputs if v in self.maker]
        found = [
            k
            for k in dict.fromkeys(makers)
            if k not in members
            and k.kind == "nest"
            and k.repeat is None
            and not any(s.is_reduction or s.gathers for s in k.statements)
            and all(t is None for t in k.ties)
        ]
        return [k for k in found if self._within(k, members)]

    def _within(self, kernel: Kernel, members: Sequence[Kernel]) -> bool:
        """Return whether only ``members`` read the results of ``kernel``."""
        return all(
            v not in self.kept and set(self.users.get(v, ())) <= set(members)
            for v in kernel.outputs
        )

    def _shared(self, members: Sequence[Kernel], lasts: Sequence[Kernel]) -> set[Kernel]:
        """Return the members that must also stay, because other kernels read their results."""
        shared: set[Kernel] = set()
        for kernel in reversed(members):
            if kernel not in lasts and any(
                v in self.kept
                or any(u not in members or u in shared for u in self.users.get(v, ()))
                for v in kernel.outputs
            ):
                shared.add(kernel)
        return shared

    def _order(
        self, members: Sequence[Kernel], lasts: Sequence[Kernel]
    ) -> tuple[list[Kernel], list[Kernel]] | None:
        """Return the kernels before the fused one and those after it; None on a cycle."""
        kernels = self.module.kernels
        first, end = min(map(kernels.index, lasts)), max(map(kernels.index, lasts)) + 1
        early, late, made = list(kernels[:first]), [], {v for k in lasts for v in k.outputs}
        for kernel in kernels[first:end]:
            if kernel in lasts:
                continue
            if made.isdisjoint(homes(kernel.inputs)):
                early.append(kernel)
            elif kernel in members:
                return None
            else:
                late.append(kernel)
                made.update(kernel.outputs)
        ties = [t for k in (*kernels[min(map(kernels.index, members)) : end],) for t in k.ties]
        return (early, [*late, *kernels[end:]]) if all(t is None for t in ties) else None
