"""torch_xla.distributed.zero_redundancy_optimizer: each process keeps the optimizer's state of its
part of the parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from ftm_lazy.torch_xla import _world
from ftm_lazy.torch_xla.core import _collectives as collectives

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(torch.optim.Optimizer):
    """An optimizer on parts: gradients are averaged and divided, a part is stepped in each process,
    parts are gathered.

    Use its `step`, not `optimizer_step`, which would average the gradients once more.

    Args:
        params: parameters or groups of them. optimizer_class: steps a part, with `defaults`.
        optimizer_dtype: of the parts and their state; float32 if None. grad_clipping: scale the
        gradients so that their norm is at most `max_norm`. max_norm: 1 if None. pin_layout:
        accepted; it means nothing here. sharding_groups: lists of ordinals that divide the
        parameters among them; all together if None. grad_norm_groups: lists of ordinals over which
        squares of norms are added as well. lazy_init: divide the parameters when `init_zero` is
        called. bucket_cap_mb_all_gather: accepted; parts travel one by one.
        bucket_cap_mb_reduce_scatter: accepted; parts travel one by one. use_grad_acc_hook:
        accepted; gradients are added up in the parameters' dtype. save_master_weights: have the
        parts in `state_dict`. higher_cc_precision: exchange in `optimizer_dtype`. defaults: for
        `optimizer_class`.
    """

    def __init__(
        self,
        params: Iterable[Any],
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
        """Divide the parameters."""
        # a parameter, and the part of it
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
        """`tensor` as one dimension, with zeros at its end so that all parts have the same
        length."""
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
        """Which processes divide the parameters among them."""
        return self._groups or [list(range(_world.size()))]

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None, **kwargs: object) -> Any:
        """One step; `closure` computes the loss anew and returns it, `kwargs` are for the optimizer
        inside."""
        if not self.inited:
            raise RuntimeError("the parameters are not divided yet: call init_zero()")
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
        """Give each part the mean of its gradients."""
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
        """Give each process the parameters that its and the others' parts make."""
        for parameter, part in self._own:
            sent = part if self.higher_cc_precision else part.to(parameter.dtype)
            whole: torch.Tensor = collectives.all_gather(sent, 0, self._groups)
            parameter.copy_(whole[: parameter.numel()].reshape(parameter.shape))

    def zero_grad(self, set_to_none: bool = False) -> None:
        """Forget the gradients, or sets them to zero."""
        super().zero_grad(set_to_none)

    def remove_hooks(self) -> None:
        """Accepted: there are no hooks."""

    remove_hooks._inert = "there are no hooks"  # type: ignore[attr-defined]

    def get_shape_info(self) -> dict[str, Any]:
        """Return the shapes of the parameters, by their position."""
        return {str(i): {"shape": tuple(p.shape)} for i, (p, _) in enumerate(self._own)}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this process's parts; each process has a state of its own.

        ``base_state`` and ``sharded_master_weights`` are by the position of a parameter, as in
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
        """Take what `state_dict` of the same process gave. Without master weights the parts come
        from the parameters."""
        if not self.inited:
            self.init_zero()
        rest = {key: value for key, value in state_dict.items() if key in ("state", "param_groups")}
        super().load_state_dict(rest)
        groups = self.base_optimizer.state_dict()["param_groups"]
        self.base_optimizer.load_state_dict(
            {"state": state_dict["base_state"], "param_groups": groups}
        )
        weights = state_dict.get("sharded_master_weights") or {
            i: self._part(p) for i, (p, _) in enumerate(self._own)
        }
        for i, (_, part) in enumerate(self._own):
            part.copy_(weights[i])
