"""`XlaFullyShardedDataParallel` as PyTorch's `fully_shard`: whether a program allows it, and what a
call becomes.

`fully_shard` leaves the module as it is and makes its parameters distributed tensors. A program
that asks the wrapper for what only the wrapper has keeps it, in all places, because the two do not
mix.
"""

from __future__ import annotations

import libcst as cst
from libcst.metadata import ParentNodeProvider, PositionProvider, QualifiedNameProvider

__all__ = ["POLICIES", "WRAPPERS", "Sharding", "sharded"]

_FSDP = "torch_xla.distributed.fsdp"
WRAPPERS = (
    f"{_FSDP}.XlaFullyShardedDataParallel",
    f"{_FSDP}.xla_fully_sharded_data_parallel.XlaFullyShardedDataParallel",
)
"""The names of the wrapper."""

POLICIES = {
    f"{_FSDP}.wrap.{name}": f"torch.distributed.fsdp.wrap.{name}"
    for name in (
        "always_wrap_policy",
        "lambda_auto_wrap_policy",
        "size_based_auto_wrap_policy",
        "transformer_auto_wrap_policy",
    )
}
"""What picks submodules: PyTorch has the same, but for the name of an argument."""

_PARAMETERS = (
    "module",
    "reshard_after_forward",
    "flatten_parameters",
    "execute_sharding_on_init",
    "optimization_barrier_in_forward",
    "optimization_barrier_in_backward",
    "sync_on_finalization",
    "disable_reshard_on_root",
    "compute_dtype",
    "buffer_dtype",
    "fp32_reduce_scatter",
)
"""Of the wrapper, in order; nobody gives the others by position."""

_MEANINGLESS = {
    *(
        "flatten_parameters",
        "execute_sharding_on_init",
        "optimization_barrier_in_forward",
        "optimization_barrier_in_backward",
    ),
    *(
        "sync_on_finalization",
        "shard_param_on_dim_0",
        "pin_layout_in_collective_ops",
        "reduce_scatter_bucket_size_mb",
    ),
    *("coalesce_all_gather_ops", "_shard_size_multiple", "_use_xla_patched_linear"),
}
"""Arguments about torch_xla's own implementation."""

_REASONS = {
    "buffer_dtype": "fully_shard has no dtype for buffers: cast them, module.to(dtype), before",
    "sharding_groups": "fully_shard takes a DeviceMesh instead, of a dimension for replicas and one for parts",
    "sharding_rank": "fully_shard takes a DeviceMesh instead",
    "sharding_world_size": "fully_shard takes a DeviceMesh instead",
    "auto_wrapper_callable": "what it does to each submodule has to be done before, and fully_shard called behind it",
    "param_init_fn": "fully_shard leaves it to the program: module.to_empty(device=...), then initialize",
}
"""Arguments that `fully_shard` has nothing for."""

_CHECKPOINT = "torch.distributed.checkpoint saves, loads and puts together what fully_shard divides"
_METHODS = {
    "get_shard_metadata": _CHECKPOINT,
    "load_state_dict": f"the wrapper takes the part that a process saved, fully_shard's module distributed tensors; {_CHECKPOINT}",
    "get_original_names_and_sharded_parameters": "named_parameters() has them",
    "no_sync": "module.set_requires_gradient_sync(False) takes its place, until it is said True",
    "params_with_grad": "they are the parameters whose grad is not None",
    "set_gradient_divide_factors": "module.set_gradient_divide_factor(factor) takes its place",
}
"""Of the wrapper, or with another meaning there."""


