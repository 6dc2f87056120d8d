"""torch_xla.distributed.fsdp.xla_fully_sharded_data_parallel: torch_xla's wrapper, with FSDP2."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_leaves, tree_map_only

from ftm_lazy.device.device_name import NAME
from ftm_lazy.torch_xla import _refusals, _steps, _world
from ftm_lazy.torch_xla.core import _collectives as collectives
from ftm_lazy.torch_xla.distributed import xla_backend
from ftm_lazy.torch_xla.distributed.fsdp.wrap import recursive_wrap

__all__ = [
    "FLOAT_DTYPES",
    "TrainingState",
    "XlaFullyShardedDataParallel",
    "apply_to_tensors",
    "collect_tensors",
]

__getattr__ = _refusals.getter(__name__)

FLOAT_DTYPES = [torch.float32, torch.float16, torch.bfloat16]
XLA_DISABLE_FUNCTIONALIZATION = False

_divided = False  # see `_divided_state`


class TrainingState(enum.Enum):
    """State of a wrapped module; FSDP2 has its own states, so there is one here."""

    IDLE = enum.auto()


def apply_to_tensors(fn: Callable[[torch.Tensor], object], container: object) -> object:
    """Return a copy of `container` with `fn` applied to its tensors."""
    return tree_map_only(torch.Tensor, fn, container)


def collect_tensors(container: object) -> list[torch.Tensor]:
    """Return the tensors in `container`."""
    return [each for each in tree_leaves(container) if isinstance(each, torch.Tensor)]


class XlaFullyShardedDataParallel(nn.Module):
    """Module whose parameters are sharded over the processes, along dimension 0.

    They are gathered while the module computes. Use ``optimizer.step()`` and not `optimizer_step`,
    because the backward pass already reduces the gradients. Arguments that are not listed only
    affect torch_xla's implementation and have no effect.

    Args:
        module: The module, on any device. On meta it needs `param_init_fn` or submodules with
            ``reset_parameters``.
        reshard_after_forward: Free the gathered parameters after the forward pass, to save memory.
        disable_reshard_on_root: Keep those of the outermost module.
        compute_dtype: dtype of parameters and inputs in the computation; None for the parameters'.
        buffer_dtype: dtype of buffers.
        fp32_reduce_scatter: Reduce gradients in float32 for any `compute_dtype`.
        sharding_groups: Lists of ordinals, each of which shards a whole model; None for one group
            of all processes.
        auto_wrap_policy: Selects submodules that are wrapped separately; see `wrap`.
        auto_wrapper_callable: Wraps them; None for this class.
        param_init_fn: Initializes a module that was on meta.
    """

    def __init__(
        self,
        module: nn.Module,
        reshard_after_forward: bool = True,
        flatten_parameters: bool = False,
        execute_sharding_on_init: bool = True,
        optimization_barrier_in_forward: bool = True,
        optimization_barrier_in_backward: bool = True,
        sync_on_finalization: bool = False,
        disable_reshard_on_root: bool = True,
        compute_dtype: torch.dtype | None = None,
        buffer_dtype: torch.dtype | None = None,
        fp32_reduce_scatter: bool = False,
        sharding_groups: list[list[int]] | None = None,
        sharding_rank: int | None = None,
        sharding_world_size: int | None = None,
        shard_param_on_dim_0: bool = False,
        pin_layout_in_collective_ops: bool = True,
        reduce_scatter_bucket_size_mb: int | None = 0,
        coalesce_all_gather_ops: bool = False,
        auto_wrap_policy: Callable[..., bool] | None = None,
        auto_wrapper_callable: Callable[..., nn.Module] | None = None,
        param_init_fn: Callable[[nn.Module], None] | None = None,
        _shard_size_multiple: int = 128,
        _use_xla_patched_linear: bool = True,
        _debug_dummy_forward_pass: bool = False,
        _debug_msg: str = "xla_fsdp",
        _debug_print: bool = False,
        _debug_dummy_all_gather_op: bool = False,
        _debug_dummy_all_reduce_op: bool = False,
        _debug_dummy_reduce_scatter_op: bool = False,
        _debug_dummy_optimization_barrier_op: bool = False,
    ) -> None:
        if isinstance(module, XlaFullyShardedDataParallel):
            raise RuntimeError(
                "Cannot wrap a module that is already wrapped with FSDP. For nested FSDP, first"
                " wrap the inner child modules before wrapping the outer parent module."
            )
        super().__init__()
        if auto_wrap_policy is not None:
            inner = {
                "compute_dtype": compute_dtype,
                "buffer_dtype": buffer_dtype,
                "fp32_reduce_scatter": fp32_reduce_scatter,
                "reshard_after_forward": reshard_after_forward,
                "sharding_groups": sharding_groups,
                "disable_reshard_on_root": False,
            }
            wrapper = auto_wrapper_callable or XlaFullyShardedDataParallel
            recursive_wrap(
                module, auto_wrap_policy, wrapper, set(), set(), only_wrap_children=True, **inner
            )
        self._groups = sharding_groups
        self._module = _on_device(module, param_init_fn)
        for buffer in self._module.buffers():
            if buffer.is_floating_point() and (buffer_dtype or compute_dtype):
                buffer.data = buffer.data.to(buffer_dtype or compute_dtype)
        policy = MixedPrecisionPolicy(
            param_dtype=compute_dtype, reduce_dtype=torch.float32 if fp32_reduce_scatter else None
        )
        fully_shard(
            self._module,
            mesh=_mesh(sharding_groups),
            reshard_after_forward=None
            if reshard_after_forward and disable_reshard_on_root
            else reshard_after_forward,
            mp_policy=policy,
        )
        if execute_sharding_on_init:
            _steps.sync()

    @property
    def module(self) -> nn.Module:
        """The wrapped module."""
        return self._module

    def forward(self, *args: object, **kwargs: object) -> object:
        """Call the wrapped module."""
        return self._module(*args, **kwargs)

    def extra_repr(self) -> str:
        """Return the number of processes for `repr`."""
        return f"world_size={_world.size()}"

    def assert_state(self, state: object) -> None:
        """Do nothing."""

    assert_state._inert = "FSDP2 has its own states"  # type: ignore[attr-defined]

    # --- gradients

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accumulate gradients in each process without reduction, within the context."""
        self._module.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self._module.set_requires_gradient_sync(True)

    def set_gradient_divide_factors(self, pre: float, post: float, recursive: bool) -> None:
        """Divide gradients by ``pre * post`` instead of the number of processes.

        Args:
            pre: A factor.
            post: A factor.
            recursive: Also for wrapped submodules.
        """
        modules = self.modules() if recursive else [self]
        for each in modules:
            if isinstance(each, XlaFullyShardedDataParallel):
                each._module.set_gradient_divide_factor(pre * post)

    @property
    def params_with_grad(self) -> list[nn.Parameter]:
        """The parameters that have gradients."""
        return [parameter for parameter in self.parameters() if parameter.grad is not None]

    @torch.no_grad()
    def clip_grad_norm_(
        self, max_norm: float, norm_type: float = 2.0, groups: list[list[int]] | None = None
    ) -> torch.Tensor:
        """Scale all gradients so that their common norm is at most `max_norm`.

        Args:
            max_norm: Maximum norm.
            norm_type: Order of the norm, a number or infinity.
            groups: Lists of ordinals, each of which shards a whole model; None for those of the
                constructor.

        Returns:
            The norm before the scaling.
        """
        gradients = [_local(parameter.grad) for parameter in self.params_with_grad]
        device = torch.device(NAME, 0)
        norms = [
            torch.linalg.vector_norm(each.float(), norm_type) for each in gradients if each.numel()
        ]
        own = torch.stack(norms) if norms else torch.zeros(1, device=device)
        groups = groups or self._groups
        total: torch.Tensor
        if norm_type == float("inf"):
            total = collectives.all_reduce(collectives.REDUCE_MAX, own.max(), groups=groups)
        else:
            total = collectives.all_reduce(
                collectives.REDUCE_SUM, own.pow(norm_type).sum(), groups=groups
            )
            total = total.pow(1.0 / norm_type)
        factor = torch.clamp(max_norm / (total + 1e-6), max=1.0)
        for each in gradients:
            each.mul_(factor.to(each.dtype))
        return total

    # --- checkpoints

    def state_dict(self, *args: object, **kwargs: object) -> dict[str, torch.Tensor]:
        """Return this process's shards of the parameters, and the buffers, by name."""
        inner = self._module.state_dict(*args, **kwargs)
        if _divided:
            return inner
        for name, value in list(inner.items()):
            inner[name] = _local(value)
        return inner

    def load_state_dict(
        self, state_dict: Mapping[str, torch.Tensor], strict: bool = True, assign: bool = False
    ) -> None:
        """Load a `state_dict` of the same process.

        Args:
            state_dict: Names to shards and buffers.
            strict: Whether the names must be equal.
            assign: Accepted; values are always copied.

        Raises:
            RuntimeError: Names or shapes differ.
        """
        own = self._divided_state()
        if strict and own.keys() != state_dict.keys():
            raise RuntimeError(f"the names differ: {sorted(own.keys() ^ state_dict.keys())}")
        with torch.no_grad():
            for name in own.keys() & state_dict.keys():
                target = _local(own[name])
                if target.shape != state_dict[name].shape:
                    raise RuntimeError(
                        f"{name}: {tuple(state_dict[name].shape)}, but the shard of this process"
                        f" has {tuple(target.shape)}"
                    )
                target.copy_(state_dict[name])

    def _divided_state(self) -> dict[str, torch.Tensor]:
        """Return the state with FSDP2's distributed tensors, including wrapped submodules."""
        global _divided
        _divided = True
        try:
            return self._module.state_dict()
        finally:
            _divided = False

    def get_shard_metadata(self) -> dict[str, object]:
        """Return the metadata that `consolidate_sharded_state_dicts` needs."""
        sharded = {
            name: {"_orig_name": name, "_orig_size": tuple(value.shape)}
            for name, value in self._divided_state().items()
            if isinstance(value, DTensor)
        }
        buffers = {
            name: {"_orig_dtype": buffer.dtype} for name, buffer in self._module.named_buffers()
        }
        return {
            "rank": _world.ordinal(),
            "world_size": _world.size(),
            "shard_info": sharded,
            "buffer_info": buffers,
        }

    def get_original_names_and_sharded_parameters(self) -> list[tuple[str, nn.Parameter]]:
        """Return (name, parameter) pairs of the wrapped module."""
        return list(self._module.named_parameters())


