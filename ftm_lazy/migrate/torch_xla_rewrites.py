"""Tables of the rewrites: torch_xla's calls and names, and their replacements.

A rule has a template for the new expression. ``{name}`` stands for an argument, given by name or by
position, and ``{*}`` for all arguments. If a call has an argument that the template does not use
and the rule does not list as dropped, the call stays and is reported.
"""

from __future__ import annotations

from dataclasses import dataclass

DEVICE = "ftm"


@dataclass(frozen=True)
class RenameRule:
    """The rewrite of one function's calls.

    Args:
        template: The new expression.
        parameters: The function's parameters, in order.
        optional: (parameter, text in the template if the argument is missing).
        dropped: Parameters without meaning on ftm.
        helper: The helper (`inserted_helpers.HELPERS`) that the template calls.
        note: A remark that is reported for each call.
        open_ended: Drop all arguments that are not in `parameters`.
    """

    template: str
    parameters: tuple[str, ...] = ()
    optional: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()
    helper: str | None = None
    note: str | None = None
    open_ended: bool = False


XM, XR, MET, XP = (
    "torch_xla.core.xla_model",
    "torch_xla.runtime",
    "torch_xla.debug.metrics",
    "torch_xla.debug.profiler",
)
XMP = "torch_xla.distributed.xla_multiprocessing"

_DEVICE = RenameRule(f'torch.device("{DEVICE}")', ("n", "devkind"), dropped=("n", "devkind"))
_SIZE = RenameRule("process_count()", ("defval",), dropped=("defval",), helper="process_count")
_RANK = RenameRule("process_rank()", ("defval",), dropped=("defval",), helper="process_rank")
_WAIT = RenameRule(f"torch.{DEVICE}.synchronize()", ("devices",), dropped=("devices",))
_SEED = RenameRule(f"torch.{DEVICE}.manual_seed({{seed}})", ("seed", "device"), dropped=("device",))
_CHECKPOINT = "torch_xla.utils.checkpoint.checkpoint"

