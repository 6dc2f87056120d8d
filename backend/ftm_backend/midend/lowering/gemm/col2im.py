"""Transposed convolutions as contractions: a product, then col2im (``FOLD``) on chip.

``T[(c, tap), (n, window)] = sum_f W[f, c, tap] * X[n, f, window]`` multiplies no zeros, whatever
the stride, loads weights and windows without a copy, and needs no border. A block of T holds all
taps of some channels and all windows of some feature maps. When its sum over f is complete, col2im
adds each element to its output element. The epilogue (bias, activation, an added gradient, the mask
of an activation's gradient) runs before the output is stored. Groups of channels are a batch of
such products. So are volumes, whose planes are the feature maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ftm_backend.ir.linalg.affine import Affine
from ftm_backend.ir.linalg.function import FunctionResult, Node, Operand, Statement, Store, Value
from ftm_backend.ir.linalg.named_ops import CONV_TRANSPOSE
from ftm_backend.midend.analysis.body_cost import MOST_OPERATIONS, operations
from ftm_backend.midend.lowering.gemm.epilogue import (
    MOST_TILES,
    Epilogue,
    build_epilogue,
    epilogue_traffic,
)
from ftm_backend.midend.schedule.gemm.candidate_tile_sizes import LARGEST
from ftm_backend.midend.schedule.gemm.col2im_geometry import Col2Im, Col2ImGeometry
from ftm_backend.midend.schedule.gemm.contraction import Contraction, ContractionForm
from ftm_backend.midend.schedule.gemm.operand_roles import OperandRoles
from ftm_backend.midend.transforms.tensor.producer_inlining import is_elementwise, is_whole
from ftm_backend.target import cost_rules
from ftm_backend.target.element_types import ACCUMULATORS
from ftm_backend.target.presets import MachineParameters

__all__ = ["can_follow", "geometry_of", "has_blocks", "roles_of"]

_CHANNEL, _TAP, _IMAGE, _DOWN, _ACROSS, _FILTER, _ROW, _COLUMN, _GROUP, _VOLUME = range(10)


def can_follow(
    chain: Sequence[Statement], statement: Statement, machine: MachineParameters
) -> bool:
    """Whether a statement can be fused into the epilogue of a transposed convolution.

    It must be elementwise over the output, and read the chain's values at the same element.

    Args:
        chain: The transposed convolution and its present epilogue.
        statement: The candidate.
        machine: The target.
    """
    has_border = any(operand.value.border is not None for operand in statement.operands)
    if has_border or operations([*chain, statement]) > MOST_OPERATIONS:
        return False
    if not _continues(chain, statement):
        return False
    epilogue = _epilogue([*chain, statement])
    return not epilogue.positions and epilogue_traffic(epilogue, machine).tiles <= MOST_TILES


def _continues(chain: Sequence[Statement], statement: Statement) -> bool:
    """Whether a statement is elementwise over the output, and reads the chain's values there."""
    shape = chain[0].results[0].value.shape
    results = {result.value for each in chain for result in each.results}
    read = [operand.index for operand in statement.operands if operand.value in results]
    is_aligned = all(is_whole(index, shape) for index in read)
    return bool(read) and is_elementwise(statement, shape) and is_aligned


def has_blocks(statement: Statement) -> bool:
    """Whether all taps of a channel, and the windows of a row, are few enough for a block."""
    geometry = geometry_of(statement)
    is_narrow = prod(geometry.shape.taps) <= LARGEST["m"]
    return is_narrow and geometry.cut(1, 1).elements <= LARGEST["n"]


def _epilogue(statements: Sequence[Statement]) -> Epilogue:
    """Return the epilogue over the output's dimensions.

    If no result has a store yet, the last one counts as stored.
    """
    (output,) = statements[0].results
    shape = output.value.shape
    if not any(result.stores for each in statements for result in each.results):
        *others, last = statements
        (result,) = last.results
        statements = [
            *others,
            replace(last, results=[replace(result, stores=[Store(result.value, result.index)])]),
        ]
        (output,) = statements[0].results
    x, weight = (
        Operand(tensor.value, Affine.constant(0, len(shape))) for tensor in statements[0].tensors
    )
    over = Contraction(
        Statement(CONV_TRANSPOSE, shape, (False,) * len(shape), [], [output]), weight, x
    )
    return build_epilogue(over, statements[1:])


def _numbers(words: str) -> tuple[int, ...]:
    return tuple(map(int, words.split(",")))


def geometry_of(statement: Statement) -> Col2ImGeometry:
    """Return the geometry of the windows."""
    x, weight = statement.tensors
    (result,) = statement.results
    stride, dilation, padding = (
        _numbers(statement.attributes[name]) for name in ("stride", "dilation", "padding")
    )
    return Col2ImGeometry(
        cost_rules.Col2ImCost(
            weight.view.sizes[2:], x.view.sizes[-2:], result.value.shape[-2:], stride
        ),
        dilation,
        padding,
    )


