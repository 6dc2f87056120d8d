"""What is run for an entry of optim_db: 20 steps on a small model, then losses, parameters and
state are compared.

| check | how the optimizer runs |
|---|---|
| plain | with every one of the entry's configurations (momentum, amsgrad, maximize, ...), one tensor at a time |
| foreach | the same with `foreach=True` |
| fused | the same with `fused=True` |
| scheduled | the first configuration with each of the entry's schedulers |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

# by this name, the engine's search for what is random does not change it
from torch import manual_seed as seed
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from opdb.compare import Tolerance, slack
from opdb.engine import Case, Leaf
from opdb.op_checks import leaves
from opdb.place import Place

__all__ = ["CHECKS", "applies", "cases", "dtypes", "tolerance"]

CHECKS = ("plain", "foreach", "fused", "scheduled")
STEPS = 20

_SEED = 5


def dtypes(info: Any) -> list[torch.dtype]:
    """float32; float64 for what evaluates the loss several times in each step, and goes where
    rounding leads it."""
    return [torch.float64 if info.step_requires_closure else torch.float32]


def applies(info: Any, dtype: torch.dtype, check: str) -> bool:
    """Whether the entry has this implementation, for the CPU to compare with."""
    if check == "fused":
        return "fused" in info.supported_impls and "cpu" in info.supports_fused_on
    return check != "foreach" or "foreach" in info.supported_impls


def tolerance(info: Any, dtype: torch.dtype) -> Tolerance:
    """The entries have no overrides for a comparison with the CPU."""
    return slack(info.optim_cls.__name__)


def cases(info: Any, dtype: torch.dtype, check: str) -> Iterator[Case]:
    """The cases of one check."""
    configurations = list(info.optim_inputs_func(device=torch.device("cpu"), dtype=dtype))
    implementation = {"foreach": {"foreach": True}, "fused": {"fused": True}}.get(check, {})
    if not implementation and "foreach" in info.supported_impls:
        implementation = {"foreach": False}
    if check == "scheduled":
        for index, makers in enumerate(info.scheduler_inputs):
            yield Case(
                f"schedulers {index}",
                _Run(info, dtype, configurations[0].kwargs | implementation, makers),
            )
        return
    for given in configurations:
        yield Case(given.desc, _Run(info, dtype, given.kwargs | implementation, []))


class _Run:
    """Trains a small model at a place."""

    def __init__(
        self, info: Any, dtype: torch.dtype, kwargs: dict[str, Any], schedulers: list[Any]
    ) -> None:
        self._info = info
        self._dtype = dtype
        # of 20, for the same reason
        self._kwargs = kwargs | ({"max_iter": 4} if info.step_requires_closure else {})
        self._schedulers = schedulers

    def __call__(self, place: Place) -> list[Leaf]:
        seed(_SEED)
        sparse = self._info.only_supports_sparse_grads
        # matrices: Muon takes no other
        body = [nn.Linear(6, 5, bias=False), nn.Tanh(), nn.Linear(5, 3, bias=False)]
        model = nn.Embedding(7, 3, sparse=True) if sparse else nn.Sequential(*body)
        given = torch.randint(7, (8,)) if sparse else torch.randn(8, 6)
        kind = place.dtype(self._dtype)
        inputs, targets = place.put([given, torch.randn(8, 3)])
        inputs, targets = inputs if sparse else inputs.to(kind), targets.to(kind)
        with torch.no_grad():
            model.to(device=place.device, dtype=kind)
        optimizer = self._info.optim_cls(model.parameters(), **place.put(self._kwargs))
        schedulers = [make(optimizer) for make in self._schedulers]
        losses = []

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = (model(inputs) - targets).square().mean()
            loss.backward()
            return loss

        for _ in range(STEPS):
            losses.append(
                optimizer.step(closure).detach()
                if self._info.step_requires_closure
                else closure().detach()
            )
            if not self._info.step_requires_closure:
                optimizer.step()
            for scheduler in schedulers:
                scheduler.step(losses[-1]) if isinstance(
                    scheduler, ReduceLROnPlateau
                ) else scheduler.step()
        found: list[Leaf] = [("losses", torch.stack(losses))]
        found += [(f"parameter {name}", value.detach()) for name, value in model.named_parameters()]
        found += [("learning rate", float(group["lr"])) for group in optimizer.param_groups]
        return found + _state(optimizer)


def _state(optimizer: torch.optim.Optimizer) -> list[Leaf]:
    """The state's tensors that are as large as parameters: counts of steps live where the
    implementation puts them."""
    state = optimizer.state_dict()["state"]
    return [
        (name, leaf)
        for name, leaf in leaves("state", state)
        if isinstance(leaf, torch.Tensor) and leaf.dim() > 0
    ]
