"""torch_xla.distributed.fsdp.wrap: policies that select the submodules to wrap separately."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

__all__ = [
    "always_wrap_policy",
    "lambda_auto_wrap_policy",
    "recursive_wrap",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
]

Policy = Callable[..., bool]
"""Function of (module, recurse, number of parameters in it that are not wrapped).

With `recurse` it returns whether to visit the children, otherwise whether to wrap the module.
"""


def always_wrap_policy(*args: object, **kwargs: object) -> bool:
    """Wrap every module."""
    return True


def lambda_auto_wrap_policy(
    module: nn.Module, recurse: bool, unwrapped_params: int, lambda_fn: Callable[[nn.Module], bool]
) -> bool:
    """Wrap the modules for which `lambda_fn` returns True."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: nn.Module,
    recurse: bool,
    unwrapped_params: int,
    transformer_layer_cls: set[type[nn.Module]],
) -> bool:
    """Wrap the modules of the classes `transformer_layer_cls`."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: nn.Module,
    recurse: bool,
    unwrapped_params: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: set[type[nn.Module]] | None = None,
    exclude_wrap_modules: set[type[nn.Module]] | None = None,
) -> bool:
    """Wrap modules with at least `min_num_params` parameters outside of wrapped children.

    Args:
        module: The module.
        recurse: Decide whether to visit the children instead.
        unwrapped_params: Number of parameters outside of wrapped children.
        min_num_params: Minimum number of parameters.
        force_leaf_modules: Classes whose children are not visited.
        exclude_wrap_modules: Classes that are not wrapped.
    """
    policy: Any = size_based_auto_wrap_policy
    leaves = policy.FORCE_LEAF_MODULES if force_leaf_modules is None else force_leaf_modules
    excluded = policy.EXCLUDE_WRAP_MODULES if exclude_wrap_modules is None else exclude_wrap_modules
    return unwrapped_params >= min_num_params and not isinstance(
        module, tuple(leaves if recurse else excluded)
    )


vars(size_based_auto_wrap_policy).update(
    EXCLUDE_WRAP_MODULES={nn.ModuleList, nn.ModuleDict}, FORCE_LEAF_MODULES={nn.MultiheadAttention}
)


def recursive_wrap(
    module: nn.Module,
    auto_wrap_policy: Policy,
    wrapper_cls: Callable[..., nn.Module],
    ignored_modules: set[nn.Module],
    ignored_params: set[nn.Parameter],
    only_wrap_children: bool = False,
    **kwargs: Any,
) -> tuple[nn.Module, int]:
    """Wrap the submodules that a policy selects, from the inside out.

    Args:
        module: The root.
        auto_wrap_policy: The policy.
        wrapper_cls: The wrapper.
        ignored_modules: Modules that are not visited.
        ignored_params: Parameters that are not counted.
        only_wrap_children: Do not wrap the root.
        **kwargs: Arguments of the wrapper.

    Returns:
        The module, wrapped or not, and the number of parameters in wrapped modules.
    """
    count = sum(
        parameter.numel() for parameter in module.parameters() if parameter not in ignored_params
    )
    if not auto_wrap_policy(module=module, recurse=True, unwrapped_params=count):
        return module, 0
    wrapped = 0
    for name, child in list(module.named_children()):
        if child not in ignored_modules:
            replaced, inside = recursive_wrap(
                child, auto_wrap_policy, wrapper_cls, ignored_modules, ignored_params, **kwargs
            )
            setattr(module, name, replaced)
            wrapped += inside
    if only_wrap_children or not auto_wrap_policy(
        module=module, recurse=False, unwrapped_params=count - wrapped
    ):
        return module, wrapped
    return wrapper_cls(module, **kwargs), count