def _form(statement: Statement, others: Sequence[Affine]) -> ContractionForm:
    """Return the canonical form of the product, with axes for the output's rows and columns.

    Accesses are those of the weights, the windows and the product, and ``others`` of the output.
    """
    x, weight = (tensor.view for tensor in statement.tensors)
    (result,) = statement.results
    volumes, feature_maps = _volumes_and_planes(x.sizes, 1)
    _, channels, *taps = weight.sizes
    groups = result.value.shape[1] // channels
    filters, windows = x.sizes[1] // groups, x.sizes[-2:]
    output = result.value.shape[-2:]
    extents = (channels, prod(taps), feature_maps, *windows, filters, *output, groups, volumes)
    tap_step = _common_stride(weight.sizes[2:], weight.strides[2:])
    filter_step, group_step = weight.strides[0], filters * weight.strides[0]
    a = (weight.strides[1], tap_step, 0, 0, 0, filter_step, 0, 0, group_step, 0)
    volume_step, plane_step = _volumes_and_planes(x.strides, 0)
    filter_step, group_step = x.strides[1], filters * x.strides[1]
    b = (0, 0, plane_step, *x.strides[-2:], filter_step, 0, 0, group_step, volume_step)
    columns = feature_maps * prod(windows)
    group = channels * prod(taps) * columns
    block = (prod(taps) * columns, columns, prod(windows), windows[1], 1, 0, 0, 0)
    c = (*block, group, groups * group)
    accesses = [Affine(weight.offset, a), Affine(x.offset, b), Affine(0, c)]
    for index in others:
        volume_step, plane_step = _volumes_and_planes(index.coeffs, 0)
        channel, group_step = index.coeffs[1], channels * index.coeffs[1]
        steps = (channel, 0, plane_step, 0, 0, 0, *index.coeffs[-2:], group_step, volume_step)
        accesses.append(Affine(index.const, steps))
    batch = tuple(axis for axis in (_VOLUME, _GROUP) if extents[axis] > 1)
    m, n = (
        (outer, *(k for k in inner if extents[k] > 1))
        for outer, inner in ((_CHANNEL, (_TAP,)), (_IMAGE, (_DOWN, _ACROSS)))
    )
    return ContractionForm(extents, batch, m, n, (_FILTER,), tuple(accesses))


def _volumes_and_planes(each: Sequence[int], otherwise: int) -> tuple[int, int]:
    """Return the entries of volumes and of planes, given those of all dimensions.

    Without a depth, the images are the planes, and the entry of volumes is ``otherwise``.
    """
    first, _, *depth, _, _ = each
    return (first, depth[0]) if depth else (otherwise, first)


def _common_stride(sizes: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Return the common stride of two dimensions; raises ValueError if there is none."""
    outer, inner = sizes
    if 1 not in (outer, inner) and strides[0] != inner * strides[1]:
        raise ValueError(f"taps {outer} x {inner} with strides {strides} are not walked as one")
    return strides[1] if inner > 1 else strides[0]


def roles_of(statements: Sequence[Statement]) -> OperandRoles:
    """Return the roles of the product's operands and its epilogue.

    Accesses are those of the weights, the windows and the product, then those of the epilogue's
    stores and loads.
    """
    x, weight = statements[0].tensors
    epilogue = _epilogue(statements)
    others = [store.index for output in epilogue.outputs for store in output.stores]
    others += [operand.index for operand in epilogue.operands]
    form = _form(statements[0], list(dict.fromkeys(others)))
    a, b, c = form.accesses[:3]
    accumulator = ACCUMULATORS[weight.value.dtype]
    operands = (Operand(weight.value, a), Operand(x.value, b))
    product = Node("arith.mulf" if "f" in accumulator else "arith.muli", accumulator)
    result_node = FunctionResult(
        Value(accumulator, (form.extents[_VOLUME], form.extents[_GROUP], *form.extents[:_FILTER])),
        c,
        (),
        product,
        "sum",
        Node("constant", accumulator, payload=0),
    )
    loops = tuple(1 if k in (_ROW, _COLUMN) else n for k, n in enumerate(form.extents))
    contraction = Contraction(
        Statement(
            "linalg.generic",
            loops,
            tuple(k == _FILTER for k in range(len(loops))),
            list(operands),
            [result_node],
        ),
        *operands,
    )
    col2im = Col2Im(geometry_of(statements[0]), form, _IMAGE, (_DOWN, _ACROSS), (_ROW, _COLUMN))
    return OperandRoles(contraction, epilogue, form, *operands, col2im=col2im)
