"""torch_xla.experimental.fori_loop: loops with a computed end; each step runs as a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ftm_lazy.torch_xla.experimental import _loops

__all__ = ["fori_loop", "while_loop"]


def while_loop(
    cond_fn: Callable[..., torch.Tensor],
    body_fn: Callable[..., Sequence[object]],
    carried_inputs: Sequence[object],
    additional_inputs: Sequence[object] | None = None,
) -> tuple[object, ...]:
    """Run ``while cond_fn(*carried, *others): carried = body_fn(*carried, *others)``.

    Each step is one program together with its condition, which is read after the step.

    Args:
        cond_fn: Returns the condition, a bool tensor of one element.
        body_fn: Returns the next carried values.
        carried_inputs: The first carried values.
        additional_inputs: Values that are the same in each step.

    Returns:
        The last carried values.
    """
    carried, others = _loops.copies(tuple(carried_inputs)), tuple(additional_inputs or ())
    while bool(cond_fn(*carried, *others)):
        carried = tuple(body_fn(*carried, *others))
    return carried


def fori_loop(
    lower: int | torch.Tensor,
    upper: int | torch.Tensor,
    body_fun: Callable[..., object],
    *input_value: object,
) -> object:
    """Apply a function ``upper - lower`` times to its own result.

    Args:
        lower: A number or a tensor of one element.
        upper: A number or a tensor of one element.
        body_fun: The function.
        *input_value: Its first arguments.

    Returns:
        The last result.
    """
    value = _loops.copies(input_value)
    pieces = _loops.Pieces()
    for _ in range(int(lower), int(upper)):
        result = body_fun(*value)
        value = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        pieces.end_of_step([each for each in value if isinstance(each, torch.Tensor)])
    return value[0] if len(value) == 1 else value
