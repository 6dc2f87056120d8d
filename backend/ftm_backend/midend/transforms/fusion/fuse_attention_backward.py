"""The gradients of an attention become one kernel, as a part of pass ``fuse-attention``.

The kernels are found by what passes between them: tensors that have an element for each score.
Those that others need, too, stay for these (the forward pass has the product of queries and keys,
and its softmax); the gradients' kernel computes them once more.
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
from ftm_backend.midend.transforms.fusion.fuse_ops import KernelFormer, homes
from ftm_backend.midend.transforms.fusion.fusion_cache import FusionCache
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup
from ftm_backend.target.presets import MachineParameters

__all__ = ["join_backward"]

_MOST = 16
"""Kernels that are looked at together."""


def join_backward(
    grouped: KernelModule, machine: MachineParameters, former: KernelFormer, kept: set[Value]
) -> None:
    """Joins the kernels of the gradients of each attention of the program itself; those in repeats
    stay as they are.

    kept: values that others than kernels need.
    """
    alike = FusionCache(machine, former.stored)
    joiner = _Joiner(grouped, alike, former, kept)
    for kernel in [k for k in grouped.kernels if k.kind == "nest" and k.repeat is None]:
        if kernel in grouped.kernels and joiner.join(kernel):
            joiner = _Joiner(grouped, alike, former, kept)


class _Joiner:
    def __init__(
        self, grouped: KernelModule, alike: FusionCache, former: KernelFormer, kept: set[Value]
    ) -> None:
        self.grouped, self.alike, self.former, self.kept = grouped, alike, former, kept
        self.maker = {v: k for k in grouped.kernels for v in k.outputs}
        self.users: dict[Value, list[Kernel]] = {}
        for kernel in grouped.kernels:
            for value in kernel.inputs:
                self.users.setdefault(value, []).append(kernel)

    def join(self, slopes: Kernel) -> bool:
        """Joins what is around ``slopes``, if that makes the gradient of the scores: two products
        need it. Says whether it did."""
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
                    # a softmax is made of the scores alone, without the gradient of weights
                    continue
                needing = set(self.users[value])
                for three in combinations(reversed(lasts), 3):  # the forward pass comes first
                    if len(needing.intersection(three)) == 2 and self._join(
                        self._needed(three, makers), three, slopes
                    ):
                        return True
        return False

    def _passes(self, value: Value, like: Value) -> bool:
        """Whether a value has as many elements, and is passed from kernel to kernel."""
        return volume(value.shape) == volume(like.shape) and bool(self.users.get(value))

    def _near(self, kernel: Kernel, size: int) -> list[Kernel]:
        """Kernels that are tied to ``kernel`` by tensors of so many elements, in order; none if
        they are many."""
        found, queue = {kernel}, [kernel]
        while queue and len(found) <= _MOST:
            here = queue.pop()
            for value in (*here.inputs, *here.outputs):
                if value in self.maker and volume(value.shape) == size:
                    beside = [
                        k
                        for k in (self.maker[value], *self.users.get(value, ()))
                        if k not in found and k.repeat is None and k.kind in ("nest", "contraction")
                    ]
                    found.update(beside)
                    queue += beside
        return [k for k in self.grouped.kernels if k in found] if len(found) <= _MOST else []

    def _needed(self, lasts: Sequence[Kernel], makers: Sequence[Kernel]) -> list[Kernel]:
        """``lasts`` and those of ``makers`` that they are computed from, in order."""
        found = set(lasts)
        queue = list(lasts)
        while queue:
            before = {self.maker[v] for v in queue.pop().inputs if v in self.maker}
            new = [k for k in makers if k in before and k not in found]
            found.update(new)
            queue += new
        return [k for k in self.grouped.kernels if k in found]

    def _join(self, members: list[Kernel], lasts: Sequence[Kernel], slopes: Kernel) -> bool:
        """Joins the members if they are the gradients of an attention that fits on chip, can run as
        one, and only scores and their softmax are computed twice."""
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
        self.former.hold([*(k.statements for k in remaining), statements])
        joined = replace(
            self.former.kernel(FusionGroup("attention-backward", statements)), name=lasts[0].name
        )
        kernels = [
            k
            if k not in shared
            else replace(
                self.former.kernel(FusionGroup(k.kind, k.statements, k.one_core)), name=k.name
            )
            for k in before
            if k not in members or k in shared
        ]
        self.grouped.kernels = [*kernels, joined, *(k for k in after if k not in members)]
        return True

    def _fits(self, members: Sequence[Kernel]) -> bool:
        statements = [s for k in members for s in k.statements]

        def find() -> bool:
            form = match_attention_backward(statements)
            return form is not None and fits(form, self.alike.machine)

        return self.alike.ask(("attention's gradients", self.alike.statements(statements)), find)[0]

    def _producers(self, members: Sequence[Kernel]) -> list[Kernel]:
        """Elementwise kernels that make queries, keys, values or gradients for the members."""
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
        """Whether nobody but members needs what a kernel makes, or those that compute it for
        themselves."""
        return all(
            v not in self.kept and set(self.users.get(v, ())) <= set(members)
            for v in kernel.outputs
        )

    def _shared(self, members: Sequence[Kernel], lasts: Sequence[Kernel]) -> set[Kernel]:
        """Members that stay beside the joined kernel, because others need what they make."""
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
        """The kernels before the joined one and after it; None if one of them has to be both."""
        kernels = self.grouped.kernels
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
