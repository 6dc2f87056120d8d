"""Pass ``fuse-ops``: operations that share a loop nest become one kernel."""

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
    "KernelFormer",
    "form_anew",
    "fuse_ops",
    "home_of",
    "homes",
    "makers_of",
    "overwritten",
    "place_results",
]


def fuse_ops(
    function: LinalgFunction, machine: MachineParameters, separate: Collection[int] = ()
) -> KernelModule:
    """The kernels of a function that ``resolve-in-place`` has been through.

    separate: numbers of statements, of those of the function and its repeats, that get kernels of
        their own.
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
    """The kernels of a function, or of the body of a repeat; kernels do not reach across a
    repeat."""
    former = KernelFormer(function, machine, first, repeat)
    alike = FusionCache(machine, former.stored)
    kernels: list[Kernel] = []
    run: list[Statement] = []

    def close() -> None:
        clusters = FusionPartitioner(run, former.updates, alike, alone).clusters()
        for cluster in clusters:
            kernel = former.kernel(cluster)
            kernel.words = alike.kernel(kernel)
            # by what it stores, as it will be lowered: it is planned once
            if kernel.kind == "contraction":
                kernel.one_core = _one_core(kernel, alike)
            kernels.append(kernel)
        run.clear()

    for item in function.body:
        if isinstance(item, Statement):
            run.append(item)
        elif isinstance(item, SequentialLoop):
            close()
            place_results(item)
            inside = _kernels(item.body, machine, former.count, alone, item)
            former.count += len(inside)
            kernels += inside
    close()
    return kernels


def _one_core(product: Kernel, alike: FusionCache) -> bool:
    one_core, _ = alike.ask(
        ("one core", product.words), lambda: contraction.one_core(product.aligned, alike.machine)
    )
    return one_core


def place_results(repeat: SequentialLoop) -> None:
    """Says where the results of an iteration lie."""
    for tensor, window in zip(repeat.body.results, repeat.stores, strict=True):
        home_of(tensor.value).window = window


def home_of(value: Value) -> Value:
    """The value in whose memory ``value`` lies: updates and scatters happen where what they change
    lies."""
    while value.producer is not None:
        over = written_over(value.producer, value)
        if over is None:
            break
        value = over
    return value


def homes(values: Iterable[Value]) -> set[Value]:
    """The values in whose memory ``values`` lie: what kernels store and what others read of it can
    be compared by these alone."""
    return set(map(home_of, values))


def overwritten(kernels: Iterable[Kernel]) -> set[Value]:
    """The homes of what kernels write over."""
    return homes(kernel.inputs[tie] for kernel in kernels for tie in kernel.ties if tie is not None)


def written_over(maker: Statement | Update | SequentialLoop, value: Value) -> Value | None:
    """The computed value over which an update, a scatter or a repeat writes its result
    ``value``."""
    if isinstance(maker, SequentialLoop):
        base = maker.bases[maker.results.index(value)]
        return base if base.producer is not None else None
    if isinstance(maker, Update):
        return maker.base.value if maker.base.value.producer is not None else None
    return maker.tensors[0].value if maker.op == "ftm.scatter" else None


class KernelFormer:
    """Makes kernels of clusters: what each reads and writes, and where its results are stored.

    holders: the statements of all kernels that a statement is in, once kernels are known; one that
    is in several is computed in each, and the first one's results are stored.
    """

    def __init__(
        self,
        function: LinalgFunction,
        machine: MachineParameters,
        first: int = 0,
        repeat: SequentialLoop | None = None,
    ) -> None:
        self._machine, self._repeat = machine, repeat
        self.count = first  # of kernels in the program so far
        self.holders: dict[Statement, list[set[Statement]]] = {}
        self.updates = updates = [u for u in function.body if isinstance(u, Update)]
        # a value: where it is written as a part
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

    def kernel(self, cluster: FusionGroup) -> Kernel:
        """The kernel of one cluster."""
        kernel = Kernel(
            f"kernel_{self.count}",
            cluster.kind,
            self._machine,
            cluster.statements,
            cluster.one_core,
        )
        kernel.repeat = self._repeat
        self.count += 1
        members = set(cluster.statements)
        inputs: dict[Value, None] = {}
        outputs: dict[Value, FunctionResult | None] = {}
        ties: dict[Value, Value] = {}  # home: the input that holds what is written over

        def store(result: FunctionResult, value: Value, target: Store) -> None:
            home = target.target
            result.stores.append(target)
            alone = value is home and result.value is value
            outputs[home] = result if alone and home not in outputs else None
            over = written_over(value.producer, value) if value.producer is not None else None
            if over is not None and not members.issuperset(makers_of(over)):
                ties[home] = over

        for statement in cluster.statements:
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
        """Whether a kernel of ``members``, one of which makes ``value``, writes it to memory."""
        return (
            value in self._kept
            or value in self._parts
            or any(r not in members for r in self._readers.get(value, ()))
        )

    def hold(self, kernels: Iterable[Sequence[Statement]]) -> None:
        """Notes the statements of all kernels, in order."""
        self.holders.clear()
        for statements in kernels:
            members = set(statements)
            for statement in statements:
                self.holders.setdefault(statement, []).append(members)

    def _from_memory(self, reader: Statement, value: Value, members: set[Statement]) -> bool:
        """Whether a statement reads a value in some kernel that does not make it."""
        held = self.holders.get(reader)
        return (
            reader not in members
            if held is None
            else any(value.producer not in each for each in held)
        )


def form_anew(
    grouped: KernelModule, clusters: Mapping[Kernel, FusionGroup], machine: MachineParameters
) -> None:
    """Forms kernels of a program that have other statements now, those of their clusters; they keep
    their names and places."""
    former = KernelFormer(grouped.function, machine)
    former.hold(clusters[k].statements if k in clusters else k.statements for k in grouped.kernels)
    for number, kernel in enumerate(grouped.kernels):
        if kernel in clusters:
            grouped.kernels[number] = former.kernel(clusters[kernel])
            grouped.kernels[number].name = kernel.name


def makers_of(value: Value) -> set[Statement]:
    """The statements that put a value's elements into memory, by its last writers."""
    maker = value.producer
    if isinstance(maker, Statement):
        return {maker}
    if maker is None or isinstance(maker, SequentialLoop):
        return set()
    return makers_of(maker.base.value).union(*(makers_of(p.value.value) for p in maker.parts))
