"""torch_xla.distributed.zero_redundancy_optimizer: optimizer state sharded over processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from ftm_lazy.torch_xla import _world
from ftm_lazy.torch_xla.core import _collectives as collectives

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(torch.optim.Optimizer):
    """Optimizer that updates one shard of the parameters in each process.

    A step reduce-scatters the gradients, updates this process's shard, and gathers the parameters.
    Use its `step` and not `optimizer_step`, which would average the gradients a second time.

    Args:
        params: Parameters or parameter groups.
        optimizer_class: Optimizer of the shards.
        optimizer_dtype: dtype of the shards and their state; None for float32.
        grad_clipping: Scale the gradients so that their norm is at most `max_norm`.
        max_norm: Maximum norm; None for 1.
        pin_layout: Accepted; has no effect.
        sharding_groups: Lists of ordinals, each of which shards all parameters; None for one group
            of all processes.
        grad_norm_groups: Lists of ordinals over which the squared norms are also summed.
        lazy_init: Shard the parameters only when `init_zero` is called.
        bucket_cap_mb_all_gather: Accepted; shards are exchanged one by one.
        bucket_cap_mb_reduce_scatter: Accepted; shards are exchanged one by one.
        use_grad_acc_hook: Accepted; gradients are accumulated in the parameters' dtype.
        save_master_weights: Include the shards in `state_dict`.
        higher_cc_precision: Exchange gradients and parameters in `optimizer_dtype`.
        **defaults: Arguments of `optimizer_class`.
    """

    def __init__(
        self,
        params: Iterable[object],
        optimizer_class: type[torch.optim.Optimizer],
        optimizer_dtype: torch.dtype | None = None,
        grad_clipping: bool = True,
        max_norm: float | None = None,
        pin_layout: bool = True,
        sharding_groups: list[list[int]] | None = None,
        grad_norm_groups: list[list[int]] | None = None,
        lazy_init: bool = False,
        bucket_cap_mb_all_gather: int = 0,
        bucket_cap_mb_reduce_scatter: int = 0,
        use_grad_acc_hook: bool = False,
        save_master_weights: bool = False,
        higher_cc_precision: bool = False,
        **defaults: object,
    ) -> None:
        super().__init__(params, defaults)
        self.optimizer_class = optimizer_class
        self.optimizer_dtype = optimizer_dtype or torch.float32
        self.grad_clipping, self.max_norm = grad_clipping, 1.0 if max_norm is None else max_norm
        self.save_master_weights, self.higher_cc_precision = (
            save_master_weights,
            higher_cc_precision,
        )
        self._groups, self._norm_groups = sharding_groups, grad_norm_groups
        self._grad_norm: torch.Tensor | None = None
        self.inited = False
        if not lazy_init:
            self.init_zero()

    def init_zero(self) -> None:
        """Shard the parameters."""
        # (parameter, its shard)
        self._own: list[tuple[torch.nn.Parameter, torch.nn.Parameter]] = []
        groups = []
        for group in self.param_groups:
            own = [
                (p, torch.nn.Parameter(self._part(p.detach())))
                for p in group["params"]
                if p.requires_grad
            ]
            self._own += own
            groups.append({**group, "params": [part for _, part in own]})
        self.base_optimizer = self.optimizer_class(groups, **self.defaults)
        self.inited = True

    def _ordinals(self) -> list[int]:
        return _world.group(self._groups)[1]

    def _flat(self, tensor: torch.Tensor) -> torch.Tensor:
        """Flatten `tensor`, with zeros at the end so that all shards have the same length."""
        count = len(self._ordinals())
        flat = tensor.reshape(-1)
        return torch.nn.functional.pad(flat, (0, -flat.numel() % count))

    def _part(self, tensor: torch.Tensor) -> torch.Tensor:
        ordinals = self._ordinals()
        part = self._flat(tensor).chunk(len(ordinals))[ordinals.index(_world.ordinal())]
        return part.to(self.optimizer_dtype, copy=True)

    @property
    def grad_norm(self) -> torch.Tensor | None:
        """The norm of all gradients in the last step, if they are clipped."""
        return self._grad_norm

    @property
    def sharding_groups(self) -> list[list[int]]:
        """The groups of ordinals that shard the parameters."""
        return self._groups or [list(range(_world.size()))]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None, **kwargs: object) -> float | None:
        """Make one step.

        Args:
            closure: Recomputes the loss and returns it.
            **kwargs: Arguments of the inner optimizer's `step`.

        Returns:
            The loss of `closure`, or None.

        Raises:
            RuntimeError: `init_zero` was not called.
        """
        if not self.inited:
            raise RuntimeError("the parameters are not sharded yet: call init_zero()")
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for inner, outer in zip(self.base_optimizer.param_groups, self.param_groups, strict=True):
            inner.update({key: value for key, value in outer.items() if key != "params"})
        self._reduce()
        if self.grad_clipping:
            self._clip()
        self.base_optimizer.step(**kwargs)
        self.allgather_weights_and_update_full_parameter()
        return loss

    def _reduce(self) -> None:
        """Set the gradient of each shard to the mean over the processes."""
        count = len(self._ordinals())
        for parameter, part in self._own:
            if parameter.grad is None:
                part.grad = None
                continue
            gradient = self._flat(parameter.grad)
            if self.higher_cc_precision:
                gradient = gradient.to(self.optimizer_dtype)
            reduced: torch.Tensor = collectives.reduce_scatter(
                collectives.REDUCE_SUM, gradient, 1.0 / count, 0, count, self._groups
            )
            part.grad = reduced.to(self.optimizer_dtype)

    def _clip(self) -> None:
        gradients = [part.grad for _, part in self._own if part.grad is not None]
        if not gradients:
            return
        square: torch.Tensor = torch.stack(
            [each.float().square().sum() for each in gradients]
        ).sum()
        square = collectives.all_reduce(collectives.REDUCE_SUM, square, groups=self._groups)
        if self._norm_groups is not None:
            square = collectives.all_reduce(
                collectives.REDUCE_SUM, square, groups=self._norm_groups
            )
        self._grad_norm = square.sqrt()
        factor = torch.clamp(self.max_norm / (self._grad_norm + 1e-6), max=1.0)
        for each in gradients:
            each.mul_(factor.to(each.dtype))

    @torch.no_grad()
    def allgather_weights_and_update_full_parameter(self, sharding_scheme: object = None) -> None:
        """Gather the shards of all processes into the parameters.

        Args:
            sharding_scheme: Accepted; has no effect.
        """
        for parameter, part in self._own:
            sent = part if self.higher_cc_precision else part.to(parameter.dtype)
            whole: torch.Tensor = collectives.all_gather(sent, 0, self._groups)
            parameter.copy_(whole[: parameter.numel()].reshape(parameter.shape))

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Set the gradients to zero, or to None if `set_to_none`."""
        super().zero_grad(set_to_none)

    def remove_hooks(self) -> None:
        """Do nothing: there are no hooks."""

    remove_hooks._inert = "there are no hooks"  # type: ignore[attr-defined]

    def get_shape_info(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """Return the shapes of the parameters by index."""
        return {str(i): {"shape": tuple(p.shape)} for i, (p, _) in enumerate(self._own)}

    def state_dict(self) -> dict[str, object]:
        """Return the state of this process's shards, which differs between processes.

        ``base_state`` and ``sharded_master_weights`` have the parameters' indices as keys, as in
        torch_xla's checkpoints.
        """
        state = super().state_dict()
        state["base_state"] = self.base_optimizer.state_dict()["state"]
        state["shape_info"] = self.get_shape_info()
        if self.save_master_weights:
            state["sharded_master_weights"] = {
                i: part.detach() for i, (_, part) in enumerate(self._own)
            }
        return state

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a `state_dict` of the same process.

        Without master weights, the shards are copied from the parameters.
        """
        if not self.inited:
            self.init_zero()
        super().load_state_dict({key: state_dict[key] for key in ("state", "param_groups")})
        groups = self.base_optimizer.state_dict()["param_groups"]
        self.base_optimizer.load_state_dict(
            {"state": state_dict["base_state"], "param_groups": groups}
        )
        weights = state_dict.get("sharded_master_weights") or {
            i: self._part(p) for i, (p, _) in enumerate(self._own)
        }
        for i, (_, part) in enumerate(self._own):
            part.copy_(weights[i])
