"""The midend, in order: linalg on tensors in, tile-level ftm out.

Each pass changes the module in place and leaves it valid; the module is verified after each one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ftm_backend.machine.presets import MachineParameters
from ftm_backend.midend.group import group_kernels
from ftm_backend.midend.lower import lower_kernels
from ftm_backend.midend.plan_buffers import plan_buffers
from ftm_backend.midend.simplify import simplify
from ftm_backend.mlir import ir


@dataclass(frozen=True)
class Pass:
    """One named step: ``run(module, machine)`` changes ``module`` in place."""

    name: str
    run: Callable[[ir.Module, MachineParameters], None]
    doc: str


PASSES: tuple[Pass, ...] = (
    Pass("simplify", simplify, "bring every operation into a form that the midend reads; fold views into views"),
    Pass("group-kernels", group_kernels, "put operations that share a loop nest into ftm.kernel"),
    Pass("plan-buffers", plan_buffers, "give each tensor between kernels its DDR buffer; place barriers"),
    Pass("lower-kernels", lower_kernels, "turn each ftm.kernel into a function of tiles, DMA and maps"),
)


def run(
    module: ir.Module,
    machine: MachineParameters,
    after: Callable[[str, ir.Module], None] | None = None,
) -> None:
    """Runs all passes on ``module``, verifying after each.

    Args:
        module: linalg on tensors, as the frontend leaves it.
        machine: what the kernels are grouped and tiled for.
        after: called with the pass's name and the module after each pass.

    Raises:
        ir.MLIRError: a pass left an invalid module.
    """
    for step in PASSES:
        step.run(module, machine)
        module.operation.verify()
        if after is not None:
            after(step.name, module)
