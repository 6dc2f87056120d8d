"""Programs of tensors that say what they saw; see `test_eager_semantics`."""

from collections.abc import Callable

import torch
from torch import Tensor

Program = Callable[[Callable[[Tensor], Tensor]], list[object]]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """Registers a program: it takes `put`, which brings a CPU tensor to the device, and returns
    what it saw."""
    PROGRAMS[function.__name__] = function
    return function


def iota(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.arange(torch.Size(shape).numel(), dtype=dtype).reshape(shape)
