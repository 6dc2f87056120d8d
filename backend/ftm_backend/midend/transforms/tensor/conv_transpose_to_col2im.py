"""Pass ``conv-transpose-to-col2im``: a transposed convolution becomes one product, of which the
windows are summed on chip, where that pays.

As convolutions of phases it takes a kernel for each of them, or zeros to multiply, and weights that
are copied tap by tap. As one product (``contractions.folds``) it reads weights and windows once, as
they lie, and its sums are added up where they are computed.
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
from ftm_backend.midend.lowering.gemm.interleaved_phases import cycles
from ftm_backend.midend.schedule.gemm.contraction import match
from ftm_backend.midend.transforms.memory.resolve_in_place import drop_unused
from ftm_backend.midend.transforms.tensor.match_conv_transpose import (
    CONVOLUTION,
    ConvTransposeMatch,
    transposed,
)
from ftm_backend.midend.transforms.tensor.pack_operands import least_turned_cycles, turned_cycles
from ftm_backend.target import cost_rules
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["conv_transpose_to_col2im"]


def conv_transpose_to_col2im(
    function: LinalgFunction, machine: MachineParameters
) -> LinalgFunction:
    """``function``, rewritten in place; what is in a repeat stays as it is."""
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
    """The time of the phases: each of their products, a copy of the weights tap by tap, and what
    interleaves them.

    Where it is above ``enough``, anything between: most products need not be planned for that.
    """
    if isinstance(item, Statement):
        least = least_turned_cycles(item, machine)
        return least if least > enough else turned_cycles(item, machine)
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
    """A product's time; one of vectors, as those of a single channel are, is summed element by
    element."""
    if match(statement) is None:
        return statement.volume / (machine.cores * machine.lanes(statement.results[0].value.dtype))
    return cycles(statement, machine)