class Sharding(cst.CSTVisitor):
    """What a program does with the wrapper: `calls` says whether it wraps, `against` why it has to
    keep the wrapper."""

    METADATA_DEPENDENCIES = (QualifiedNameProvider, PositionProvider, ParentNodeProvider)

    def __init__(self) -> None:
        super().__init__()
        self.calls = False
        self.against: list[tuple[int, str]] = []

    @property
    def allowed(self) -> bool:
        """Whether each use of the wrapper becomes `fully_shard`."""
        return self.calls and not self.against

    def visit_Import(self, node: cst.Import) -> bool:  # noqa: N802
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:  # noqa: N802
        return False

    def visit_Call(self, node: cst.Call) -> None:  # noqa: N802
        if self._name(node.func) in WRAPPERS:
            self.calls = True
            reason = _unfit(node)
            if reason:
                self._refuse(node, reason)
        elif isinstance(node.func, cst.Attribute) and node.func.attr.value == "clip_grad_norm_":
            if any(each.keyword and each.keyword.value == "groups" for each in node.args):
                self._refuse(
                    node,
                    "clip_grad_norm_: PyTorch's knows the groups by itself, from the DeviceMesh",
                )

    def visit_Name(self, node: cst.Name) -> None:  # noqa: N802
        self._look(node)

    def visit_Attribute(self, node: cst.Attribute) -> None:  # noqa: N802
        if node.attr.value in _METHODS:
            self._refuse(node, f"{node.attr.value}: {_METHODS[node.attr.value]}")
        self._look(node)

    def _look(self, node: cst.BaseExpression) -> None:
        name, parent = self._name(node), self.get_metadata(ParentNodeProvider, node)
        called = isinstance(parent, cst.Call) and parent.func is node
        if name in WRAPPERS and not called:
            self._refuse(node, "it is used as a class, and fully_shard is a function")
        elif name.startswith(f"{_FSDP}.") and name.rpartition(".")[2].startswith(
            ("consolidate_", "checkpoint_module")
        ):
            what = (
                _CHECKPOINT
                if "consolidate" in name
                else "torch.utils.checkpoint.checkpoint_wrapper comes before fully_shard"
            )
            self._refuse(node, f"{name.rpartition('.')[2]}: {what}")

    def _refuse(self, node: cst.CSTNode, reason: str) -> None:
        line = self.get_metadata(PositionProvider, node).start.line
        self.against.append((line, f"XlaFullyShardedDataParallel stays: {reason}"))

    def _name(self, node: cst.CSTNode) -> str:
        names = sorted(
            each.name for each in self.get_metadata(QualifiedNameProvider, node, None) or ()
        )
        return names[0] if names else ""


def _arguments(call: cst.Call) -> dict[str, str] | None:
    """Return the text of each argument, by name; None if they cannot be told apart."""
    given: dict[str, str] = {}
    for position, argument in enumerate(call.args):
        if argument.star or (argument.keyword is None and position >= len(_PARAMETERS)):
            return None
        key = argument.keyword.value if argument.keyword else _PARAMETERS[position]
        given[key] = cst.Module([]).code_for_node(argument.value)
    return given


def _unfit(call: cst.Call) -> str | None:
    """Why a call of the wrapper has no equal; None if it has."""
    given = _arguments(call)
    if given is None or "module" not in given:
        return "its arguments cannot be told apart"
    for key, text in given.items():
        if key in _REASONS and text != "None":
            return f"{key}: {_REASONS[key]}"
        if key in (
            "fp32_reduce_scatter",
            "disable_reshard_on_root",
            "reshard_after_forward",
        ) and text not in ("True", "False"):
            return f"{key}: it is known when the program runs"
        known = (
            key in _PARAMETERS
            or key in _MEANINGLESS
            or key in _REASONS
            or key == "auto_wrap_policy"
        )
        if not known and not key.startswith("_debug"):
            return f"there is nothing for the argument {key}"
    return None


def sharded(call: cst.Call) -> str:
    """Return the call of the helper `shard_parameters` that takes the place of a call of the wrapper."""
    given = _arguments(call) or {}
    words = [given["module"]]
    if given.get("auto_wrap_policy", "None") != "None":
        words.append(f"policy={given['auto_wrap_policy']}")
    if given.get("compute_dtype", "None") != "None":
        words.append(f"dtype={given['compute_dtype']}")
    if given.get("fp32_reduce_scatter") == "True":
        words.append("reduce_dtype=torch.float32")
    if given.get("reshard_after_forward") == "False":
        words.append("reshard=False")
    elif given.get("disable_reshard_on_root") == "False":
        words.append("reshard=True")
    return f"shard_parameters({', '.join(words)})"
