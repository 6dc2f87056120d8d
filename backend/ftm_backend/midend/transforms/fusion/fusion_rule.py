"""Fusion rules: a producer joins its consumer, a consumer its producer, or neighbours join.

- *Prologue*: a producer joins the kernel that reads it. Example: a convolution computes
  ``relu(batch_norm(x))`` while it loads its input.
- *Epilogue*: a consumer joins the kernel whose result it reads. Example: a convolution computes the
  sums of batch norm before it stores its result.
- *Horizontal*: two kernels with common inputs become one. Example: both gradients of a convolution.

A rule lists the legal candidates of one anchor kernel. `apply_rule` asks `choose` for each whether
it takes fewer cycles, and applies the first one that does. Rules see only kernels outside of
sequential loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import NamedTuple

from ftm_backend.ir.linalg.function import Statement, Value
from ftm_backend.midend.analysis.feature_map_consumers import Inside
from ftm_backend.midend.analysis.use_def import KernelUses
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.schedule.choose_by_cost import pays
from ftm_backend.midend.schedule.cost import PLANNERS, Plan, nest_cycles, plan
from ftm_backend.midend.schedule.loop_nest.capacity_check import common_domain, fits_tiles
from ftm_backend.midend.transforms.fusion.fusion_cache import FusionCache
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup, place_on_cores
from ftm_backend.midend.transforms.fusion.kernel_builder import KernelBuilder, rebuild_kernels
from ftm_backend.symbolic import is_integer
from ftm_backend.target.presets import MachineParameters

__all__ = [
    "Candidate",
    "Cycles",
    "FusionContext",
    "FusionRule",
    "apply_rule",
    "statements_of",
    "stores_one_tensor",
]


class Cycles(NamedTuple):
    """Modelled cycles of both alternatives. Traffic that both have is left out."""

    keep: float
    fuse: float


@dataclass(frozen=True, eq=False)
class Candidate:
    """A legal fusion.

    Attributes:
        kernels: The kernels that it changes.
        cycles: Returns the cycles without and with it.
        apply: Changes the kernels. Returns False, and changes nothing, if the statements that stay
            behind share no loop nest.
    """

    kernels: tuple[Kernel, ...]
    cycles: Callable[[], Cycles]
    apply: Callable[[], bool]

    def __str__(self) -> str:
        """Name the kernels."""
        return " + ".join(f"{kernel.name} ({kernel.kind})" for kernel in self.kernels)


class FusionContext:
    """The module during one rule, and its analyses.

    Attributes:
        module: The kernels.
        machine: The machine to plan for.
        ones: Tensors of ones that earlier fusions of the same rule created for later ones.
    """

    def __init__(self, module: KernelModule, machine: MachineParameters) -> None:
        """Start with the kernels of ``module``."""
        self.module, self.machine = module, machine
        self.ones: Inside = {}

    @cached_property
    def uses(self) -> KernelUses:
        """Which kernels read and write the values, as of the last `rebuild`."""
        return KernelUses(self.module)

    @cached_property
    def builder(self) -> KernelBuilder:
        """The uses of the function's values, as of the last `body_changed`."""
        return KernelBuilder(self.module.function, self.machine)

    @cached_property
    def cache(self) -> FusionCache:
        """Answers to questions about statements, shared by equal layers."""
        return FusionCache(self.machine, self.builder.stored)

    def plan(self, kind: KernelKind, statements: Sequence[Statement]) -> Plan | None:
        """Return the cheapest plan of a kernel of these statements; None if none fits on chip."""
        key = ("plan", kind, self.cache.statements_key(statements))
        return self.cache.get_or_compute(key, lambda: plan(kind, statements, self.machine))[0]

    def estimate(self, kind: KernelKind, statements: Sequence[Statement]) -> float:
        """Return the modelled cycles of `plan`; infinity without one."""
        found = self.plan(kind, statements)
        return inf if found is None else found.cycles

    def cycles(self, kernels: Iterable[Kernel]) -> float:
        """Return the modelled cycles of kernels as they are, with a barrier for each."""
        return sum(
            self.machine.barrier_cycles
            + (
                self.estimate(kernel.kind, kernel.statements)
                if kernel.kind in PLANNERS
                else nest_cycles(kernel)
            )
            for kernel in kernels
        )

    def with_elementwise_producers(
        self, members: Sequence[Kernel], can_join: Callable[[Sequence[Kernel]], bool]
    ) -> list[Kernel]:
        """Return kernels that will be one, and the elementwise kernels that only they read.

        Args:
            members: The kernels, in order.
            can_join: Whether more kernels, in order, can be one.
        """
        found, waiting = list(members), list(members)
        while waiting:
            for maker in dict.fromkeys(map(self.uses.computing, waiting.pop().inputs)):
                if maker is None or maker in found or not _is_elementwise(maker):
                    continue
                if self.uses.is_private(maker, found) and can_join([maker, *found]):
                    found.insert(0, maker)
                    waiting.append(maker)
        return found

    def users(self, kernel: Kernel, kind: KernelKind) -> list[Kernel]:
        """Return the kernels of one kind, outside of loops, that load a kernel's only output."""
        (made,) = kernel.outputs
        return [k for k in self.uses.readers(made) if k.kind == kind and k.repeat is None]

    def is_stored_without(self, value: Value, kernel: Kernel) -> bool:
        """Return whether a value is stored even if ``kernel`` does not load it."""
        is_result = any(tensor.value is value for tensor in self.module.function.results)
        return is_result or self.uses.readers(value) != [kernel]

    def join_consumers(
        self,
        producer: Kernel,
        user: Kernel,
        kind: KernelKind,
        taken: Sequence[Statement],
        left: Mapping[Statement, Sequence[Statement]],
        others: Iterable[Statement] = (),
    ) -> bool:
        """Let statements of ``user`` join the kernel whose result they read.

        Args:
            producer: The kernel that they join.
            user: The kernel that has them.
            kind: What kind of kernel ``producer`` becomes.
            taken: What it computes in their place: themselves, or partial sums.
            left: For each of them what ``user`` computes in its place: nothing, or a sum of the
                partial sums.
            others: Statements that ``user`` loses to other kernels.

        Returns:
            Whether they joined. Nothing changes if the statements that ``user`` has then share no
            loop nest.
        """
        kept = [statement for statement in user.statements if statement not in others]
        rest = [new for old in kept for new in left.get(old, (old,))]
        made = [*taken, *(statement for each in left.values() for statement in each)]
        _set_producers(made)
        domain = common_domain(rest) if rest else None
        if rest and (domain is None or not fits_tiles(domain, self.machine, self.builder.stored)):
            _set_producers(left)
            return False
        body = self.module.function.body
        at = min(map(body.index, left))
        for old, new in left.items():
            position = body.index(old)
            body[position : position + 1] = new
        body[at:at] = taken
        self.body_changed()
        groups = {
            producer: FusionGroup(kind, [*producer.statements, *taken]),
            user: FusionGroup(KernelKind.LOOP_NEST, rest) if rest else None,
        }
        for group in groups.values():
            if group is not None:
                place_on_cores(group, self.machine)
        return self.rebuild(groups)

    def rebuild(self, groups: Mapping[Kernel, FusionGroup | None]) -> bool:
        """Give kernels new statements, or remove them (None). Returns True."""
        rebuild_kernels(self.module, groups, self.builder)
        self.kernels_changed()
        return True

    def kernels_changed(self) -> None:
        """Drop what is known of the kernels."""
        self.__dict__.pop("uses", None)

    def body_changed(self) -> None:
        """Drop what is known of the kernels and of the function."""
        self.kernels_changed()
        self.__dict__.pop("builder", None)
        self.__dict__.pop("cache", None)


