"""Transposed convolution with stride ``s`` as ``s * s`` convolutions, one for each phase.

Element ``s * i + r`` of the result depends on every ``s``-th tap only. This is the expansion that
the frontend writes; a stride of 1 has one phase, a convolution with mirrored weights.
"""

from __future__ import annotations

from ftm_backend.ir.linalg.affine import volume
from ftm_backend.ir.linalg.function import LinalgFunction, Statement, Tensor, Update, Value
from ftm_backend.midend.algorithms.algorithm import Algorithm
from ftm_backend.midend.schedule.cost import product_cycles, traffic_cycles
from ftm_backend.midend.transforms.tensor.pack_operands import (
    packed_cycles,
    packed_cycles_lower_bound,
)
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["PHASES", "take_expansion"]


def _cycles(operation: Statement, machine: MachineParameters, limit: float) -> float:
    """Return the cycles of all products, of a copy of the weights, and of the interleaving copy."""
    _, weight, expansion = operation.tensors
    if 0 in operation.loops or not all(type(n) is int for n in expansion.view.sizes):
        return 0.0
    maker = expansion.value.producer
    if isinstance(maker, Statement):
        least = packed_cycles_lower_bound(maker, machine)
        return least if least > limit else packed_cycles(maker, machine)
    moved = 2 * _bytes(expansion)
    if volume(weight.view.sizes[2:]) > 1:
        moved += 2 * _bytes(weight)
    moving, computing = traffic_cycles(machine, moved), 0.0
    for product in _products(expansion.value):
        if moving + computing > limit:
            break
        computing += product_cycles(product, machine)
    return moving + computing


def _bytes(tensor: Tensor) -> int:
    return volume(tensor.view.sizes) * ELEMENT_BYTES[tensor.value.dtype]


def _products(value: Value) -> list[Statement]:
    """Return the convolutions whose results an expansion interleaves."""
    found: dict[Statement, None] = {}
    queue = [value]
    while queue:
        maker = queue.pop(0).producer
        if isinstance(maker, Update):
            queue += (part.value.value for part in maker.parts)
        elif isinstance(maker, Statement):
            copied = maker.copied_view()
            if copied is not None:
                queue.append(copied.value)
            elif maker.is_reduction:
                found[maker] = None
    return list(found)


def take_expansion(function: LinalgFunction, operation: Statement) -> None:
    """Let the expansion compute the operation's result, and remove the operation."""
    (result,), expansion = operation.writes(), operation.tensors[-1].value
    maker = expansion.producer
    if isinstance(maker, Update):
        maker.result = result
    else:
        assert isinstance(maker, Statement), "an expansion is computed"
        (written,) = maker.results
        written.value = result
    result.producer = maker
    function.body.remove(operation)


PHASES = Algorithm(
    "phases",
    "Compute the convolution of each sub-pixel phase, and interleave the results.",
    _cycles,
    take_expansion,
)
