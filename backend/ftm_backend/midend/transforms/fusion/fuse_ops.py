"""Pass ``fuse-ops``: fuse operations that share a loop nest into one kernel.

Input: linalg after ``insert-copies``. Output: kernels (`KernelModule`); each statement is in one
kernel.
"""

from __future__ import annotations

from collections.abc import Collection

from ftm_backend.ir.linalg.function import (
    LinalgFunction,
    SequentialLoop,
    Statement,
    statements_of,
)
from ftm_backend.midend.analysis.structural_key import structural_key
from ftm_backend.midend.analysis.use_def import home_of
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.schedule.gemm.kernel_schedule import choose_schedule
from ftm_backend.midend.schedule.gemm.schedule import Schedule
from ftm_backend.midend.transforms.fusion.fusion_cache import FusionCache
from ftm_backend.midend.transforms.fusion.fusion_partition import FusionPartitioner
from ftm_backend.midend.transforms.fusion.kernel_builder import KernelBuilder
from ftm_backend.target.presets import MachineParameters

__all__ = ["fuse_ops", "place_results"]


def fuse_ops(
    function: LinalgFunction, machine: MachineParameters, separate: Collection[int] = ()
) -> KernelModule:
    """Return the kernels of a function.

    Args:
        function: A function after ``insert-copies``; its statements get their stores.
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
            # the stores are known now, so the plan found here is the one for lowering
            if kernel.kind.has_schedule:
                kernel.one_core, kernel.schedule = _planned(kernel, cache)
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


def _planned(product: Kernel, cache: FusionCache) -> tuple[bool, Schedule | None]:
    """Return whether a contraction runs on one core, and its schedule if not."""
    found, _ = cache.get_or_compute(
        ("plan", structural_key(product)),
        lambda: choose_schedule(product.kind, product.statements, cache.machine, product.aligned),
    )
    return found


def place_results(repeat: SequentialLoop) -> None:
    """Set the window of the storage of each result of a loop's iteration."""
    for tensor, window in zip(repeat.body.results, repeat.stores, strict=True):
        home_of(tensor.value).window = window
