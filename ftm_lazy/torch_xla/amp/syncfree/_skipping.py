"""A step that is taken or not by a number on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ftm_lazy.device import registration

__all__ = ["Skipping"]


class Skipping(torch.optim.Optimizer):
    """Mixed into an optimizer of PyTorch's: `step` with `found_inf` changes nothing where that is
    not 0.

    The step is computed, and what it changed is chosen between before and after, all in one
    program.
    """

    @torch.no_grad()
    def step(
        self, closure: Callable[[], Any] | None = None, found_inf: torch.Tensor | None = None
    ) -> Any:
        """One step.

        Args:
            closure: computes the loss anew and returns it.
            found_inf: a scalar; the step is skipped where it is not 0.  None: it is taken.

        Raises ValueError if `found_inf` is no scalar.
        """
        if found_inf is None:
            return super().step(closure)
        if found_inf.shape:
            raise ValueError("The found_inf tensor has to be scalar type")
        registration.hold_steps(+1)
        try:
            for group in self.param_groups:
                if "capturable" in group:
                    # the count of steps lies on the device, where it can be kept back
                    group["capturable"] = True
            before = {id(tensor): tensor.clone() for tensor in self._tensors()}
            loss = super().step(closure)
            for tensor in self._tensors():
                old = before.get(id(tensor))
                tensor.copy_(
                    torch.where(
                        found_inf > 0, torch.zeros_like(tensor) if old is None else old, tensor
                    )
                )
        finally:
            registration.hold_steps(-1)
        registration.end_step(self)
        return loss

    def _tensors(self) -> list[torch.Tensor]:
        """What a step changes: the parameters that have gradients, and the state."""
        parameters = [
            p for group in self.param_groups for p in group["params"] if p.grad is not None
        ]
        states = [
            value
            for p in parameters
            for value in self.state[p].values()
            if isinstance(value, torch.Tensor)
        ]
        return parameters + states
