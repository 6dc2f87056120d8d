"""The passes of the midend, in order: linalg on tensors in, kernels on tiles out."""

from __future__ import annotations

from ftm_backend import mlir
from ftm_backend.ir.linalg.function import LinalgFunction
from ftm_backend.ir.linalg.printer import print_function
from ftm_backend.ir.tile.printer import print_tiles
from ftm_backend.ir.tile.program import TileProgram
from ftm_backend.ir.tile.reader import read_tiles
from ftm_backend.midend.kernel_ir import text
from ftm_backend.midend.kernel_ir.kernel import Kernel, KernelModule
from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.midend.kernel_ir.program import KernelProgram
from ftm_backend.midend.kernel_ir.verifier import verify_kernels
from ftm_backend.midend.lowering.lower_kernels import lower_kernels
from ftm_backend.midend.retry_policy import NONE, Restrictions
from ftm_backend.midend.transforms.fusion.fuse_ops import fuse_ops
from ftm_backend.midend.transforms.fusion.fusion_rule import FusionRule
from ftm_backend.midend.transforms.fusion.rules import AFTER_ALGORITHMS, BEFORE_ALGORITHMS
from ftm_backend.midend.transforms.fusion.select_lowerings import (
    line_buffer_pooling,
    transpose_on_chip,
)
from ftm_backend.midend.transforms.memory.assign_buffers import assign_buffers
from ftm_backend.midend.transforms.memory.defer_input_overwrites import defer_input_overwrites
from ftm_backend.midend.transforms.memory.insert_copies import insert_copies
from ftm_backend.midend.transforms.memory.outline_kernels import outline_kernels
from ftm_backend.midend.transforms.tensor.choose_algorithm import choose_algorithm, take_defaults
from ftm_backend.midend.transforms.tensor.fill_pad_border import fill_pad_border
from ftm_backend.midend.transforms.tensor.fold_interior_pad_into_store import (
    fold_interior_pad_into_store,
)
from ftm_backend.midend.transforms.tensor.fold_pad_into_load import fold_pad_into_load
from ftm_backend.midend.transforms.tensor.inline_epilogue_inputs import (
    inline_epilogue_inputs,
)
from ftm_backend.midend.transforms.tensor.pack_operands import pack_operands
from ftm_backend.midend.transforms.tensor.rematerialize_pool_inputs import rematerialize_pool_inputs
from ftm_backend.midend.transforms.tensor.rematerialize_rows import rematerialize_rows
from ftm_backend.pass_manager import (
    OVERLAPPING_DMA,
    Conversion,
    IRFormat,
    Pass,
    VerifyError,
    converts,
    in_place,
    select,
)
from ftm_backend.target.presets import MachineParameters

__all__ = ["LINALG", "PASSES", "TILES", "apply", "pipeline", "run"]


def _read_function(content: str, machine: MachineParameters) -> LinalgFunction:
    from ftm_backend.ir.linalg.reader import read_module

    del machine
    with mlir.context(), mlir.ir.Location.unknown():
        return read_module(content)


def _read_outlined(content: str, machine: MachineParameters) -> KernelProgram:
    return outline_kernels(text.read_program(content, machine), machine)


LINALG = IRFormat("linalg", print_function, _read_function, ".mlir")
"""Loop nests on tensors."""

KERNELS = IRFormat("kernels", text.print_kernels, text.read_kernels, ".mlir", verify_kernels)
"""Kernels on tensors."""

BUFFERS = IRFormat("buffers", text.print_program, text.read_program, ".mlir")
"""Kernels on tensors that have DDR buffers."""

CALLS = IRFormat("calls", text.print_program, _read_outlined, ".mlir")
"""Kernels on tensors as calls of functions, with buffers and scalars as arguments."""

TILES = IRFormat("tiles", print_tiles, lambda content, machine: read_tiles(content), ".tiles")
"""Kernels on tiles in scratchpad, with DMA between tiles and buffers."""


def _rule(rule: FusionRule) -> Pass:
    """Return the pass that applies a fusion rule."""
    return Pass(
        rule.name, rule, in_place(KERNELS), rule.doc, optional=True, requires=(OVERLAPPING_DMA,)
    )


