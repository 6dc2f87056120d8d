"""The midend, in order: linalg on tensors in, kernels on tiles out. Each pass is a function of the
one value before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ftm_backend import mlir
from ftm_backend.ir.linalg.function import LinalgFunction
from ftm_backend.ir.linalg.printer import print_function
from ftm_backend.ir.tile.printer import print_tiles
from ftm_backend.ir.tile.program import TileProgram
from ftm_backend.ir.tile.reader import read_tiles
from ftm_backend.midend.kernel_ir import text
from ftm_backend.midend.kernel_ir.kernel import KernelModule
from ftm_backend.midend.kernel_ir.verifier import verify_kernels
from ftm_backend.midend.lowering.lower_kernels import lower_kernels
from ftm_backend.midend.retry_policy import NONE, Restrictions
from ftm_backend.midend.transforms.fusion.fuse_attention import fuse_attention
from ftm_backend.midend.transforms.fusion.fuse_col2im_epilogue import fuse_col2im_epilogue
from ftm_backend.midend.transforms.fusion.fuse_conv_backward import fuse_conv_backward
from ftm_backend.midend.transforms.fusion.fuse_conv_prologue import fuse_conv_prologue
from ftm_backend.midend.transforms.fusion.fuse_gemm_prologue import fuse_gemm_prologue
from ftm_backend.midend.transforms.fusion.fuse_gemm_reduction import fuse_gemm_reduction
from ftm_backend.midend.transforms.fusion.fuse_ops import fuse_ops
from ftm_backend.midend.transforms.fusion.fuse_pool_reduction import fuse_pool_reduction
from ftm_backend.midend.transforms.fusion.select_line_buffers import line_buffer_pooling
from ftm_backend.midend.transforms.fusion.select_transposes import lower_transposes
from ftm_backend.midend.transforms.memory.assign_buffers import assign_buffers
from ftm_backend.midend.transforms.memory.outline_kernels import outline_kernels
from ftm_backend.midend.transforms.memory.resolve_in_place import resolve_in_place
from ftm_backend.midend.transforms.memory.schedule_kernels import schedule_kernels
from ftm_backend.midend.transforms.tensor.conv_transpose_to_col2im import conv_transpose_to_col2im
from ftm_backend.midend.transforms.tensor.fold_pad_into_load import fold_pad_into_load
from ftm_backend.midend.transforms.tensor.fuse_elementwise_producers import (
    fuse_elementwise_producers,
)
from ftm_backend.midend.transforms.tensor.fuse_interior_padding import fuse_interior_padding
from ftm_backend.midend.transforms.tensor.merge_conv_transpose_phases import (
    merge_conv_transpose_phases,
)
from ftm_backend.midend.transforms.tensor.pack_operands import pack_operands
from ftm_backend.midend.transforms.tensor.rematerialize_pool_inputs import rematerialize_pool_inputs
from ftm_backend.midend.transforms.tensor.split_k import split_k
from ftm_backend.midend.transforms.tensor.split_pad import split_pad
from ftm_backend.pass_manager import IRFormat, Pass, VerifyError
from ftm_backend.target.presets import MachineParameters

__all__ = ["FUNCTION", "PASSES", "TILES", "apply", "run"]


def _read_function(content: str, machine: MachineParameters) -> LinalgFunction:
    from ftm_backend.ir.linalg.reader import read_module

    del machine
    with mlir.context(), mlir.ir.Location.unknown():
        return read_module(content)


FUNCTION = IRFormat(print_function, _read_function, ".mlir")
"""Loop nests on tensors."""

GROUPED = IRFormat(text.print_grouped, text.read_grouped, ".mlir", verify_kernels)
"""Kernels on tensors."""

PROGRAM = IRFormat(text.print_program, text.read_program, ".mlir")
"""Kernels on tensors that have buffers."""

SHARED = IRFormat(
    text.print_program,
    lambda content, machine: outline_kernels(text.read_program(content, machine), machine),
    ".mlir",
)
"""Kernels that say which function they call, with what."""

TILES = IRFormat(print_tiles, lambda content, machine: read_tiles(content), ".tiles")
"""Kernels on tiles."""

PASSES: tuple[Pass, ...] = (
    Pass(
        "rematerialize-pool-inputs",
        rematerialize_pool_inputs,
        FUNCTION,
        "what reads windows computes the image, from tensors that are in memory anyway, where that moves less",
        optional=True,
    ),
    Pass(
        "fold-pad-into-load",
        fold_pad_into_load,
        FUNCTION,
        "leave the zeros around what products and poolings read to DMA, where it works beside the core",
        optional=True,
    ),
    Pass(
        "conv-transpose-to-col2im",
        conv_transpose_to_col2im,
        FUNCTION,
        "transposed convolutions become one product whose windows are summed on chip, where that pays",
        optional=True,
    ),
    Pass(
        "merge-conv-transpose-phases",
        merge_conv_transpose_phases,
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
        "split-pad",
        split_pad,
        FUNCTION,
        "write what pads a tensor around it alone, not below it, where DMA works beside the core and rows are long",
        optional=True,
    ),
    Pass(
        "fuse-elementwise-producers",
        fuse_elementwise_producers,
        FUNCTION,
        "let what follows a product compute operands that need none where it reads them",
        optional=True,
    ),
    Pass(
        "resolve-in-place",
        resolve_in_place,
        FUNCTION,
        "give what is written in place memory that nobody else needs; drop what no result needs",
    ),
    Pass(
        "pack-operands",
        pack_operands,
        FUNCTION,
        "copy factors of products whose short dimensions lie innermost, where that pays",
        optional=True,
    ),
    Pass(
        "split-k",
        split_k,
        FUNCTION,
        "cut products with long sums and small results along the sum, where that pays",
        optional=True,
    ),
    Pass("fuse-ops", fuse_ops, GROUPED, "put operations that share a loop nest into one kernel"),
    Pass(
        "fuse-attention",
        fuse_attention,
        GROUPED,
        "put attention, or its gradients, into one kernel: scores stay on chip",
        optional=True,
    ),
    Pass(
        "fuse-conv-backward",
        fuse_conv_backward,
        GROUPED,
        "put both gradients of a product with weights into one kernel with what updates these, where that pays: weights are read once",
        optional=True,
    ),
    Pass(
        "fuse-col2im-epilogue",
        fuse_col2im_epilogue,
        GROUPED,
        "what follows a transposed convolution element by element is computed before its images are stored, where that pays",
        optional=True,
    ),
    Pass(
        "fuse-gemm-prologue",
        fuse_gemm_prologue,
        GROUPED,
        "a factor made for one product alone is computed in its kernel, where that pays",
        optional=True,
    ),
    Pass(
        "fuse-conv-prologue",
        fuse_conv_prologue,
        GROUPED,
        "an image that products alone multiply is computed by them, of what its statistics are taken of, where that pays",
        optional=True,
    ),
    Pass(
        "lower-transposes",
        lower_transposes,
        GROUPED,
        "copies of columns to rows are turned on chip, where DMA works beside the core",
        optional=True,
    ),
    Pass(
        "line-buffer-pooling",
        line_buffer_pooling,
        GROUPED,
        "reductions over windows fetch images once, where DMA works beside the core",
        optional=True,
    ),
    Pass(
        "fuse-pool-reduction",
        fuse_pool_reduction,
        GROUPED,
        "sums of what a kernel of strips makes are taken in it, plane by plane, where that pays",
        optional=True,
    ),
    Pass(
        "fuse-gemm-reduction",
        fuse_gemm_reduction,
        GROUPED,
        "sums of what a product makes are taken in it, block by block, where that pays",
        optional=True,
    ),
    Pass(
        "schedule-kernels",
        schedule_kernels,
        GROUPED,
        "find the kernels that can fault; let kernels that write over inputs wait for them",
    ),
    Pass(
        "assign-buffers",
        assign_buffers,
        PROGRAM,
        "give each value between kernels its DDR buffer; place barriers",
    ),
    Pass(
        "outline-kernels",
        outline_kernels,
        SHARED,
        "turn kernels into functions of buffers and scalars; equal ones are one function",
    ),
    Pass(
        "lower-kernels",
        lower_kernels,
        TILES,
        "turn each function into one of tiles, DMA and maps",
        alias="ftm",
    ),
)


def apply(
    step: Pass, value: Any, machine: MachineParameters, restrictions: Restrictions = NONE
) -> Any:
    """Runs one pass as far as restrictions allow, and verifies what it leaves.

    Raises:
        VerifyError: the pass left kernels that break a rule; the message names the pass.
    """
    if step.name in restrictions.skipped:
        return value
    before = (
        {kernel: kernel.kind for kernel in value.kernels} if isinstance(value, KernelModule) else {}
    )
    separate = {"separate": restrictions.separate} if step.name == "fuse-ops" else {}
    made = step.run(value, machine, **separate)
    if isinstance(made, KernelModule):
        for kernel in made.kernels:
            if before.get(kernel) != kernel.kind:
                kernel.formed_by = step.name
    try:
        step.form.verify(made)
    except VerifyError as error:
        raise VerifyError(f"pass {step.name}: {error}") from error
    if step.name == "schedule-kernels":
        restrictions.shrink(made.kernels)
    return made


def run(
    function: LinalgFunction,
    machine: MachineParameters,
    after: Callable[[str, Any], None] | None = None,
) -> TileProgram:
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
