"""torch_xla.experimental.assume_pure: functions that are traced once; ftm records each call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar, cast

import torch

from ftm_lazy.torch_xla import _refusals
from ftm_lazy.torch_xla._inert import inert

__all__ = ["PureModule", "assume_pure", "assume_pure_torch"]

__getattr__ = _refusals.getter(__name__)

_XLA_COMPUTATION_CACHE: dict[object, object] = {}
"""Empty: the device has its own program cache. torch_xla programs clear this one."""

F = TypeVar("F", bound=Callable[..., object])

_WHY = (
    "each call is recorded, which costs some microseconds per operation; it is compiled only once"
)


@inert(_WHY)
def assume_pure(fn: F, *, add_rng_seed_argument: bool = False) -> F:
    """Return `fn`.

    Args:
        fn: The function.
        add_rng_seed_argument: Add a parameter ``rng_seed``, which seeds the generator for the call.
    """
    if not add_rng_seed_argument:
        return fn
    from ftm_lazy.torch_xla.core.xla_model import fork_rng, set_rng_state

    @functools.wraps(fn)
    def seeded(*args: object, rng_seed: int | torch.Tensor, **kwargs: object) -> object:
        with fork_rng():
            set_rng_state(int(rng_seed))
            return fn(*args, **kwargs)

    return cast(F, seeded)


@inert(_WHY)
def assume_pure_torch(func: F, use_cache: bool = False) -> F:
    """Return `func`."""
    return func


class PureModule(torch.nn.Module):
    """Module that calls another module.

    Args:
        module: The other module.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self._module = module

    def forward(self, *args: object, **kwargs: object) -> object:
        """Call the module."""
        return self._module(*args, **kwargs)