CALLS: dict[str, RenameRule] = {
    "torch_xla.device": RenameRule(f'torch.device("{DEVICE}")', ("index",), dropped=("index",)),
    "torch_xla.devices": RenameRule(f'[torch.device("{DEVICE}")]'),
    "torch_xla.device_count": RenameRule(f"torch.{DEVICE}.device_count()"),
    "torch_xla.manual_seed": _SEED,
    f"{XM}.xla_device": _DEVICE,
    f"{XM}.get_xla_supported_devices": RenameRule(
        f'["{DEVICE}:0"]', ("max_devices",), dropped=("max_devices",)
    ),
    f"{XM}.is_xla_tensor": RenameRule(f'({{tensor}}.device.type == "{DEVICE}")', ("tensor",)),
    f"{XM}.wait_device_ops": _WAIT,
    f"{XM}.unlazy": RenameRule(f"torch.{DEVICE}.synchronize()", ("tensors",), dropped=("tensors",)),
    f"{XM}.optimizer_step": RenameRule(
        "{optimizer}.step({optimizer_args})",
        ("optimizer", "barrier", "optimizer_args", "groups", "pin_layout"),
        optional=(("optimizer_args", ""),),
        dropped=("barrier", "groups", "pin_layout"),
        note="gradients are no longer reduced over processes: with several, wrap the model in "
        "DistributedDataParallel",
    ),
    f"{XM}.set_rng_state": _SEED,
    f"{XM}.xrt_world_size": _SIZE,
    f"{XM}.get_ordinal": _RANK,
    f"{XM}.get_local_ordinal": _RANK,
    f"{XM}.is_master_ordinal": RenameRule(
        "(process_rank() == 0)", ("local",), dropped=("local",), helper="process_rank"
    ),
    f"{XM}.master_print": RenameRule("print_once({*})", helper="print_once"),
    f"{XM}.save": RenameRule("save_once({*})", helper="save_once"),
    f"{XM}.all_reduce": RenameRule(
        "reduce_over_processes({reduce_type}, {inputs}, {scale})",
        ("reduce_type", "inputs", "scale", "groups", "pin_layout"),
        (("scale", "1.0"),),
        ("pin_layout",),
        "reduce_over_processes",
    ),
    f"{XM}.add_step_closure": RenameRule(
        "{closure}({args})",
        ("closure", "args", "run_async"),
        optional=(("args", ""),),
        dropped=("run_async",),
    ),
    f"{XM}.mesh_reduce": RenameRule(
        "{reduce_fn}(gather_all({data}))",
        ("tag", "data", "reduce_fn"),
        dropped=("tag",),
        helper="gather_all",
    ),
    f"{XM}.rendezvous": RenameRule(
        "gather_all({payload})", ("tag", "payload"), (("payload", 'b""'),), ("tag",), "gather_all"
    ),
    f"{XR}.world_size": _SIZE,
    f"{XR}.global_device_count": _SIZE,
    f"{XR}.process_count": _SIZE,
    f"{XR}.global_ordinal": _RANK,
    f"{XR}.local_ordinal": _RANK,
    f"{XR}.process_index": _RANK,
    f"{XR}.is_bf16_supported": RenameRule(f"torch.{DEVICE}.is_bf16_supported()"),
    f"{XP}.Trace": RenameRule("torch.profiler.record_function({name})", ("name",), open_ended=True),
    f"{XP}.StepTrace": RenameRule(
        "torch.profiler.record_function({name})", ("name",), open_ended=True
    ),
    f"{MET}.metrics_report": RenameRule("ftm_lazy.metrics.report()"),
    f"{MET}.clear_all": RenameRule("ftm_lazy.metrics.reset()"),
    "torch_xla.distributed.parallel_loader.MpDeviceLoader": RenameRule(
        "DeviceLoader({loader}, {device})",
        ("loader", "device"),
        dropped=(
            "batchdim",
            "batches_per_execution",
            "loader_prefetch_size",
            "device_prefetch_size",
            "host_to_device_transfer_threads",
            "input_sharding",
        ),
        helper="DeviceLoader",
    ),
    "torch_xla.amp.autocast": RenameRule(
        f'torch.autocast("{DEVICE}", dtype={{dtype}}, enabled={{enabled}})',
        ("device", "enabled", "dtype", "cache_enabled"),
        (("dtype", "torch.bfloat16"), ("enabled", "True")),
        ("device", "cache_enabled"),
    ),
    "torch_xla.amp.GradScaler": RenameRule(f'torch.amp.GradScaler("{DEVICE}", {{*}})'),
}
"""Function to the rewrite of its calls."""

TOGETHER = RenameRule(
    "step_together({optimizer}, {optimizer_args})",
    ("optimizer", "barrier", "optimizer_args", "groups", "pin_layout"),
    optional=(("optimizer_args", ""),),
    dropped=("barrier", "pin_layout"),
    helper="step_together",
)
"""Rewrite of `optimizer_step` in a program for several processes."""

SEVERAL = frozenset(
    {f"{XMP}.spawn", "torch_xla.launch", f"{XMP}.launch"}
    | {
        f"{XM}.{name}"
        for name in (
            "all_reduce",
            "mesh_reduce",
            "rendezvous",
            "get_ordinal",
            "xrt_world_size",
            "is_master_ordinal",
        )
    }
    | {
        f"{XR}.{name}"
        for name in (
            "world_size",
            "global_ordinal",
            "local_ordinal",
            "process_count",
            "process_index",
        )
    }
)
"""Names whose use marks a program for several processes."""

REFERENCES: dict[str, str] = {
    _CHECKPOINT: "torch.utils.checkpoint.checkpoint",
    "torch_xla.amp.syncfree.SGD": "torch.optim.SGD",
    "torch_xla.amp.syncfree.Adam": "torch.optim.Adam",
    "torch_xla.amp.syncfree.AdamW": "torch.optim.AdamW",
    f"{XM}.REDUCE_SUM": '"sum"',
    f"{XM}.REDUCE_MUL": '"mul"',
    f"{XM}.REDUCE_MIN": '"min"',
    f"{XM}.REDUCE_MAX": '"max"',
}
"""Name to its replacement."""

REMOVED = {"torch_xla.sync": "wait", f"{XM}.mark_step": "wait", f"{XM}.optimization_barrier_": None}
"""Functions whose call statements are removed, to the argument that makes them wait."""

UNWRAPPED = ("torch_xla.step", "torch_xla.compile")
"""Context managers and decorators that are removed; their body or function stays."""
