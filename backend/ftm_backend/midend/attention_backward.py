"""Lowers the gradients of attention: phases (``attention_backward_phases``), between which all cores meet."""

from __future__ import annotations

from math import prod

from ftm_backend.midend.attention_backward_form import AttentionBackward, read_attention_backward
from ftm_backend.midend.attention_backward_phases import phases_of
from ftm_backend.midend.attention_backward_plan import backward_plan
from ftm_backend.midend.kernel import Kernel
from ftm_backend.tile.builder import TileBuilder

__all__ = ["lower", "workspace"]


def workspace(kernel: Kernel) -> list[tuple[str, int]]:
    """What the first phase leaves for the others: three numbers for each row of scores."""
    form = _form(kernel)
    return [(form.accumulator, prod(form.extents[:-3]))] * len(form.known)


def lower(kernel: Kernel, b: TileBuilder) -> None:
    """Builds the kernel's function body at the insertion point.

    Raises:
        ValueError: the kernel's statements are no gradients of an attention whose blocks fit on chip.
    """
    form = _form(kernel)
    plan = backward_plan(form, kernel.machine)
    if plan is None:
        raise ValueError("gradients of an attention do not fit on chip")
    for number, (phase, sizes) in enumerate(zip(phases_of(form), plan.sizes, strict=True)):
        if number:
            b.barrier()
        phase(form, b, sizes, kernel.workspaces).build(kernel)


def _form(kernel: Kernel) -> AttentionBackward:
    form = read_attention_backward(kernel.statements)
    if form is None:
        raise ValueError("statements of an attention-backward kernel are no gradients of an attention")
    return form
