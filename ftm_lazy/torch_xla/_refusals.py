"""The names of torch_xla that cannot be served: importable, and an error that says the way out when
used.

A program often imports more than it uses, so a refused name must not stop the import. Whole modules
that are refused have no file: `find_spec` makes them from `names`, so that ``import`` and ``from
... import`` work.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NoReturn

from ftm_lazy.torch_xla import _names

__all__ = ["REASONS", "getter", "install", "refusal"]

HERE = "ftm_lazy.torch_xla"

_HLO = (
    "it builds XLA's HLO by hand, and programs for ftm are not HLO",
    "write it with PyTorch's own operations, or add an op (docs/adding-an-op.md)",
)
_PALLAS = (
    "it is a Pallas kernel, machine code for a TPU",
    "torch.nn.functional.scaled_dot_product_attention and plain PyTorch compile to the same fused loops on ftm",
)
_SPMD = (
    "it shards one program over the devices of a mesh, and a process of ftm has one device",
    "run several processes (torch_xla.launch) with DDP or FSDP from torch.distributed",
)
_QUANTIZED = (
    "it is an operation of XLA for quantized weights",
    "store int8 weights and scale them in PyTorch: (x @ w.to(x.dtype)) * scale",
)
_STABLEHLO = (
    "it annotates StableHLO that XLA compiles",
    "torch_xla.stablehlo.exported_program_to_stablehlo gives StableHLO for other compilers",
)
_DYNAMIC = (
    "it is about XLA's bounded dynamic shapes",
    "ftm compiles each shape, and finds it again in its cache",
)
_HARDWARE = (
    "it asks about a machine of another vendor",
    "torch.ftm.get_device_properties() describes this one",
)
_PLUGINS = (
    "it registers PJRT plugins, and ftm is none",
    "FTM_MACHINE names another machine or machine library (docs/machines.md)",
)
_CHANNELS = (
    "its channels are of XLA's programs",
    "torch_xla.core.xla_model.collective_permute, or torch.distributed.send and recv",
)
_REGISTERED = (
    "it registers operations with torch_xla when it is imported",
    "nothing has to be registered",
)
_LOOP = (
    "it is a part of torch_xla's way to build a loop in HLO",
    "scan, while_loop and gradient_accumulation themselves are served",
)
_INTERNAL = (
    "it is part of torch_xla's own workings",
    "torch.distributed.fsdp.fully_shard works on ftm",
)

REASONS: dict[str, tuple[str, str]] = {
    "core.xla_builder": _HLO,
    "core.xla_op_registry": _HLO,
    "core.dynamo_bridge": (
        "it is torch_xla's bridge to XLA",
        'torch.compile(backend="openxla") is served',
    ),
    "distributed.fsdp.utils": _INTERNAL,
    "distributed.fsdp.xla_flatten_params_wrapper": _INTERNAL,
    "distributed.spmd": _SPMD,
    "core.xla_model.send": _CHANNELS,
    "core.xla_model.recv": _CHANNELS,
    "custom_kernel": _REGISTERED,
    "decomp_registration": _REGISTERED,
    "c10d_registration": _REGISTERED,
    "plugins": _PLUGINS,
    "experimental.assume_pure": (
        "it is a part of torch_xla's way to trace functions by JAX",
        "assume_pure and PureModule themselves are served",
    ),
    "experimental.gradient_accumulation": _LOOP,
    "experimental.scan": _LOOP,
    "experimental.custom_kernel": _PALLAS,
    "experimental.pallas_kernels": _PALLAS,
    "experimental.splash_attention": _PALLAS,
    "experimental.distributed_checkpoint": (
        "it saves tensors that are sharded over a mesh",
        "torch.distributed.checkpoint saves and loads what lies on ftm",
    ),
    "experimental.mark_pattern_utils": _STABLEHLO,
    "experimental.stablehlo_custom_call": _STABLEHLO,
    "experimental.xla_marker": _STABLEHLO,
    "experimental.xla_mlir_debuginfo": _STABLEHLO,
    "experimental.unbounded_dynamism_export": _DYNAMIC,
    "experimental.xla_dynamic_reshape_ops": _DYNAMIC,
    "experimental.plugins": _PLUGINS,
    "stablehlo": (
        "it is a part of torch_xla's own way to StableHLO",
        "exported_program_to_stablehlo is served",
    ),
    "experimental.quantized": _QUANTIZED,
    "experimental.xla_quantized_matmul": _QUANTIZED,
    "experimental.spmd_fully_sharded_data_parallel": _SPMD,
    "tf_saved_model_integration": (
        "it writes TensorFlow's SavedModel by way of XLA",
        "torch.export.save, or torch_xla.stablehlo.save_as_stablehlo",
    ),
    "utils.stablehlo_test_utils": ("it is a helper of torch_xla's own tests", "none is needed"),
    "debug.frame_parser_util": (
        "it reads torch_xla's own trace files",
        "FTM_DEBUG=recompile and ftm_lazy.metrics.report() explain compilations",
    ),
}
"""A module or a name, below torch_xla, to the reason and the way out; the longest entry counts."""


def _why(path: str) -> tuple[str, str]:
    while path:
        if path in REASONS:
            return REASONS[path]
        path = path.rpartition(".")[0]
    raise KeyError(path)


def _message(path: str) -> str:
    reason, way_out = _why(path)
    return f"torch_xla.{path} is not served on ftm: {reason}. Instead: {way_out}."


class _Refused(type):
    """The class of refused classes: their methods are refused as well."""

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotImplementedError(cls.__doc__)

    def __call__(cls, *args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(cls.__doc__)


def refusal(path: str, kind: str) -> Any:
    """What stands for the refused name `path` (below torch_xla): raises NotImplementedError when it
    is used."""
    message = _message(path)

    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(message)

    name = path.rpartition(".")[2]
    if kind == "class":
        return _Refused(
            name, (), {"__init_subclass__": refuse, "__doc__": message, "_refusal": message}
        )
    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = message
    refuse._refusal = message  # type: ignore[attr-defined]
    return refuse


def getter(module: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module of ours, for the names of torch_xla's that it does not
    define."""
    below = module.removeprefix(HERE).removeprefix(".")
    kinds = _names.kinds(below)

    def get(name: str) -> Any:
        path = f"{below}.{name}".removeprefix(".")
        if name not in kinds:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if kinds[name] == "value":
            raise NotImplementedError(_message(path))
        thing = refusal(path, kinds[name])
        setattr(sys.modules[module], name, thing)  # so that it is the same object the next time
        return thing

    return get


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes the modules that torch_xla has and that are refused whole."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a refused module; None for every other."""
        below = fullname.removeprefix(HERE + ".")
        if below == fullname or below not in _names.modules():
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=_names.is_package(below))

    def exec_module(self, module: ModuleType) -> None:
        """Give it its names."""
        below = module.__name__.removeprefix(HERE + ".")
        module.__doc__ = _message(below)
        module.__dict__["_refusal"] = module.__doc__
        module.__dict__["__getattr__"] = getter(module.__name__)


def install() -> None:
    """Make the refused modules importable; after the ordinary finders, so that a file of ours
    wins."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
