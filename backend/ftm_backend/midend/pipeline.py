"""The midend, in order: linalg on tensors in, kernels on tiles out.  Each pass is a function of the one value before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ftm_backend import mlir
from ftm_backend.linalg.ir import Function
from ftm_backend.linalg.printer import print_function
from ftm_backend.machine.presets import MachineParameters
from ftm_backend.midend import text
from ftm_backend.midend.compute_factors import compute_factors
from ftm_backend.midend.compute_images import compute_images
from ftm_backend.midend.fetch_strips import fetch_strips
from ftm_backend.midend.finish_folds import finish_folds
from ftm_backend.midend.fold_windows import fold_windows
from ftm_backend.midend.group import group_kernels
from ftm_backend.midend.inline_images import inline_images
from ftm_backend.midend.inline_operands import inline_operands
from ftm_backend.midend.interior_padding import fuse_interior_padding
from ftm_backend.midend.join_attention import join_attention
from ftm_backend.midend.join_gradients import join_gradients
from ftm_backend.midend.join_phases import join_phases
from ftm_backend.midend.kernel import Grouped
from ftm_backend.midend.lower_kernels import lower_kernels
from ftm_backend.midend.order_kernels import order_kernels
from ftm_backend.midend.own_buffers import own_buffers
from ftm_backend.midend.pad_by_dma import pad_by_dma
from ftm_backend.midend.plan_buffers import plan_buffers
from ftm_backend.midend.restrictions import NONE, Restrictions
from ftm_backend.midend.share_kernels import share_kernels
from ftm_backend.midend.split_sums import split_sums
from ftm_backend.midend.sum_panels import sum_panels
from ftm_backend.midend.sum_strips import sum_strips
from ftm_backend.midend.turn_copies import turn_copies
from ftm_backend.midend.turn_factors import turn_factors
from ftm_backend.midend.verify import verify_kernels
from ftm_backend.midend.write_borders import write_borders
from ftm_backend.stages import Form, Pass, VerifyError
from ftm_backend.tile.program import TileProgram
from ftm_backend.tile.reader import read_tiles
from ftm_backend.tile.text import print_tiles

__all__ = ["FUNCTION", "PASSES", "TILES", "apply", "run"]


def _read_function(content: str, machine: MachineParameters) -> Function:
    from ftm_backend.linalg.reader import read_module

    del machine
    with mlir.context(), mlir.ir.Location.unknown():
        return read_module(content)


FUNCTION = Form(print_function, _read_function, ".mlir")
"""Loop nests on tensors."""

GROUPED = Form(text.print_grouped, text.read_grouped, ".mlir", verify_kernels)
"""Kernels on tensors."""

PROGRAM = Form(text.print_program, text.read_program, ".mlir")
"""Kernels on tensors that have buffers."""

SHARED = Form(text.print_program, lambda content, machine: share_kernels(text.read_program(content, machine), machine), ".mlir")
"""Kernels that say which function they call, with what."""

TILES = Form(print_tiles, lambda content, machine: read_tiles(content), ".tiles")
"""Kernels on tiles."""

PASSES: tuple[Pass, ...] = (
    Pass(
        "inline-images",
        inline_images,
        FUNCTION,
        "what reads windows computes the image, from tensors that are in memory anyway, where that moves less",
        optional=True,
    ),
    Pass(
        "pad-by-dma",
        pad_by_dma,
        FUNCTION,
        "leave the zeros around what products and poolings read to DMA, where it works beside the core",
        optional=True,
    ),
    Pass(
        "fold-windows",
        fold_windows,
        FUNCTION,
        "transposed convolutions become one product whose windows are summed on chip, where that pays",
        optional=True,
    ),
    Pass(
        "join-phases",
        join_phases,
        FUNCTION,
        "products whose results a copy interleaves become one, interleaved on chip, where that pays",
        optional=True,
    ),
    Pass(
        "fuse-interior-padding",
        fuse_interior_padding,
        FUNCTION,
        "write elements with gaps of one number together with these, where DMA works beside the core",
        optional=True,
    ),
    Pass(
        "write-borders",
        write_borders,
        FUNCTION,
        "write what pads a tensor around it alone, not below it, where DMA works beside the core and rows are long",
        optional=True,
    ),
    Pass(
        "inline-operands",
        inline_operands,
        FUNCTION,
        "let what follows a product compute operands that need none where it reads them",
        optional=True,
    ),
    Pass("own-buffers", own_buffers, FUNCTION, "give what is written in place memory that nobody else needs; drop what no result needs"),
    Pass(
        "turn-factors",
        turn_factors,
        FUNCTION,
        "copy factors of products whose short dimensions lie innermost, where that pays",
        optional=True,
    ),
    Pass("split-sums", split_sums, FUNCTION, "cut products with long sums and small results along the sum, where that pays", optional=True),
    Pass("group-kernels", group_kernels, GROUPED, "put operations that share a loop nest into one kernel"),
    Pass("join-attention", join_attention, GROUPED, "put attention, or its gradients, into one kernel: scores stay on chip", optional=True),
    Pass(
        "join-gradients",
        join_gradients,
        GROUPED,
        "put both gradients of a product with weights into one kernel with what updates these, where that pays: weights are read once",
        optional=True,
    ),
    Pass(
        "finish-folds",
        finish_folds,
        GROUPED,
        "what follows a transposed convolution element by element is computed before its images are stored, where that pays",
        optional=True,
    ),
    Pass(
        "compute-factors",
        compute_factors,
        GROUPED,
        "a factor made for one product alone is computed in its kernel, where that pays",
        optional=True,
    ),
    Pass(
        "compute-images",
        compute_images,
        GROUPED,
        "an image that products alone multiply is computed by them, of what its statistics are taken of, where that pays",
        optional=True,
    ),
    Pass(
        "turn-copies", turn_copies, GROUPED, "copies of columns to rows are turned on chip, where DMA works beside the core", optional=True
    ),
    Pass(
        "fetch-strips", fetch_strips, GROUPED, "reductions over windows fetch images once, where DMA works beside the core", optional=True
    ),
    Pass(
        "sum-strips",
        sum_strips,
        GROUPED,
        "sums of what a kernel of strips makes are taken in it, plane by plane, where that pays",
        optional=True,
    ),
    Pass("sum-panels", sum_panels, GROUPED, "sums of what a product makes are taken in it, block by block, where that pays", optional=True),
    Pass("order-kernels", order_kernels, GROUPED, "find the kernels that can fault; let kernels that write over inputs wait for them"),
    Pass("plan-buffers", plan_buffers, PROGRAM, "give each value between kernels its DDR buffer; place barriers"),
    Pass("share-kernels", share_kernels, SHARED, "turn kernels into functions of buffers and scalars; equal ones are one function"),
    Pass("lower-kernels", lower_kernels, TILES, "turn each function into one of tiles, DMA and maps", alias="ftm"),
)


def apply(step: Pass, value: Any, machine: MachineParameters, restrictions: Restrictions = NONE) -> Any:
    """Runs one pass as far as restrictions allow, and verifies what it leaves.

    Raises:
        VerifyError: the pass left kernels that break a rule; the message names the pass.
    """
    if step.name in restrictions.skipped:
        return value
    before = {kernel: kernel.kind for kernel in value.kernels} if isinstance(value, Grouped) else {}
    separate = {"separate": restrictions.separate} if step.name == "group-kernels" else {}
    made = step.run(value, machine, **separate)
    if isinstance(made, Grouped):
        for kernel in made.kernels:
            if before.get(kernel) != kernel.kind:
                kernel.formed_by = step.name
    try:
        step.form.verify(made)
    except VerifyError as error:
        raise VerifyError(f"pass {step.name}: {error}") from error
    if step.name == "order-kernels":
        restrictions.shrink(made.kernels)
    return made


def run(function: Function, machine: MachineParameters, after: Callable[[str, Any], None] | None = None) -> TileProgram:
    """Runs all passes.

    Args:
        function: linalg on tensors, as the frontend makes it.
        machine: what the kernels are grouped and tiled for.
        after: called with the pass's name and its value after each pass.
    """
    value: Any = function
    for step in PASSES:
        value = apply(step, value, machine)
        if after is not None:
            after(step.name, value)
    return value