def _on_device(module: nn.Module, initialize: Callable[[nn.Module], None] | None) -> nn.Module:
    device = torch.device(NAME, 0)
    if not any(parameter.is_meta for parameter in module.parameters()):
        return module.to(device)
    module.to_empty(device=device)
    if initialize is not None:
        initialize(module)
    else:
        for each in module.modules():
            if hasattr(each, "reset_parameters"):
                each.reset_parameters()
    return module


def _mesh(groups: list[list[int]] | None) -> DeviceMesh:
    """Return the mesh of processes that shard one model; initialize torch.distributed if needed."""
    if not dist.is_initialized():
        dist.init_process_group("xla", init_method="xla://")
    whole = torch.tensor(groups or [list(range(_world.size()))])
    return DeviceMesh(NAME, whole, mesh_dim_names=("replica", "shard"))["shard"]


def _accept_local_state() -> None:
    """Let optimizers load the shards of their state that a process saved.

    The optimizer state of torch_xla's parameters is local, that of FSDP2's distributed.
    """
    fit = torch.optim.Optimizer._process_value_according_to_param_policy

    def fit_shard(
        param: torch.Tensor, value: torch.Tensor, *args: object, **kwargs: object
    ) -> torch.Tensor:
        fitted = fit(param, value, *args, **kwargs)
        if (
            not isinstance(param, DTensor)
            or isinstance(fitted, DTensor)
            or fitted.shape != param.to_local().shape
        ):
            return fitted
        shape = {"shape": param.shape, "stride": param.stride()}
        return DTensor.from_local(
            fitted, param.device_mesh, param.placements, run_check=False, **shape
        )

    torch.optim.Optimizer._process_value_according_to_param_policy = staticmethod(fit_shard)


_accept_local_state()


def _local(value: torch.Tensor) -> torch.Tensor:
    return value.to_local() if isinstance(value, DTensor) else value
