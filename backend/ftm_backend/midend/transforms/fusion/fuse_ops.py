"""Pass ``fuse-ops``: fuse operations that share a loop nest into one kernel.

Input: linalg after ``resolve-in-place``. Output: kernels (`KernelModule`); each statement is in one
kernel. Also has what later passes need to build kernels again, and to compare the storage of
values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ftm_backend.ir.linalg.affine import dot
from ftm_backend.ir.linalg.function import (
    FunctionResult,
    LinalgFunction,
    SequentialLoop,
    Statement,
    Store,
    Update,
    Value,
    statements_of,
)
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.lowering.gemm import lower as contraction
from ftm_backend.midend.lowering.gemm.reduction_epilogue import split_off_sums
from ftm_backend.midend.schedule.gemm.contraction import contraction_index
from ftm_backend.midend.transforms.fusion.fusion_cache import FusionCache
from ftm_backend.midend.transforms.fusion.fusion_group import FusionGroup
from ftm_backend.midend.transforms.fusion.fusion_partition import FusionPartitioner
from ftm_backend.midend.transforms.tensor.align_loops import align_all
from ftm_backend.target.presets import MachineParameters

__all__ = [
    "KernelBuilder",
    "fuse_ops",
    "home_of",
    "homes",
    "makers_of",
    "overwritten",
    "place_results",
    "rebuild_kernels",
]


def fuse_ops(
    function: LinalgFunction, machine: MachineParameters, separate: Collection[int] = ()
) -> KernelModule:
    """Return the kernels of a function.

    Args:
        function: A function after ``resolve-in-place``; its statements get their stores.
        machine: The machine to fuse for.
        separate: Numbers of statements that get kernels of their own, in the order of
            `statements_of`.
    """
    numbers = {statement: number for number, statement in enumerate(statements_of(function))}
    alone = {statement for statement, number in numbers.items() if number in separate}
    kernels = _kernels(function, machine, 0, alone)
    for kernel in kernels:
        kernel.numbers = frozenset(numbers[s] for s in kernel.statements)
    return KernelModule(function, kernels)


def _kernels(
    function: LinalgFunction,
    machine: MachineParameters,
    first: int,
    alone: Collection[Statement],
    repeat: SequentialLoop | None = None,
) -> list[Kernel]:
    """Return the kernels of a function or of a loop's body.

    A kernel is either inside of a loop or outside.

    Args:
        function: The function or the body.
        machine: The machine to fuse for.
        first: Number of the first kernel.
        alone: Statements that get kernels of their own.
        repeat: The loop, if the function is its body.
    """
    builder = KernelBuilder(function, machine, first, repeat)
    cache = FusionCache(machine, builder.stored)
    kernels: list[Kernel] = []
    run: list[Statement] = []

    def close() -> None:
        groups = FusionPartitioner(run, builder.updates, cache, alone).groups()
        for group in groups:
            kernel = builder.kernel(group)
            kernel.words = cache.kernel_key(kernel)
            # the stores are known now, so the plan found here is the one for lowering
            if kernel.kind == "contraction":
                kernel.one_core = _one_core(kernel, cache)
            kernels.append(kernel)
        run.clear()

    for item in function.body:
        if isinstance(item, Statement):
            run.append(item)
        elif isinstance(item, SequentialLoop):
            close()
            place_results(item)
            inside = _kernels(item.body, machine, builder.count, alone, item)
            builder.count += len(inside)
            kernels += inside
    close()
    return kernels


def _one_core(product: Kernel, cache: FusionCache) -> bool:
    one_core, _ = cache.get_or_compute(
        ("one core", product.words), lambda: contraction.one_core(product.aligned, cache.machine)
    )
    return one_core


def place_results(repeat: SequentialLoop) -> None:
    """Set the window of the storage of each result of a loop's iteration."""
    for tensor, window in zip(repeat.body.results, repeat.stores, strict=True):
        home_of(tensor.value).window = window


def home_of(value: Value) -> Value:
    """Return the value whose storage ``value`` shares.

    Updates, scatters and loops write over their base, so their results share its storage.
    """
    while value.producer is not None:
        over = written_over(value.producer, value)
        if over is None:
            break
        value = over
    return value


def homes(values: Iterable[Value]) -> set[Value]:
    """Return the values whose storage ``values`` share.

    Compare reads and writes by these: a result of an update differs from its base as a value.
    """
    return set(map(home_of, values))


def overwritten(kernels: Iterable[Kernel]) -> set[Value]:
    """Return the values whose storage ``kernels`` write over."""
    return homes(kernel.inputs[tie] for kernel in kernels for tie in kernel.ties if tie is not None)


