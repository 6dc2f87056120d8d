"""Pass ``conv-transpose-to-col2im``: compute a transposed convolution as one matmul and col2im.

The frontend writes a transposed convolution with stride ``s`` as ``s * s`` convolutions, one for
each sub-pixel phase of the result. These need a kernel each, and a copy of the weights. As one
matmul it reads weights and input once, and col2im adds up the overlapping windows on chip
(``lowering/gemm/col2im.py``).

Changes the function in place.
"""

from __future__ import annotations

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.function import (
    LinalgFunction,
    SequentialLoop,
    Statement,
    Update,
    Value,
    whole_statement,
)
from ftm_backend.midend.lowering.gemm import col2im
from ftm_backend.midend.schedule.cost import contraction_cycles
from ftm_backend.midend.schedule.gemm.contraction import match
from ftm_backend.midend.transforms.memory.resolve_in_place import drop_unused
from ftm_backend.midend.transforms.tensor.match_conv_transpose import (
    CONVOLUTION,
    ConvTransposeMatch,
    transposed,
)
from ftm_backend.midend.transforms.tensor.pack_operands import (
    packed_cycles,
    packed_cycles_lower_bound,
)
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["conv_transpose_to_col2im"]


def conv_transpose_to_col2im(
    function: LinalgFunction, machine: MachineParameters
) -> LinalgFunction:
    """Rewrite transposed convolutions, except inside of sequential loops."""
    replaced: set[Statement] = set()
    for number in range(len(function.body) - 1, -1, -1):
        item = function.body[number]
        if isinstance(item, SequentialLoop) or (
            isinstance(item, Statement) and (item.op != CONVOLUTION or item in replaced)
        ):
            continue
        found = transposed(item)
        if found is not None:
            value = item.result if isinstance(item, Update) else item.results[0].value
            maker = value.producer
            folded = _folded(found, value)
            plan = col2im.planned([folded], machine)
            if plan is not None and plan.cycles < _phases_cycles(
                item, found, value, machine, plan.cycles
            ):
                function.body[number] = folded
                replaced.update(found.products)
            else:
                value.producer = maker
    if replaced:
        drop_unused(function)
    return function


def _folded(found: ConvTransposeMatch, value: Value) -> Statement:
    """Return the statement that computes the transposed convolution as one operation."""
    words = {"stride": found.stride, "dilation": found.dilation, "padding": found.padding}
    return whole_statement(
        "ftm.conv_transpose",
        (found.x, found.weight),
        value,
        {name: ",".join(map(str, pair)) for name, pair in words.items()},
    )


def _phases_cycles(
    item: Statement | Update,
    found: ConvTransposeMatch,
    value: Value,
    machine: MachineParameters,
    enough: float,
) -> float:
    """Return the cycles of the convolutions of all phases.

    They are the products, a copy of the weights tap by tap, and the copy that interleaves the
    results. If the cost exceeds ``enough``, the result is any number above it, so that not every
    product must be planned.
    """
    if isinstance(item, Statement):
        least = packed_cycles_lower_bound(item, machine)
        return least if least > enough else packed_cycles(item, machine)
    bandwidth = cost_rules.bytes_per_cycle(machine, machine.cores) * machine.cores
    weights = (
        0
        if volume(found.weight.view.sizes[2:]) == 1
        else 2 * volume(found.weight.view.sizes) * ELEMENT_BYTES[found.weight.value.dtype]
    )
    moved = 2 * volume(value.shape) * ELEMENT_BYTES[value.dtype]
    moving, computing = (weights + moved) / bandwidth, 0.0
    for product in found.products:
        if moving + computing > enough:
            break
        computing += _product_cycles(product, machine)
    return moving + computing


def _product_cycles(statement: Statement, machine: MachineParameters) -> float:
    """Return the cycles of a convolution.

    One with a single channel is no matmul; its elements are summed one by one.
    """
    if match(statement) is None:
        return statement.volume / (machine.cores * machine.lanes(statement.results[0].value.dtype))
    return contraction_cycles(statement, machine)
