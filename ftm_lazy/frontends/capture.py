"""A function as a program: it is run once on placeholders, and what it recorded is the trace.

A placeholder is a tensor on ftm that has a type and no content. The recorder treats it as any other
tensor, so that views, random numbers, runtime scalars and ops made of others are the same behind
every front door.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ftm_lazy import _C
from ftm_lazy.device.device_name import NAME
from ftm_lazy.device.registration import initialize

__all__ = [
    "DEVICE",
    "CaptureError",
    "capture",
    "capturing",
    "check_in_memory",
    "on_device",
    "placeholder_like",
    "resolved",
]

DEVICE = torch.device(NAME, 0)


class CaptureError(RuntimeError):
    """A function cannot be captured as one program; the message says where and what to do."""


@contextmanager
def capturing() -> Iterator[Any]:
    """A recording on this thread: gives the recorder's ``_Capture``; autograd, autocast and tensor
    modes are off.

    Gradients that are asked for meanwhile are computed on this thread, too, so that they are part
    of the recording.
    """
    initialize()
    with (
        _disable_current_modes(), torch.no_grad(), torch._C._DisableAutocast(), torch.autograd.set_multithreading_enabled(False),
    ):  # fmt: skip
        recording = _C._Capture()
        try:
            yield recording
        finally:
            recording.end()


def check_in_memory(tensor: torch.Tensor) -> None:
    """NotImplementedError if it is sparse or quantized: what a program takes and gives are elements
    in memory."""
    if tensor.layout != torch.strided or tensor.is_quantized:
        kind = "quantized" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
        raise NotImplementedError(
            f"a program takes and gives tensors with their elements in memory, no {kind} one"
        )


def placeholder_like(recording: Any, tensor: torch.Tensor) -> torch.Tensor:
    """Return a placeholder with sizes, strides and dtype of ``tensor``; NotImplementedError as
    `check_in_memory`."""
    check_in_memory(tensor)
    return recording.placeholder(list(tensor.shape), list(tensor.stride()), tensor.dtype)


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor with its values in memory, where conjugation or negation may be a mere bit of it:
    programs know memory."""
    return tensor.resolve_conj().resolve_neg()


def on_device(tensor: torch.Tensor) -> torch.Tensor:
    """Return a result of a recording as a program may give it."""
    return resolved(tensor.to(DEVICE))


def capture(function: Callable[..., Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor]) -> Any:
    """Return the program of ``function(*inputs)``.

    Args:
        function: takes ftm tensors and gives a list of them; what it writes over in them is part of
        the program. inputs: examples; only sizes, strides and dtypes of them count.

    Returns:
        The recorder's ``_Captured``: its trace's ``text``, and `launch` once it is built.

    Raises:
        CaptureError: an op has no record, or the function asks for the value of a tensor.
    """
    with capturing() as recording:
        placeholders = [placeholder_like(recording, tensor) for tensor in inputs]
        try:
            outputs = [on_device(tensor) for tensor in function(*placeholders)]
            return recording.finish(outputs, [True] * len(outputs))
        except NotImplementedError as error:
            raise CaptureError(str(error)) from error