def written_over(maker: Statement | Update | SequentialLoop, value: Value) -> Value | None:
    """Return the computed base of a result.

    Args:
        maker: An update, scatter or loop, or another operation.
        value: One of its results.

    Returns:
        The value over which it is written; None if that is an input or new storage.
    """
    if isinstance(maker, SequentialLoop):
        base = maker.bases[maker.results.index(value)]
        return base if base.producer is not None else None
    if isinstance(maker, Update):
        return maker.base.value if maker.base.value.producer is not None else None
    return maker.tensors[0].value if maker.op == "ftm.scatter" else None


class KernelBuilder:
    """Builds kernels from fusion groups: what each reads and writes, and where it stores.

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
        self.updates = updates = [u for u in function.body if isinstance(u, Update)]
        # value -> the updates that write it as a part
        self._parts: dict[Value, list[tuple[Update, int]]] = {}
        self._readers: dict[Value, list[Statement]] = {}
        self._kept = {t.value for t in function.results} | {u.base.value for u in updates}
        for update in updates:
            for number, part in enumerate(update.parts):
                self._parts.setdefault(part.value.value, []).append((update, number))
        for item in function.body:
            if isinstance(item, Statement):
                for value in item.reads():
                    self._readers.setdefault(value, []).append(item)
            elif isinstance(item, SequentialLoop):
                self._kept.update(item.reads())

    def kernel(self, group: FusionGroup) -> Kernel:
        """Return the kernel of one group; sets the stores of its statements."""
        kernel = Kernel(
            f"kernel_{self.count}",
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

        def store(result: FunctionResult, value: Value, target: Store) -> None:
            home = target.target
            result.stores.append(target)
            alone = value is home and result.value is value
            outputs[home] = result if alone and home not in outputs else None
            over = written_over(value.producer, value) if value.producer is not None else None
            if over is not None and not members.issuperset(makers_of(over)):
                ties[home] = over

        for statement in group.statements:
            inputs.update((v, None) for v in statement.reads() if v.producer not in members)
            held = self.holders.get(statement)
            for result in statement.results if held is None or held[0] == members else ():
                result.stores.clear()
                value = result.value
                outside = any(
                    self._from_memory(r, value, members) for r in self._readers.get(value, ())
                )
                if outside or value in self._kept:
                    store(result, value, Store(home_of(value), result.index))
                for update, number in self._parts.get(value, ()):
                    place = update.parts[number].place
                    index = dot(result.indices, place.strides, place.offset, len(statement.loops))
                    store(result, update.result, Store(home_of(update.result), index))
        inputs.update((over, None) for over in ties.values())
        kernel.inputs, kernel.outputs, kernel.made = (
            list(inputs),
            list(outputs),
            list(outputs.values()),
        )
        kernel.ties = [
            kernel.inputs.index(ties[home]) if home in ties else None for home in outputs
        ]
        last_product = {"contraction": 0, "gradients": 1}.get(kernel.kind)
        if kernel.kind == "computed":
            last_product = contraction_index(kernel.statements)
        kernel.aligned = (
            kernel.statements
            if last_product is None
            else align_all(kernel.statements[last_product:])
        )
        if kernel.kind == "summed":
            kernel.aligned = align_all(split_off_sums(kernel.statements)[0])
        return kernel

    def stored(self, value: Value, members: Collection[Statement]) -> bool:
        """Return whether a kernel of ``members``, which computes ``value``, must store it."""
        return (
            value in self._kept
            or value in self._parts
            or any(r not in members for r in self._readers.get(value, ()))
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


def rebuild_kernels(
    module: KernelModule, groups: Mapping[Kernel, FusionGroup], machine: MachineParameters
) -> None:
    """Replace kernels whose statements changed; names and order stay.

    Args:
        module: The kernels, changed in place.
        groups: The kernels to replace, with their new statements.
        machine: The machine that the kernels are for.
    """
    builder = KernelBuilder(module.function, machine)
    builder.hold(groups[k].statements if k in groups else k.statements for k in module.kernels)
    for number, kernel in enumerate(module.kernels):
        if kernel in groups:
            module.kernels[number] = builder.kernel(groups[kernel])
            module.kernels[number].name = kernel.name


def makers_of(value: Value) -> set[Statement]:
    """Return the statements that write the elements of ``value`` into memory."""
    maker = value.producer
    if isinstance(maker, Statement):
        return {maker}
    if maker is None or isinstance(maker, SequentialLoop):
        return set()
    return makers_of(maker.base.value).union(*(makers_of(p.value.value) for p in maker.parts))
