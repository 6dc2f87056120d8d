"""Lowering of nest kernels: fused elementwise ops, broadcasts and reductions."""

from __future__ import annotations

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.function import FunctionResult, Node, Operand, Statement
from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.lowering.loop_nest.emit_loops import NestEmitter
from ftm_backend.midend.lowering.loop_nest.reductions import partial_results
from ftm_backend.midend.schedule.loop_nest.tiling import plan_tiles


def lower(kernel: Kernel, b: TileBuilder) -> None:
    """Emit the function of a nest kernel at the insertion point."""
    for piece in _without_empty(kernel):
        NestEmitter(piece, plan_tiles(piece), b).build()


def workspace(kernel: Kernel) -> list[tuple[str, int]]:
    """Return the buffers of partial results, one for each result that cores combine."""
    if (
        kernel.one_core
        or not any(s.is_reduction for s in kernel.statements)
        or kernel.statements[0].volume == 0
    ):
        return []
    plan = plan_tiles(kernel)
    return [(r.value.dtype, plan.parts * volume(r.value.shape)) for r in partial_results(plan)]


def _without_empty(kernel: Kernel) -> list[Kernel]:
    """Return the kernel, or kernels that store the initial values if its domain is empty."""
    first = kernel.statements[0]
    if first.volume:
        return [kernel]
    pieces = []
    for result in first.results:
        if volume(result.value.shape):
            pieces.append(
                Kernel(
                    kernel.name,
                    kernel.kind,
                    kernel.machine,
                    [_start_only(first, result)],
                    kernel.one_core,
                )
            )
    return pieces


def _start_only(statement: Statement, result: FunctionResult) -> Statement:
    """Return a statement over the parallel loops that stores the initial value of ``result``."""
    kept = [k for k, reduced in enumerate(statement.reduced) if not reduced]

    start = result.init
    operands = []
    if isinstance(start, Operand):
        operands = [Operand(start.value, start.index.over(kept))]
        start = Node("in", result.value.dtype, payload=operands[0])
    assert start is not None
    copy = result.over(kept, start)
    loops = tuple(statement.loops[k] for k in kept)
    return Statement(statement.op, loops, (False,) * len(kept), operands, [copy])