PASSES: tuple[Pass, ...] = (
    Pass(
        "rematerialize-pool-inputs",
        rematerialize_pool_inputs,
        in_place(LINALG),
        "Recompute the input of a pooling in its kernel, instead of storing it.",
        optional=True,
        requires=(OVERLAPPING_DMA,),
    ),
    Pass(
        "fold-pad-into-load",
        fold_pad_into_load,
        in_place(LINALG),
        "Let DMA pad the input of a convolution or pooling with zeros as it loads it.",
        optional=True,
        requires=(OVERLAPPING_DMA,),
    ),
    Pass(
        "choose-algorithm",
        choose_algorithm,
        in_place(LINALG),
        "Choose the cheapest algorithm of each named operation, such as a transposed convolution.",
        optional=True,
        instead=take_defaults,
    ),
    Pass(
        "fold-interior-pad-into-store",
        fold_interior_pad_into_store,
        in_place(LINALG),
        "Store elements together with the constant between them, instead of filling it first.",
        optional=True,
        requires=(OVERLAPPING_DMA,),
    ),
    Pass(
        "fill-pad-border",
        fill_pad_border,
        in_place(LINALG),
        "Fill only the border of a padded tensor, instead of all of it.",
        optional=True,
    ),
    Pass(
        "inline-epilogue-inputs",
        inline_epilogue_inputs,
        in_place(LINALG),
        "Inline scalings of inputs, such as `w * decay`, into the matmul epilogue that reads them.",
        optional=True,
    ),
    Pass(
        "rematerialize-rows",
        rematerialize_rows,
        in_place(LINALG),
        "Compute the elements of rows that do not fit on chip in each statement that reads them.",
        optional=True,
    ),
    Pass(
        "insert-copies",
        insert_copies,
        in_place(LINALG),
        "Copy tensors that are overwritten but read elsewhere, and remove dead operations.",
    ),
    Pass(
        "pack-operands",
        pack_operands,
        in_place(LINALG),
        "Copy a matmul operand into row-panel layout when its contiguous dimension is short.",
        optional=True,
        requires=(OVERLAPPING_DMA,),
    ),
    Pass(
        "fuse-ops",
        fuse_ops,
        converts(LINALG, KERNELS),
        "Fuse operations that share a loop nest into one kernel.",
    ),
    *map(_rule, BEFORE_ALGORITHMS),
    Pass(
        "transpose-on-chip",
        transpose_on_chip,
        in_place(KERNELS),
        "Transpose tiles on chip in kernels that only copy columns to rows.",
        optional=True,
    ),
    Pass(
        "line-buffer-pooling",
        line_buffer_pooling,
        in_place(KERNELS),
        "Keep the rows of a feature map on chip that overlapping windows of a pooling read.",
        optional=True,
        requires=(OVERLAPPING_DMA,),
    ),
    *map(_rule, AFTER_ALGORITHMS),
    Pass(
        "defer-input-overwrites",
        defer_input_overwrites,
        in_place(KERNELS),
        "Find the kernels that can fault, and run those that overwrite inputs after them.",
    ),
    Pass(
        "assign-buffers",
        assign_buffers,
        converts(KERNELS, BUFFERS),
        "Assign a DDR buffer to each value between kernels, and place barriers.",
    ),
    Pass(
        "outline-kernels",
        outline_kernels,
        Conversion(BUFFERS, CALLS, in_place=True),
        "Outline kernels as functions of buffers and scalars; equal kernels share one function.",
    ),
    Pass(
        "lower-kernels",
        lower_kernels,
        converts(CALLS, TILES),
        "Lower each function to tiles, DMA transfers and maps over tiles.",
        alias="tiles",
    ),
)
"""All passes. An optional pass rewrites only where the cost model (`ftm_backend.target.cost_rules`,
through the planners in `midend.schedule`) predicts fewer cycles."""


def pipeline(machine: MachineParameters) -> tuple[Pass, ...]:
    """Return the passes that run for ``machine``, in order."""
    return select(PASSES, machine)


def apply(
    step: Pass, value: object, machine: MachineParameters, restrictions: Restrictions = NONE
) -> object:
    """Run one pass unless the restrictions leave it out, and verify its result.

    Args:
        step: A pass of the machine's pipeline.
        value: The program in the IR before the pass; not to be used afterwards.
        machine: The machine to compile for.
        restrictions: What an earlier attempt to compile the program rules out.

    Returns:
        The program in the IR after the pass.

    Raises:
        VerifyError: The result breaks a rule of its IR; the message names the pass.
    """
    if step.name in restrictions.skipped:
        return value if step.instead is None else step.instead(value, machine)
    kinds = _kinds(value)
    separate = {"separate": restrictions.separate} if step.name == "fuse-ops" else {}
    result = step.run(value, machine, **separate)
    for kernel, kind in _kinds(result).items():
        if kinds.get(kernel) is not kind:
            kernel.formed_by = step.name
    try:
        step.ir.after.verify(result)
    except VerifyError as error:
        raise VerifyError(f"pass {step.name}: {error}") from error
    if step.name == "defer-input-overwrites":
        restrictions.shrink(result.kernels)
    return result


def _kinds(value: object) -> dict[Kernel, KernelKind]:
    """Return the kinds of the kernels in a program on tensors; none of other IRs."""
    if not isinstance(value, KernelModule):
        return {}
    return {kernel: kernel.kind for kernel in value.kernels}


def run(function: LinalgFunction, machine: MachineParameters) -> TileProgram:
    """Run the pipeline of ``machine`` on a function, which it changes."""
    value: object = function
    for step in pipeline(machine):
        value = apply(step, value, machine)
    assert isinstance(value, TileProgram)
    return value
