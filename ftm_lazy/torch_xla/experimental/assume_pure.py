"""torch_xla.experimental.assume_pure: functions that need not be traced again; here recording them
is cheap enough."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

from ftm_lazy.torch_xla import _refusals
from ftm_lazy.torch_xla._inert import inert

__all__ = ["PureModule", "assume_pure", "assume_pure_torch"]

__getattr__ = _refusals.getter(__name__)

_XLA_COMPUTATION_CACHE: dict[object, object] = {}
"""Empty: programs are kept by the device's own cache. Programs for torch_xla clear this."""

F = TypeVar("F", bound=Callable[..., Any])

_WHY = "a function is recorded anew in each call, which costs some microseconds an operation; compiled once all the same"


@inert(_WHY)
def assume_pure(fn: F, *, add_rng_seed_argument: bool = False) -> F:
    """`fn`; with `add_rng_seed_argument` it takes ``rng_seed=``, by which the generator is seeded
    for the call."""
    if not add_rng_seed_argument:
        return fn
    from ftm_lazy.torch_xla.core.xla_model import fork_rng, set_rng_state

    @functools.wraps(fn)
    def seeded(*args: object, rng_seed: int | torch.Tensor, **kwargs: object) -> Any:
        with fork_rng():
            set_rng_state(int(rng_seed))
            return fn(*args, **kwargs)

    return cast(F, seeded)


@inert(_WHY)
def assume_pure_torch(func: F, use_cache: bool = False) -> F:
    """`func`."""
    return func


class PureModule(torch.nn.Module):
    """A module around `module`, which it calls."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self._module = module

    def forward(self, *args: object, **kwargs: object) -> Any:
        """What `module` gives."""
        return self._module(*args, **kwargs)
