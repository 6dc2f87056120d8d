"""The unsupported names of torch_xla: importable, but an error with an alternative when used.

A program often imports more than it uses, so an unsupported name must not fail at import. A module
that is unsupported as a whole has no file: an import hook creates it from the table `_names`.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NoReturn

from ftm_lazy.torch_xla import _names

__all__ = ["REASONS", "getter", "install", "refusal"]

HERE = "ftm_lazy.torch_xla"

_HLO = (
    "it builds XLA's HLO by hand, and programs for ftm are not HLO",
    "write it with PyTorch's own operations, or add an op (docs/adding-an-op.md)",
)
_PALLAS = (
    "it is a Pallas kernel, machine code for a TPU",
    "torch.nn.functional.scaled_dot_product_attention and plain PyTorch compile to the same fused "
    "loops on ftm",
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
    "it configures XLA's bounded dynamic shapes",
    "ftm compiles dynamic-shape programs automatically (docs/shapes.md)",
)
_HARDWARE = (
    "it queries another vendor's hardware",
    "torch.ftm.get_device_properties() describes the machine",
)
_PLUGINS = (
    "it registers PJRT plugins, and ftm is not one",
    "set FTM_MACHINE to another machine or machine library (docs/machines.md)",
)
_CHANNELS = (
    "it uses channels of XLA programs",
    "torch_xla.core.xla_model.collective_permute, or torch.distributed.send and recv",
)
_REGISTERED = (
    "it registers operations with torch_xla when it is imported",
    "nothing has to be registered",
)
_LOOP = (
    "it is part of torch_xla's construction of a loop in HLO",
    "scan, while_loop and gradient_accumulation themselves are served",
)
_INTERNAL = (
    "it is internal to torch_xla",
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
    "plugins": _PLUGINS,
    "experimental.assume_pure": (
        "it is part of torch_xla's tracing of functions with JAX",
        "assume_pure and PureModule themselves are served",
    ),
    "experimental.gradient_accumulation": _LOOP,
    "experimental.scan": _LOOP,
    "experimental.custom_kernel": _PALLAS,
    "experimental.pallas_kernels": _PALLAS,
    "experimental.splash_attention": _PALLAS,
    "experimental.distributed_checkpoint": (
        "it saves tensors that are sharded over a mesh",
        "torch.distributed.checkpoint saves and loads tensors on ftm",
    ),
    "experimental.mark_pattern_utils": _STABLEHLO,
    "experimental.stablehlo_custom_call": _STABLEHLO,
    "experimental.xla_marker": _STABLEHLO,
    "experimental.xla_mlir_debuginfo": _STABLEHLO,
    "experimental.unbounded_dynamism_export": _DYNAMIC,
    "experimental.xla_dynamic_reshape_ops": _DYNAMIC,
    "experimental.plugins": _PLUGINS,
    "stablehlo": (
        "it is part of torch_xla's conversion to StableHLO",
        "exported_program_to_stablehlo is served",
    ),
    "experimental.quantized": _QUANTIZED,
    "experimental.xla_quantized_matmul": _QUANTIZED,
    "experimental.spmd_fully_sharded_data_parallel": _SPMD,
    "tf_saved_model_integration": (
        "it writes TensorFlow's SavedModel through XLA",
        "torch.export.save, or torch_xla.stablehlo.save_as_stablehlo",
    ),
    "utils.stablehlo_test_utils": ("it is a helper of torch_xla's own tests", "none is needed"),
    "debug.frame_parser_util": (
        "it reads torch_xla's own trace files",
        "FTM_DEBUG=recompile and ftm_lazy.metrics.report() explain compilations",
    ),
}
"""Module or qualified name below torch_xla to (reason, alternative); the longest match counts."""


def _why(path: str) -> tuple[str, str]:
    while path:
        if path in REASONS:
            return REASONS[path]
        path = path.rpartition(".")[0]
    raise KeyError(path)


def _message(path: str) -> str:
    reason, alternative = _why(path)
    return f"torch_xla.{path} is not served on ftm: {reason}. Instead: {alternative}."


class _Refused(type):
    """Metaclass of unsupported classes: their methods and constructors raise the error."""

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotImplementedError(cls.__doc__)

    def __call__(cls, *args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(cls.__doc__)


def refusal(path: str, kind: str) -> object:
    """Create the placeholder of an unsupported name, which raises NotImplementedError when used.

    Args:
        path: The qualified name below torch_xla.
        kind: Its kind, as in `_names.Name`.
    """
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


def getter(module: str) -> Callable[[str], object]:
    """Return a module's ``__getattr__``, which creates placeholders of its unsupported names."""
    below = module.removeprefix(HERE).removeprefix(".")
    kinds = _names.kinds(below)

    def get(name: str) -> object:
        path = f"{below}.{name}".removeprefix(".")
        if name not in kinds:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if kinds[name] == "value":
            raise NotImplementedError(_message(path))
        thing = refusal(path, kinds[name])
        setattr(sys.modules[module], name, thing)  # so that later lookups give the same object
        return thing

    return get


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import hook that creates the unsupported modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of an unsupported module; None for others."""
        below = fullname.removeprefix(HERE + ".")
        if below == fullname or below not in _names.modules():
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=_names.is_package(below))

    def exec_module(self, module: ModuleType) -> None:
        """Set the module's docstring and ``__getattr__``."""
        below = module.__name__.removeprefix(HERE + ".")
        module.__doc__ = _message(below)
        module.__dict__["_refusal"] = module.__doc__
        module.__dict__["__getattr__"] = getter(module.__name__)


def install() -> None:
    """Install the import hook after the ordinary finders, so that existing files win."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
