"""Rewriting of `XlaFullyShardedDataParallel` as PyTorch's `fully_shard`.

`fully_shard` does not wrap the module but turns its parameters into distributed tensors. A program
that uses a feature that only the wrapper has keeps the wrapper everywhere, because the two do not
mix.
"""

from __future__ import annotations

import libcst as cst
from libcst.metadata import ParentNodeProvider, PositionProvider, QualifiedNameProvider

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
"""Policies that select submodules; PyTorch has the same, except for the name of an argument."""

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
"""Parameters of the wrapper, in order, up to the last that programs pass by position."""

_IGNORED = {
    "flatten_parameters",
    "execute_sharding_on_init",
    "optimization_barrier_in_forward",
    "optimization_barrier_in_backward",
    "sync_on_finalization",
    "shard_param_on_dim_0",
    "pin_layout_in_collective_ops",
    "reduce_scatter_bucket_size_mb",
    "coalesce_all_gather_ops",
    "_shard_size_multiple",
    "_use_xla_patched_linear",
}
"""Arguments that only affect torch_xla's implementation."""

_UNSUPPORTED = {
    "buffer_dtype": "fully_shard has no dtype for buffers: cast them before, module.to(dtype)",
    "sharding_groups": "fully_shard takes a DeviceMesh instead, with a dimension for replicas and "
    "one for shards",
    "sharding_rank": "fully_shard takes a DeviceMesh instead",
    "sharding_world_size": "fully_shard takes a DeviceMesh instead",
    "auto_wrapper_callable": "apply it to each submodule first, and call fully_shard afterwards",
    "param_init_fn": "call module.to_empty(device=...) after fully_shard, then initialize",
}
"""Arguments without equivalent in `fully_shard`, and the remedy."""

_CHECKPOINT = "torch.distributed.checkpoint saves, loads and consolidates fully_shard's parameters"
_METHODS = {
    "get_shard_metadata": _CHECKPOINT,
    "load_state_dict": "the wrapper takes the shard that a process saved, fully_shard's module "
    f"takes distributed tensors; {_CHECKPOINT}",
    "get_original_names_and_sharded_parameters": "use named_parameters()",
    "no_sync": "use module.set_requires_gradient_sync(False), and True afterwards",
    "params_with_grad": "use the parameters whose grad is not None",
    "set_gradient_divide_factors": "use module.set_gradient_divide_factor(factor)",
}
"""Methods that only the wrapper has, or that differ there, and the remedy."""


class Sharding(cst.CSTVisitor):
    """Collects a program's uses of the wrapper.

    Attributes:
        calls: Whether the program calls the wrapper.
        against: (line, reason) of uses that require the wrapper.
    """

    METADATA_DEPENDENCIES = (QualifiedNameProvider, PositionProvider, ParentNodeProvider)

    def __init__(self) -> None:
        super().__init__()
        self.calls = False
        self.against: list[tuple[int, str]] = []

    @property
    def allowed(self) -> bool:
        """Whether each use of the wrapper can become `fully_shard`."""
        return self.calls and not self.against

    def visit_Import(self, node: cst.Import) -> bool:  # noqa: N802
        """Skip imports."""
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:  # noqa: N802
        """Skip imports."""
        return False

    def visit_Call(self, node: cst.Call) -> None:  # noqa: N802
        """Check a call of the wrapper or of its `clip_grad_norm_`."""
        if self._name(node.func) in WRAPPERS:
            self.calls = True
            reason = _unsupported(node)
            if reason:
                self._refuse(node, reason)
        elif isinstance(node.func, cst.Attribute) and node.func.attr.value == "clip_grad_norm_":
            if any(each.keyword and each.keyword.value == "groups" for each in node.args):
                self._refuse(
                    node,
                    "clip_grad_norm_: PyTorch's takes the groups from the DeviceMesh",
                )

    def visit_Name(self, node: cst.Name) -> None:  # noqa: N802
        """Check a name."""
        self._check(node)

    def visit_Attribute(self, node: cst.Attribute) -> None:  # noqa: N802
        """Check a qualified name or a method of the wrapper."""
        if node.attr.value in _METHODS:
            self._refuse(node, f"{node.attr.value}: {_METHODS[node.attr.value]}")
        self._check(node)

    def _check(self, node: cst.BaseExpression) -> None:
        name, parent = self._name(node), self.get_metadata(ParentNodeProvider, node)
        called = isinstance(parent, cst.Call) and parent.func is node
        if name in WRAPPERS and not called:
            self._refuse(node, "it is used as a class, and fully_shard is a function")
        elif name.startswith(f"{_FSDP}."):
            function = name.rpartition(".")[2]
            if function.startswith("consolidate_"):
                self._refuse(node, f"{function}: {_CHECKPOINT}")
            elif function.startswith("checkpoint_module"):
                wrapper = "torch.utils.checkpoint.checkpoint_wrapper"
                self._refuse(node, f"{function}: call {wrapper} before fully_shard")

    def _refuse(self, node: cst.CSTNode, reason: str) -> None:
        line = self.get_metadata(PositionProvider, node).start.line
        self.against.append((line, f"XlaFullyShardedDataParallel stays: {reason}"))

    def _name(self, node: cst.CSTNode) -> str:
        names = sorted(
            each.name for each in self.get_metadata(QualifiedNameProvider, node, None) or ()
        )
        return names[0] if names else ""


def _arguments(call: cst.Call) -> dict[str, str] | None:
    """Return the text of each argument by parameter; None if they cannot be matched."""
    given: dict[str, str] = {}
    for position, argument in enumerate(call.args):
        if argument.star or (argument.keyword is None and position >= len(_PARAMETERS)):
            return None
        key = argument.keyword.value if argument.keyword else _PARAMETERS[position]
        given[key] = cst.Module([]).code_for_node(argument.value)
    return given


_FLAGS = ("fp32_reduce_scatter", "disable_reshard_on_root", "reshard_after_forward")
_KNOWN = {*_PARAMETERS, *_IGNORED, *_UNSUPPORTED, "auto_wrap_policy"}


def _unsupported(call: cst.Call) -> str | None:
    """Return why a call of the wrapper has no equivalent; None if it has one."""
    given = _arguments(call)
    if given is None or "module" not in given:
        return "its arguments cannot be matched to parameters"
    for key, text in given.items():
        if key in _UNSUPPORTED and text != "None":
            return f"{key}: {_UNSUPPORTED[key]}"
        if key in _FLAGS and text not in ("True", "False"):
            return f"{key}: its value is not a literal"
        if key not in _KNOWN and not key.startswith("_debug"):
            return f"there is no equivalent of the argument {key}"
    return None


def sharded(call: cst.Call) -> str:
    """Return the call of the helper `shard_parameters` that replaces a call of the wrapper."""
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
