"""Pass ``split-k``: split the K loop of a matmul with a small result.

Example: ``dw = x.T @ dy`` with K = 100,000 and a result of 64 x 64. Cores share rows and columns of
a result; if it is small, each core loads and transposes most of both operands. Split along K, each
part is an entry of a batch with operands of its own, and a sum over the batch follows.

The matmul is planned whole and split, and the cost of the sum is added. Changes the function in
place.
"""

from __future__ import annotations

from math import inf

from ftm_backend.ir.linalg.affine import Affine, row_major, volume
from ftm_backend.ir.linalg.function import (
    FunctionResult,
    LinalgFunction,
    Node,
    Operand,
    Statement,
    Value,
)
from ftm_backend.ir.linalg.scalar_nodes import constant, loop_nest, substitute
from ftm_backend.midend.schedule.choose import choose
from ftm_backend.midend.schedule.cost import estimate, traffic_cycles
from ftm_backend.midend.schedule.gemm.contraction import Contraction, match
from ftm_backend.symbolic import is_integer
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

__all__ = ["split_k"]

_DEEP = 16
"""Largest result for which splitting can pay, in elements for each term of K."""

_SURE = 0.95
"""The split matmul must take less than this part of the time of the whole one: plans differ from
the cycle model by a few percent."""


def split_k(function: LinalgFunction, machine: MachineParameters) -> LinalgFunction:
    """Split such matmuls, except inside of sequential loops."""
    for position in range(len(function.body) - 1, -1, -1):
        item = function.body[position]
        if isinstance(item, Statement):
            function.body[position : position + 1] = _split(item, machine)
    return function


def _split(statement: Statement, machine: MachineParameters) -> list[Statement]:
    """Return the statement, or the batch of its parts and their sum."""
    found = match(statement) if statement.volume else None
    if found is None or not _promising(found, machine):
        return [statement]
    keep = _SURE * estimate("contraction", [statement], machine)
    least, best = (inf if machine.choice("split-k") == "split" else keep), [statement]
    peak = statement.volume / (machine.cores * machine.fma_units * machine.lanes(found.accumulator))
    for loop, parts in _cuts(statement, machine):
        adding = _adding(found, parts, machine)
        if least <= adding + peak:
            continue  # does not pay even at peak speed
        cut, total = _parts(found, loop, parts)
        if match(cut) is None:
            continue
        cycles = estimate("contraction", [cut], machine) + adding
        if cycles >= least:
            break  # fewer parts rarely take fewer cycles
        least, best = cycles, [cut, total]
    costs = {"keep": keep, "split": least if len(best) > 1 else inf}
    if choose(machine, "split-k", str(statement.loops), costs) == "keep":
        return [statement]
    for each in best:
        for result in each.results:
            result.value.producer = each
    return best


def _promising(found: Contraction, machine: MachineParameters) -> bool:
    """Return whether K is long compared with the result, and parts may be rounded."""
    statement = found.statement
    indices = [o.index for o in (found.a, found.b)] + [statement.results[0].index]
    if not all(
        is_integer(n) for n in (*statement.loops, *(c for index in indices for c in index.coeffs))
    ):
        return False
    if isinstance(found.init, Operand) or statement.results[0].value.dtype != found.accumulator:
        return False
    if any(found.group_of(k) == "batch" for k, n in enumerate(statement.loops) if n != 1):
        return False
    result = volume(statement.results[0].value.shape)
    return _DEEP * (statement.volume // result) >= result


def _cuts(statement: Statement, machine: MachineParameters) -> list[tuple[int, int]]:
    """Return a reduced loop with each number of parts that it can be split into.

    These are the number of cores and its divisors.
    """
    counts = [parts for parts in range(machine.cores, 1, -1) if machine.cores % parts == 0]
    for least in counts:
        for loop, (extent, reduced) in enumerate(
            zip(statement.loops, statement.reduced, strict=True)
        ):
            if reduced and extent % least == 0:
                return [(loop, parts) for parts in counts if parts <= least and extent % parts == 0]
    return []


def _adding(found: Contraction, parts: int, machine: MachineParameters) -> float:
    """Return the cycles to read the parts of the result and write their sum."""
    result = found.statement.results[0].value
    moved = (parts + 1) * volume(result.shape) * ELEMENT_BYTES[result.dtype]
    return traffic_cycles(machine, moved) + 2 * (machine.barrier_cycles + machine.dma_latency)


def _parts(found: Contraction, loop: int, parts: int) -> tuple[Statement, Statement]:
    """Return the statement with ``loop`` split into ``parts`` results, and the sum of these."""
    statement, (result,) = found.statement, found.statement.results
    value = result.value
    inside = statement.loops[loop] // parts
    loops = (parts, *(inside if k == loop else n for k, n in enumerate(statement.loops)))
    reduced = (False, *statement.reduced)

    def cut(index: Affine) -> Affine:
        return Affine(index.const, (index.coeffs[loop] * inside, *index.coeffs))

    operands = {(o.value, o.index): Operand(o.value, cut(o.index)) for o in statement.operands}

    def factor(node: Node) -> Node | None:
        if node.op != "in":
            return None
        return Node("in", node.dtype, payload=operands[node.payload.value, node.payload.index])

    body = substitute([result.yields], factor)[result.yields]
    whole = Value(value.dtype, (parts, *value.shape))
    strides, rank = row_major(whole.shape), len(loops)
    indices = (Affine.loop(0, rank), *(Affine(i.const, (0, *i.coeffs)) for i in result.indices))
    flat = Affine(result.index.const, (strides[0], *result.index.coeffs))
    zero = constant(0, value.dtype)
    made = FunctionResult(whole, flat, indices, body, "sum", zero)
    product = loop_nest(loops, reduced, [made], statement.origins)
    sizes = (*value.shape, parts)
    read = Operand(whole, Affine(0, (*strides[1:], strides[0])))
    places = tuple(Affine.loop(k, len(sizes)) for k in range(len(value.shape)))
    node = Node("in", value.dtype, payload=read)
    total = FunctionResult(
        value, Affine(0, (*row_major(value.shape), 0)), places, node, "sum", result.init
    )
    return product, loop_nest(
        sizes, (*[False] * len(value.shape), True), [total], statement.origins
    )
