"""Programs on tensors that return their observations; see `test_eager_semantics`."""

from collections.abc import Callable

import torch
from torch import Tensor

Program = Callable[[Callable[[Tensor], Tensor]], list[object]]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """Register a program.

    It takes `put`, which moves a CPU tensor to the device, and returns its observations.
    """
    PROGRAMS[function.__name__] = function
    return function


def iota(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.arange(torch.Size(shape).numel(), dtype=dtype).reshape(shape)
