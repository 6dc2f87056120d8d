"""torch_xla.experimental.fori_loop: loops whose end is computed, a program for each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ftm_lazy.torch_xla.experimental import _loops

__all__ = ["fori_loop", "while_loop"]


def while_loop(
    cond_fn: Callable[..., torch.Tensor],
    body_fn: Callable[..., Sequence[Any]],
    carried_inputs: Sequence[Any],
    additional_inputs: Sequence[Any] | None = None,
) -> tuple[Any, ...]:
    """``while cond_fn(*carried): carried = body_fn(*carried)``.

    The condition is read after each step, with which it is one program.

    Args:
        cond_fn: of the carried and the additional inputs; gives a bool.
        body_fn: of the same; gives the next carried ones.
        carried_inputs: the first ones.
        additional_inputs: the same in each step.

    Returns:
        the last carried ones.
    """
    carried, others = tuple(carried_inputs), tuple(additional_inputs or ())
    while bool(cond_fn(*carried, *others)):
        carried = tuple(body_fn(*carried, *others))
    return carried


def fori_loop(lower: Any, upper: Any, body_fun: Callable[..., Any], *input_value: Any) -> Any:
    """`body_fun` applied ``upper - lower`` times to `input_value`; the last result is returned."""
    value = input_value
    pieces = _loops.Pieces()
    for _ in range(int(lower), int(upper)):
        result = body_fun(*value)
        value = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        pieces.end_of_step([each for each in value if isinstance(each, torch.Tensor)])
    return value[0] if len(value) == 1 else value
