"""Mixin for optimizers whose step is skipped depending on a tensor on the device."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ftm_lazy.device import registration

__all__ = ["Skipping"]


class Skipping(torch.optim.Optimizer):
    """Mixin: `step` with `found_inf` changes nothing if that is not 0.

    The step is always computed. Each changed tensor is then selected from its old and its new
    value, all in one program.
    """

    @torch.no_grad()
    def step(
        self, closure: Callable[[], object] | None = None, found_inf: torch.Tensor | None = None
    ) -> object:
        """Make one step.

        Args:
            closure: Recomputes the loss and returns it.
            found_inf: A scalar tensor; the step is skipped if it is not 0. None never skips.

        Returns:
            The loss of `closure`, or None.

        Raises:
            ValueError: `found_inf` is not a scalar.
        """
        if found_inf is None:
            return super().step(closure)
        if found_inf.shape:
            raise ValueError("The found_inf tensor has to be scalar type")
        registration.hold_steps(+1)
        try:
            for group in self.param_groups:
                if "capturable" in group:
                    # keeps the step count on the device, so that it can be reverted
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
        """Return the tensors that a step changes: parameters with gradients, and their state."""
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
