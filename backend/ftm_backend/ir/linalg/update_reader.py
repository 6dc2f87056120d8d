"""Reads the operations that write one tensor into another.

These are ``ftm.update``, ``tensor.insert_slice``, ``tensor.pad`` and ``ftm.border``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ftm_backend.ir.linalg.affine import row_major, volume
from ftm_backend.ir.linalg.function import Border, Tensor, Update, Value, WindowPart
from ftm_backend.ir.linalg.strided_view import Strided
from ftm_backend.ir.linalg.type_reader import sliced, tensor_type
from ftm_backend.mlir_stubs import Operation

if TYPE_CHECKING:
    from ftm_backend.ir.linalg.reader import FunctionReader


def update(reader: FunctionReader, op: Operation) -> None:
    """Read ``ftm.update``; with the attribute ``joined`` it extends the update before it."""
    base, part = reader.tensors[op.operands[0]], reader.tensors[op.operands[1]]
    place = Strided(part.view.sizes, tuple(op.attributes["strides"]), op.attributes["offset"].value)
    before = base.value.producer
    if "joined" in op.attributes and isinstance(before, Update):
        before.parts.append(WindowPart(part, place))
        reader.function.body.remove(before)
        reader.function.body.append(before)
        reader.tensors[op.results[0]] = base
    else:
        _place(reader, op, base, part, place)


def insert_slice(reader: FunctionReader, op: Operation) -> None:
    """Read ``tensor.insert_slice``."""
    part, base = reader.tensors[op.operands[0]], reader.tensors[op.operands[1]]
    _place(reader, op, base, part, sliced(op, Strided.whole(base.view.sizes), part.view.sizes))


def pad(reader: FunctionReader, op: Operation) -> None:
    """Read ``tensor.pad`` as an update of a filled tensor.

    Raises:
        ValueError: The padding value or its extents are computed.
    """
    part, (dtype, shape) = reader.tensors[op.operands[0]], tensor_type(op.results[0].type)
    fill = list(op.regions[0].blocks[0].operations)[-1]
    if fill.operation.name != "tensor.yield" or fill.operands[0] not in reader.scalars:
        raise ValueError(
            "tensor.pad with a computed padding value; only a value from outside can be lowered"
        )
    low, high = tuple(op.attributes["static_low"]), tuple(op.attributes["static_high"])
    if min((*low, *high), default=0) < 0:
        raise ValueError(
            "tensor.pad with dynamic or negative padding cannot be lowered: slice instead"
        )
    strides = row_major(shape)
    base = Tensor.whole(Value(dtype, shape, splat=reader.scalars[fill.operands[0]]))
    offset = sum(p * s for p, s in zip(low, strides, strict=True))
    _place(reader, op, base, part, Strided(part.view.sizes, strides, offset))


def border(reader: FunctionReader, op: Operation) -> None:
    """Read ``ftm.border``, a padded tensor that is never stored."""
    inside = reader.tensors[op.operands[0]]
    reader.bind(op.results[0]).border = Border(
        inside.value, inside.view.sizes, tuple(op.attributes["low"])
    )


def _place(
    reader: FunctionReader, op: Operation, base: Tensor, part: Tensor, place: Strided
) -> None:
    """Bind the result of ``op`` to a copy of ``base`` with ``part`` at ``place`` of it."""
    if not (base.view.is_dense and base.view.numel == volume(base.value.shape)):
        base = reader.copied(base)
    if place.numel == 0:
        reader.tensors[op.results[0]] = base
        return
    result = reader.bind(op.results[0])
    result.producer = Update(result, base, [WindowPart(part, place)])
    reader.function.body.append(result.producer)
