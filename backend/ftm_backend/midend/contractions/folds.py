"""Lowers transposed convolutions as a product whose windows are summed on chip: ``FOLD`` in the place of what turns C.

``T[(c, tap), (n, window)] = sum_f W[f, c, tap] * X[n, f, window]`` has no zeros to multiply, whatever the stride, reads weights and windows
as they lie, and needs no border.  A block of it takes all taps of some channels and all windows of some images; when its sum over f is
complete, each of its elements is added to the place of the image that it belongs to, and the images are stored.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod

from ftm_backend.instructions.types import ACCUMULATORS
from ftm_backend.linalg.affine import Affine
from ftm_backend.linalg.ir import Node, Operand, Result, Statement, Value
from ftm_backend.machine import rules
from ftm_backend.machine.presets import ELEMENT_BYTES, MachineParameters
from ftm_backend.midend.contractions.epilogue import Epilogue, Output
from ftm_backend.midend.contractions.fold import Fold, Geometry
from ftm_backend.midend.contractions.form import Contraction, Form
from ftm_backend.midend.contractions.late_panels import LatePanels
from ftm_backend.midend.contractions.panel_plan import PanelPlan, fitting_plan
from ftm_backend.midend.contractions.panel_sizes import LARGEST
from ftm_backend.midend.contractions.panels import Panels
from ftm_backend.midend.contractions.schedule import Schedule
from ftm_backend.midend.contractions.tiling import Operand as TiledOperand
from ftm_backend.midend.contractions.tiling import Problem
from ftm_backend.midend.kernel import Kernel
from ftm_backend.tile.builder import TileBuilder

__all__ = ["fold_of", "lower", "one_core", "planned", "read"]

_CHANNEL, _TAP, _IMAGE, _DOWN, _ACROSS, _FILTER, _ROW, _COLUMN = range(8)


def lower(kernel: Kernel, b: TileBuilder) -> None:
    """Builds the kernel's function body at the insertion point.

    Raises:
        ValueError: the convolution does not fit the scratchpads.
    """
    (statement,) = kernel.statements
    machine = replace(kernel.machine, cores=1) if kernel.one_core else kernel.machine
    plan = planned(statement, machine)
    if plan is None:
        raise ValueError(f"no blocks of {statement.op} over {statement.loops} fit the scratchpads of machine {machine.name!r}")
    (LatePanels if plan.late else Panels)(kernel, _schedule(statement, plan), b).build()


def one_core(statement: Statement, machine: MachineParameters) -> bool:
    """Whether the model says that sharing the kernel among cores does not pay."""
    plan = planned(statement, machine)
    return plan is not None and plan.cores == 1


def planned(statement: Statement, machine: MachineParameters) -> PanelPlan | None:
    """The cheapest plan; None if no blocks fit the scratchpads."""
    form, geometry = _form(statement), _geometry(statement)
    _, weight = statement.tensors
    if prod(geometry.shape.taps) > LARGEST["m"] or geometry.cut(1, 1).elements > LARGEST["n"]:
        return None
    return _plan(replace(form, accesses=form.accesses[:3]), geometry, weight.value.dtype, machine)


@lru_cache(maxsize=256)
def _plan(form: Form, geometry: Geometry, dtype: str, machine: MachineParameters) -> PanelPlan | None:
    a, b = form.accesses[:2]
    accumulator = ACCUMULATORS[dtype]
    problem = Problem(
        batch=(),
        m=form.sizes(form.m),
        n=form.sizes(form.n),
        k=form.sizes(form.k),
        a=form.operand(a, dtype, form.m, form.k),
        b=form.operand(b, dtype, form.k, form.n),
        c=TiledOperand(accumulator, (1, 1)),
        accumulator=accumulator,
        folded=geometry,
        piecewise=_is_piecewise(form, dtype, machine),
    )
    return fitting_plan(problem, machine)


def read(statement: Statement) -> tuple[Form, Geometry]:
    """The product, whose accesses are those of the weights, the windows, the sums and the stores; and what is summed."""
    return _form(statement), _geometry(statement)


def fold_of(statement: Statement) -> Fold:
    """Where the blocks of the product lie."""
    return Fold(_geometry(statement), _form(statement), _IMAGE, (_DOWN, _ACROSS), (_ROW, _COLUMN))


def _is_piecewise(form: Form, dtype: str, machine: MachineParameters) -> bool:
    """Whether images lie as filters x windows, few windows each."""
    windows, b = prod(form.sizes(form.n[1:])), form.accesses[1]
    return 1 < windows < machine.dma_granule // ELEMENT_BYTES[dtype] and form.run(b, form.n[1:]) == b.coeffs[_FILTER] == windows


def _numbers(words: str) -> tuple[int, ...]:
    return tuple(map(int, words.split(",")))


def _geometry(statement: Statement) -> Geometry:
    x, weight = statement.tensors
    (result,) = statement.results
    stride, dilation, padding = (_numbers(statement.attributes[name]) for name in ("stride", "dilation", "padding"))
    return Geometry(rules.Folded(weight.view.sizes[2:], x.view.sizes[2:], result.value.shape[2:], stride), dilation, padding)


def _form(statement: Statement) -> Form:
    """Axes of the product, and of the elements of an image; accesses of the weights, the windows, the product and the stores."""
    x, weight = (tensor.view for tensor in statement.tensors)
    (result,) = statement.results
    images, filters, *windows = x.sizes
    _, channels, *taps = weight.sizes
    extents = (channels, prod(taps), images, *windows, filters, *result.value.shape[2:])
    a = (weight.strides[1], _together(weight.sizes[2:], weight.strides[2:]), 0, 0, 0, weight.strides[0], 0, 0)
    b = (0, 0, x.strides[0], *x.strides[2:], x.strides[1], 0, 0)
    columns = images * prod(windows)
    c = (prod(taps) * columns, columns, prod(windows), windows[1], 1, 0, 0, 0)
    accesses = [Affine(weight.offset, a), Affine(x.offset, b), Affine(0, c)]
    for index in dict.fromkeys(store.index for store in result.stores):
        image, channel, row, column = index.coeffs
        accesses.append(Affine(index.const, (channel, 0, image, 0, 0, 0, row, column)))
    m, n = ((outer, *(k for k in inner if extents[k] > 1)) for outer, inner in ((_CHANNEL, (_TAP,)), (_IMAGE, (_DOWN, _ACROSS))))
    return Form(extents, (), m, n, (_FILTER,), tuple(accesses))


def _together(sizes: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The stride of two dimensions that are walked as one."""
    outer, inner = sizes
    if 1 not in (outer, inner) and strides[0] != inner * strides[1]:
        raise ValueError(f"taps {outer} x {inner} with strides {strides} are not walked as one")
    return strides[1] if inner > 1 else strides[0]


def _schedule(statement: Statement, plan: PanelPlan) -> Schedule:
    x, weight = statement.tensors
    (result,) = statement.results
    form = _form(statement)
    a, b, c = form.accesses[:3]
    accumulator = ACCUMULATORS[weight.value.dtype]
    factors = (Operand(weight.value, a), Operand(x.value, b))
    product = Node("arith.mulf" if "f" in accumulator else "arith.muli", accumulator)
    made = Result(Value(accumulator, form.extents[:5]), c, (), product, "sum", Node("constant", accumulator, payload=0))
    loops = tuple(n if k <= _FILTER else 1 for k, n in enumerate(form.extents))
    contraction = Contraction(
        Statement("linalg.generic", loops, tuple(k == _FILTER for k in range(len(loops))), list(factors), [made]), *factors
    )
    carried = Node("carry", accumulator, payload=0)
    epilogue = Epilogue(carried, (Output(carried, tuple(result.stores)),), (), ())
    return Schedule(contraction, epilogue, form, *factors, plan=plan, fold=fold_of(statement))
