"""Capture of a function as a program: run it once on placeholders and keep the recorded trace.

A placeholder is a tensor on ftm with a dtype and strides but no content. The recorder treats it as
any other tensor, so views, random numbers, runtime scalars and composite ops behave the same in all
frontends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ftm_lazy import _C
from ftm_lazy.device.device_name import NAME
from ftm_lazy.device.registration import initialize
from ftm_lazy.torch_version import private_names

DEVICE = torch.device(NAME)
"""The current device, on which placeholders are made."""


class CaptureError(RuntimeError):
    """A function cannot be captured as one program; the message has the place and the remedy."""


@contextmanager
def capturing() -> Iterator[_C._Capture]:
    """Record on this thread, with autograd, autocast and tensor modes off.

    Backward passes within the context also run on this thread, so they are part of the recording.

    Yields:
        The recorder's ``_Capture``.
    """
    initialize()
    with (
        _disable_current_modes(),
        torch.no_grad(),
        private_names.DisableAutocast(),
        torch.autograd.set_multithreading_enabled(False),
    ):
        recording = _C._Capture()
        try:
            yield recording
        finally:
            recording.end()


def check_in_memory(tensor: torch.Tensor) -> None:
    """Check that a tensor can be an input or result of a program.

    Raises:
        NotImplementedError: The tensor is sparse or quantized.
    """
    if tensor.layout != torch.strided or tensor.is_quantized:
        kind = "quantized" if tensor.is_quantized else str(tensor.layout).removeprefix("torch.")
        raise NotImplementedError(
            f"inputs and results of a program are strided tensors; it takes no {kind} one"
        )


def placeholder_like(recording: _C._Capture, tensor: torch.Tensor) -> torch.Tensor:
    """Create a placeholder with the sizes, strides and dtype of `tensor`.

    Args:
        recording: The ``_Capture`` of `capturing`.
        tensor: The example.

    Raises:
        NotImplementedError: The tensor is sparse or quantized.
    """
    check_in_memory(tensor)
    return recording.placeholder(list(tensor.shape), list(tensor.stride()), tensor.dtype)


def resolved(tensor: torch.Tensor) -> torch.Tensor:
    """Return `tensor` without conjugate and negative bits, which programs do not have."""
    return tensor.resolve_conj().resolve_neg()


def on_device(tensor: torch.Tensor) -> torch.Tensor:
    """Return a result of a recording as a program can return it: on ftm, without lazy bits."""
    return resolved(tensor.to(DEVICE))


def capture(
    function: Callable[..., Sequence[torch.Tensor]], inputs: Sequence[torch.Tensor]
) -> _C._Captured:
    """Capture ``function(*inputs)`` as a program.

    Args:
        function: Takes tensors on ftm and returns a list of them. In-place writes to its arguments
            are part of the program.
        inputs: Example tensors; only their sizes, strides and dtypes matter.

    Returns:
        The recorder's ``_Captured``, with the trace's ``text``, `build` and `launch`.

    Raises:
        CaptureError: An op cannot be recorded, or the function reads the value of a tensor.
    """
    with capturing() as recording:
        placeholders = [placeholder_like(recording, tensor) for tensor in inputs]
        try:
            outputs = [on_device(tensor) for tensor in function(*placeholders)]
            return recording.finish(outputs, [True] * len(outputs))
        except NotImplementedError as error:
            raise CaptureError(str(error)) from error
