"""Builds kernels from fusion groups: what each reads and writes, and where it stores."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ftm_backend.ir.linalg.affine import Affine, dot
from ftm_backend.ir.linalg.function import (
    COLLECTIVE_START,
    FunctionResult,
    LinalgFunction,
    SequentialLoop,
    Statement,
    Store,
    Update,
    Value,
    united_origins,
)
from ftm_backend.ir.linalg.origin import symbol_name
from ftm_backend.ir.linalg.strided_view import Strided
from ftm_backend.midend.analysis.use_def import FunctionUses, home_of, makers_of, written_over
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.lowering.gemm.reduction_epilogue import split_off_sums
from ftm_backend.midend.schedule.gemm.contraction import contraction_index
from ftm_backend.midend.schedule.gemm.kernel_schedule import choose_schedule
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup
from ftm_backend.midend.transforms.tensor.align_loops import align_all
from ftm_backend.target.presets import MachineParameters

__all__ = ["KernelBuilder", "rebuild_kernels"]


class KernelBuilder:
    """Builds kernels from fusion groups.

    Attributes:
        count: Number of kernels so far.
        holders: For each statement the statement sets of all kernels that have it, set by `hold`.
            If there are several, each kernel computes the statement and the first one stores its
            results.
    """

    def __init__(
        self,
        function: LinalgFunction,
        machine: MachineParameters,
        first: int = 0,
        repeat: SequentialLoop | None = None,
    ) -> None:
        """Start with the uses of all values of ``function``.

        Args:
            function: The function that the kernels belong to.
            machine: The machine that the kernels are for.
            first: Number of the first kernel.
            repeat: The loop, if the function is its body.
        """
        self._machine, self._repeat = machine, repeat
        self.count = first
        self.holders: dict[Statement, list[set[Statement]]] = {}
        self.updates = [u for u in function.body if isinstance(u, Update)]
        self._uses = FunctionUses(function)

    def kernel(self, group: FusionGroup) -> Kernel:
        """Return the kernel of one group; sets the stores of its statements."""
        kernel = Kernel(
            symbol_name(united_origins(*group.statements), self.count),
            group.kind,
            self._machine,
            group.statements,
            group.one_core,
        )
        kernel.repeat = self._repeat
        self.count += 1
        members = set(group.statements)
        inputs: dict[Value, None] = {}
        outputs: dict[Value, FunctionResult | None] = {}
        ties: dict[Value, Value] = {}  # storage -> the input that it is written over
        for statement in group.statements:
            inputs.update((v, None) for v in statement.reads() if v.producer not in members)
            held = self.holders.get(statement)
            for result in statement.results if held is None or held[0] == members else ():
                self._store(result, statement, members, outputs, ties)
        inputs.update((over, None) for over in ties.values())
        kernel.inputs, kernel.outputs, kernel.made = (
            list(inputs),
            list(outputs),
            list(outputs.values()),
        )
        kernel.ties = [
            kernel.inputs.index(ties[home]) if home in ties else None for home in outputs
        ]
        kernel.aligned = _aligned(kernel)
        return kernel

    def _store(
        self,
        result: FunctionResult,
        statement: Statement,
        members: set[Statement],
        outputs: dict[Value, FunctionResult | None],
        ties: dict[Value, Value],
    ) -> None:
        """Set the stores of a result, and note the storage that they write."""
        result.stores.clear()
        for value, index in self._stores(result, statement, members):
            home = home_of(value)
            result.stores.append(Store(home, index))
            is_whole = value is home and value is result.value and home not in outputs
            outputs[home] = result if is_whole else None
            over = written_over(value.producer, value) if value.producer is not None else None
            if over is not None and not members.issuperset(makers_of(over)):
                ties[home] = over

    def _stores(
        self, result: FunctionResult, statement: Statement, members: set[Statement]
    ) -> Iterator[tuple[Value, Affine]]:
        """Yield the values that take the elements of a result, itself and updates, and where."""
        is_collective = statement.op == COLLECTIVE_START  # it needs an address for its result
        if is_collective or self._is_loaded(result.value, members):
            yield result.value, result.index
        for update, place in self._parts(result.value):
            index = dot(result.indices, place.strides, place.offset, len(statement.loops))
            yield update.result, index

    def _parts(self, value: Value) -> Iterator[tuple[Update, Strided]]:
        """Yield the updates that write ``value``, each with the place that it writes."""
        for update in self._uses.readers(value):
            if isinstance(update, Update):
                for part in update.parts:
                    if part.value.value is value:
                        yield update, part.place

    def _is_kept(self, value: Value) -> bool:
        """Return whether a result, the base of an update or a loop uses ``value``."""
        return value in self._uses.results or any(
            isinstance(reader, SequentialLoop)
            or (isinstance(reader, Update) and reader.base.value is value)
            for reader in self._uses.readers(value)
        )

    def _is_loaded(self, value: Value, members: set[Statement]) -> bool:
        """Return whether something outside of the kernel reads ``value`` from memory."""
        return self._is_kept(value) or any(
            isinstance(reader, Statement) and self._from_memory(reader, value, members)
            for reader in self._uses.readers(value)
        )

    def stored(self, value: Value, members: Collection[Statement]) -> bool:
        """Return whether a kernel of ``members``, which computes ``value``, must store it."""
        return value in self._uses.results or any(
            reader not in members for reader in self._uses.readers(value)
        )

    def hold(self, kernels: Iterable[Sequence[Statement]]) -> None:
        """Record the statements of all kernels, in order."""
        self.holders.clear()
        for statements in kernels:
            members = set(statements)
            for statement in statements:
                self.holders.setdefault(statement, []).append(members)

    def _from_memory(self, reader: Statement, value: Value, members: set[Statement]) -> bool:
        """Return whether a kernel that reads ``value`` in ``reader`` does not compute it."""
        held = self.holders.get(reader)
        return (
            reader not in members
            if held is None
            else any(value.producer not in each for each in held)
        )


def _aligned(kernel: Kernel) -> list[Statement]:
    """Return the statements of a contraction kernel over the same loops; all of other kernels."""
    if not kernel.kind.multiplies:
        return kernel.statements
    first = contraction_index(kernel.statements)
    return align_all(split_off_sums(kernel.statements[first:])[0])


def _set_schedule(kernel: Kernel) -> None:
    """Set the schedule of a contraction on all cores, so that the kernel's text shows it."""
    if kernel.kind.has_schedule and not kernel.one_core:
        _, kernel.schedule = choose_schedule(
            kernel.kind, kernel.statements, kernel.machine, kernel.aligned
        )


def rebuild_kernels(
    module: KernelModule, groups: Mapping[Kernel, FusionGroup | None], builder: KernelBuilder
) -> None:
    """Replace kernels whose statements changed; names and order stay.

    Args:
        module: The kernels, changed in place.
        groups: The kernels to replace with their new groups, and those to remove with None.
        builder: Knows the uses of the function's values.
    """
    kept = [(k, groups.get(k)) for k in module.kernels if k not in groups or groups[k] is not None]
    builder.hold((group or kernel).statements for kernel, group in kept)
    module.kernels = []
    for old, group in kept:
        kernel = old if group is None else builder.kernel(group)
        kernel.key = None  # another kernel may now store the results of a common statement
        if group is not None:
            kernel.name = old.name
            _set_schedule(kernel)
        module.kernels.append(kernel)