def statements_of(kernels: Iterable[Kernel]) -> list[Statement]:
    """Return the statements of kernels, in order."""
    return [statement for kernel in kernels for statement in kernel.statements]


def _set_producers(statements: Iterable[Statement]) -> None:
    """Let the results of statements be computed by them."""
    for statement in statements:
        for result in statement.results:
            result.value.producer = statement


def _is_elementwise(kernel: Kernel) -> bool:
    """Return whether a kernel computes each element by itself, in new memory, and only once."""
    is_new = kernel.repeat is None and all(tie is None for tie in kernel.ties)
    is_nest = is_new and kernel.kind is KernelKind.LOOP_NEST
    return is_nest and not any(s.is_reduction or s.gathers for s in kernel.statements)


def stores_one_tensor(kernel: Kernel) -> bool:
    """Return whether a kernel stores one tensor of constant sizes, as a whole, in new memory."""
    if kernel.one_core or kernel.ties != [None] or kernel.made[0] is None:
        return False
    return all(map(is_integer, kernel.outputs[0].shape))


@dataclass(frozen=True, eq=False)
class FusionRule:
    """A rule as data.

    Attributes:
        name: Name of its pass, and of its decision in ``FTM_TUNE`` (``fuse`` or ``keep``).
        doc: One sentence that starts with a verb.
        is_anchor: Whether the rule starts at a kernel.
        candidates: Yields the fusions of an anchor, in the order in which they are considered.
    """

    name: str
    doc: str
    is_anchor: Callable[[Kernel], bool]
    candidates: Callable[[FusionContext, Kernel], Iterator[Candidate]]

    def __call__(self, module: KernelModule, machine: MachineParameters) -> KernelModule:
        """Apply the rule wherever it pays; changes ``module``."""
        return apply_rule(self, module, machine)


def apply_rule(rule: FusionRule, module: KernelModule, machine: MachineParameters) -> KernelModule:
    """Apply to each anchor the first candidate that takes fewer cycles.

    Kernels whose schedules were edited by hand stay as they are.
    """
    context = FusionContext(module, machine)
    for anchor in [k for k in module.kernels if k.repeat is None and rule.is_anchor(k)]:
        for candidate in rule.candidates(context, anchor) if anchor in context.uses else ():
            if any(kernel.is_pinned for kernel in candidate.kernels):
                continue
            cycles = candidate.cycles()
            if pays(machine, rule.name, str(candidate), *cycles) and candidate.apply():
                break
    return module
