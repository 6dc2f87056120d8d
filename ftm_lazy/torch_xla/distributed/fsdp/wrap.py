"""torch_xla.distributed.fsdp.wrap: which submodules are wrapped for themselves."""

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
"""Of a module, whether it is about the module's children (`recurse`), and the parameters that are
not wrapped yet."""


def always_wrap_policy(*args: object, **kwargs: object) -> bool:
    """Wrap every module."""
    return True


def lambda_auto_wrap_policy(
    module: nn.Module, recurse: bool, unwrapped_params: int, lambda_fn: Callable[[nn.Module], bool]
) -> bool:
    """Wrap the modules that `lambda_fn` picks."""
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: nn.Module,
    recurse: bool,
    unwrapped_params: int,
    transformer_layer_cls: set[type[nn.Module]],
) -> bool:
    """Wrap the modules of the given classes."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: nn.Module,
    recurse: bool,
    unwrapped_params: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: set[type[nn.Module]] | None = None,
    exclude_wrap_modules: set[type[nn.Module]] | None = None,
) -> bool:
    """Wrap modules of at least `min_num_params` parameters that are in no wrapped child.

    Args:
        module: in question.
        recurse: whether it is about the children.
        unwrapped_params: that are in no wrapped child.
        min_num_params: from which on it is worth it.
        force_leaf_modules: classes whose children are left alone.
        exclude_wrap_modules: classes that are not wrapped.
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
    """Wrap the submodules of `module` that the policy picks, from the inside out.

    Args:
        module: the root.
        auto_wrap_policy: picks.
        wrapper_cls: wraps, with `kwargs`.
        ignored_modules: left alone.
        ignored_params: not counted.
        only_wrap_children: not the root itself.

    Returns:
        the module, wrapped or not, and the number of parameters that are wrapped in it.
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
