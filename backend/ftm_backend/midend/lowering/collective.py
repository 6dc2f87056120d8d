"""Lowering of collectives and of the waits for them: one instruction on core 0."""

from __future__ import annotations

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.function import COLLECTIVE_WAIT
from ftm_backend.ir.tile.builder import TileBuilder
from ftm_backend.midend.kernel_ir.kernel import Kernel

__all__ = ["lower"]


def lower(kernel: Kernel, b: TileBuilder) -> None:
    """Emit the kernel's function body at the insertion point."""
    (statement,) = kernel.statements
    (result,) = statement.results
    call = result.yields.payload
    if statement.op == COLLECTIVE_WAIT:
        b.wait_for_collective(call)
        return
    (store,), source = result.stores, statement.tensors[0].value
    assert source.symbol is not None, "a collective reads a value without a buffer"
    b.start_collective(
        b.buffer(store.symbol, store.target.dtype, store.elements),
        b.buffer(source.symbol, source.dtype, volume(source.shape)),
        statement.attributes["kind"],
        statement.attributes["reduction"],
        call,
    )
