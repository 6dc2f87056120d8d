"""Every public name of torch_xla 2.9 exists with its signature, or raises an error that names it."""

from __future__ import annotations

import ast
import inspect

import pytest

from ftm_lazy.torch_xla import _names, _table

SIGNED = [
    row for row in _names.names() if row.signature and row.kind in ("function", "class", "method")
]

OWN_ARGUMENTS = {
    # Calls of PyTorch's own classes, whose arguments are PyTorch's.
    "experimental.gru.GRU",
    "utils.checkpoint.CheckpointFunction.backward",
    "utils.checkpoint.CheckpointFunction.forward",
    # NamedTuple and dataclass fields, made from tensors by the program itself nowhere.
    "distributed.fsdp.xla_fully_sharded_data_parallel.XlaFullyShardedDataParallel.load_state_dict",
}


def parameters(text: str) -> list[tuple[str, str, bool]]:
    """(name, kind, whether it has a default) of each parameter in a signature's text."""
    arguments = ast.parse(f"def f{text}: pass").body[0].args
    found = []
    positional = [*arguments.posonlyargs, *arguments.args]
    first_default = len(positional) - len(arguments.defaults)
    found += [(each.arg, "positional", i >= first_default) for i, each in enumerate(positional)]
    if arguments.vararg:
        found.append((arguments.vararg.arg, "args", False))
    found += [
        (each.arg, "keyword", default is not None)
        for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg:
        found.append((arguments.kwarg.arg, "kwargs", False))
    return found


KINDS = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
    inspect.Parameter.VAR_POSITIONAL: "args",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_KEYWORD: "kwargs",
}


def actual(thing: object, row: _names.Name) -> list[tuple[str, str, bool]]:
    found = list(inspect.signature(thing).parameters.values())
    if row.kind == "method" and found and found[0].name in ("self", "cls"):
        found = found[1:]
    return [
        (each.name, KINDS[each.kind], each.default is not inspect.Parameter.empty) for each in found
    ]


def test_no_name_is_missing():
    missing = [row.path for row in _names.names() if _table.state(row)[0] == "missing"]
    assert missing == []


@pytest.mark.parametrize("row", SIGNED, ids=lambda row: row.path)
def test_signatures(row):
    state, reason = _table.state(row)
    if state == "refused":
        assert "instead: " in reason
        return
    if row.path in OWN_ARGUMENTS:
        return
    assert actual(_table.resolve(row.module, row.name), row) == parameters(row.signature)


@pytest.mark.parametrize(
    ("path", "default"),
    [
        ("core.xla_model.all_gather.pin_layout", True),
        ("core.xla_model.all_gather_bucketized.pin_layout", False),
        ("core.xla_model.all_gather_bucketized.bucket_cap_mb", 160),
        ("core.xla_model.all_reduce.scale", 1.0),
        ("core.xla_model.optimizer_step.optimizer_args", {}),
        ("core.xla_model.save.master_only", True),
        ("core.xla_model.is_master_ordinal.local", True),
        ("core.xla_model.master_print.local", False),
        ("core.xla_model.mark_step.wait", False),
        ("distributed.parallel_loader.ParallelLoader.loader_prefetch_size", 16),
        ("distributed.parallel_loader.ParallelLoader.device_prefetch_size", 8),
        ("distributed.xla_multiprocessing.spawn.start_method", "spawn"),
    ],
)
def test_defaults(path, default):
    module, name, parameter = path.rsplit(".", 2)
    function = _table.resolve(module, name)
    assert inspect.signature(function).parameters[parameter].default == default


def test_refusals_say_the_way_out():
    from ftm_lazy.torch_xla.core import xla_builder
    from ftm_lazy.torch_xla.experimental.custom_kernel import FlashAttention, flash_attention

    for use in (
        lambda: xla_builder.create_computation("f", None, []),
        lambda: flash_attention(1, 2, 3),
        lambda: FlashAttention.apply(1),
        lambda: FlashAttention(),
        lambda: type("Mine", (FlashAttention,), {}),
    ):
        with pytest.raises(
            NotImplementedError, match=r"torch_xla\.(core|experimental)\..* Instead: "
        ):
            use()
    with pytest.raises(AttributeError):
        xla_builder.no_such_name  # noqa: B018
    with pytest.raises(ModuleNotFoundError):
        import ftm_lazy.torch_xla.no_such_module  # noqa: F401
