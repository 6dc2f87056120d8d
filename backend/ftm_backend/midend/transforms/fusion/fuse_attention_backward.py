"""Fuse the gradients of attention into one kernel, as a part of pass ``fuse-attention``.

The search starts at the kernel that computes the gradient of the scores. It follows tensors that
have one element for each score to the kernels around it. The fused kernel recomputes scores and
softmax if other kernels need them too, as the forward pass does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.function import Value
from ftm_backend.midend.analysis.use_def import homes
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.schedule.attention.backward_tiling import fits
from ftm_backend.midend.schedule.attention.match_backward import match_attention_backward
from ftm_backend.midend.transforms.fusion.fusion_cache import FusionCache
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup
from ftm_backend.midend.transforms.fusion.fusion_rule import FusionContext

__all__ = ["fuse_attention_backward"]

_MOST = 16
"""Largest number of connected kernels that the search considers."""


def fuse_attention_backward(context: FusionContext) -> None:
    """Fuse the gradients of each attention, except inside of sequential loops."""
    fuser = _AttentionFuser(context)
    for kernel in [k for k in context.module.kernels if k.kind == "nest" and k.repeat is None]:
        if kernel in context.uses:
            fuser.join(kernel)


class _AttentionFuser:
    """Fuses the kernels of the gradients of attention."""

    def __init__(self, context: FusionContext) -> None:
        self.context = context
        self.cache = FusionCache(context.machine, context.builder.stored)

    def join(self, slopes: Kernel) -> bool:
        """Fuse the kernels around ``slopes``, if it computes the gradient of the scores.

        Such a gradient is read by two products: those for the gradients of queries and keys.

        Returns:
            Whether kernels were fused.
        """
        for value in slopes.outputs:
            readers = self.context.uses.readers(value)
            if sum(k.kind == "contraction" for k in readers) == 2:
                for makers, lasts in self._gradients(slopes, value):
                    members = self._needed(lasts, makers)
                    if len({*readers}.intersection(lasts)) == 2 and self._join(
                        members, lasts, slopes
                    ):
                        return True
        return False

    def _gradients(
        self, slopes: Kernel, value: Value
    ) -> Iterator[tuple[list[Kernel], Sequence[Kernel]]]:
        """Yield the kernels around ``slopes``, and three that may compute the gradients.

        The softmax must depend on the product of the scores alone.
        """
        near = self._near(slopes, volume(value.shape))
        makers = [k for k in near if any(self._passes(v, value) for v in k.outputs)]
        lasts = [k for k in near if k not in makers and k.kind == "contraction"]
        has_maximum = any(
            r.combine == "max" for k in makers for s in k.statements for r in s.results
        )
        products = sum(k.kind == "contraction" for k in self._needed([slopes], makers))
        if has_maximum and products == 2:
            # products of the forward pass come first
            for three in combinations(reversed(lasts), 3):
                yield makers, three

    def _passes(self, value: Value, like: Value) -> bool:
        """Return whether a kernel reads ``value``, and it has as many elements as ``like``."""
        return volume(value.shape) == volume(like.shape) and bool(self.context.uses.readers(value))

    def _near(self, kernel: Kernel, size: int) -> list[Kernel]:
        """Return the kernels connected to ``kernel`` by tensors of ``size`` elements, in order.

        Empty if there are more than `_MOST`.
        """
        uses = self.context.uses
        found, queue = {kernel}, [kernel]
        while queue and len(found) <= _MOST:
            here = queue.pop()
            for value in (*here.inputs, *here.outputs):
                if value in uses.producer and volume(value.shape) == size:
                    neighbors = [
                        k
                        for k in (uses.producer[value], *uses.readers(value))
                        if k not in found and k.repeat is None and k.kind in ("nest", "contraction")
                    ]
                    found.update(neighbors)
                    queue += neighbors
        return [k for k in self.context.module.kernels if k in found] if len(found) <= _MOST else []

    def _needed(self, lasts: Sequence[Kernel], makers: Sequence[Kernel]) -> list[Kernel]:
        """Return ``lasts`` and those of ``makers`` that they depend on, in order."""
        found = set(lasts)
        queue = list(lasts)
        while queue:
            before = self._producers_of(queue.pop())
            new = [k for k in makers if k in before and k not in found]
            found.update(new)
            queue += new
        return [k for k in self.context.module.kernels if k in found]

    def _producers_of(self, kernel: Kernel) -> dict[Kernel, None]:
        """Return the kernels that store the inputs of ``kernel``, in order of the inputs."""
        producer = self.context.uses.producer
        return dict.fromkeys(producer[v] for v in kernel.inputs if v in producer)

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
        self._rebuild(members, lasts, shared, order)
        return True

    def _rebuild(
        self,
        members: Sequence[Kernel],
        lasts: Sequence[Kernel],
        shared: set[Kernel],
        order: tuple[list[Kernel], list[Kernel]],
    ) -> None:
        """Replace ``members`` by the fused kernel; those in ``shared`` stay as well."""
        before, after = ([k for k in side if k not in members or k in shared] for side in order)
        home, *others = lasts
        self.context.module.kernels = [*before, home, *others, *after]
        groups = {k: FusionGroup(k.kind, k.statements, k.one_core) for k in shared}
        groups |= {k: FusionGroup("nest", []) for k in others}
        statements = [s for k in members for s in k.statements]
        self.context.rebuild({**groups, home: FusionGroup("attention-backward", statements)})

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
        makers = dict.fromkeys(p for k in members for p in self._producers_of(k))
        found = [
            k
            for k in makers
            if k not in members
            and k.kind == "nest"
            and k.repeat is None
            and not any(s.is_reduction or s.gathers for s in k.statements)
            and all(t is None for t in k.ties)
        ]
        return [k for k in found if self.context.uses.is_private(k, members)]

    def _shared(self, members: Sequence[Kernel], lasts: Sequence[Kernel]) -> set[Kernel]:
        """Return the members that must also stay, because other kernels read their results."""
        shared: set[Kernel] = set()
        for kernel in reversed(members):
            if kernel not in lasts and any(
                v in self.context.uses.escapes
                or any(u not in members or u in shared for u in self.context.uses.readers(v))
                for v in kernel.outputs
            ):
                shared.add(kernel)
        return shared

    def _order(
        self, members: Sequence[Kernel], lasts: Sequence[Kernel]
    ) -> tuple[list[Kernel], list[Kernel]] | None:
        """Return the kernels before the fused one and those after it; None on a cycle."""
        kernels = self.context.module.kernels
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
