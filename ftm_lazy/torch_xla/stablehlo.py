"""torch_xla.stablehlo: export of programs as StableHLO, with torch-mlir's conversion.

ftm does not run StableHLO; the files are for other compilers. The exported program is saved with
them, and a `StableHLOGraphModule` runs it when it is called.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ftm_backend import optional_packages
from ftm_backend.mlir_stubs import Module
from ftm_lazy.compile.trace_importer import trace_of
from ftm_lazy.torch_xla import _refusals

__all__ = [
    "StableHLOExportOptions",
    "StableHLOFunc",
    "StableHLOFunctionMeta",
    "StableHLOGraphModule",
    "StableHLOModelBundle",
    "VariableSignature",
    "exported_program_to_stablehlo",
    "save_as_stablehlo",
    "save_torch_model_as_stablehlo",
]

__getattr__ = _refusals.getter(__name__)

_METHOD = "forward"
_PURPOSE = "converting to StableHLO"


@dataclass
class StableHLOExportOptions:
    """Options of the export.

    Args:
        include_human_readable_text: Save the text in addition to the bytecode.
        override_tracing_arguments: Replaces the `args` of `save_torch_model_as_stablehlo`.
        override_tracing_kwargs: Keyword arguments of the export.
        save_weights: Accepted; weights are always constants of the program.
        inline_all_constant: Accepted; constants are always inlined.
        export_node_metadata: Accepted; locations always have the model's lines.
        custom_ops_allowed_in_graph: Accepted; an operation without conversion is an error.
        export_weights: Accepted, as `save_weights`.
    """

    include_human_readable_text: bool = True
    override_tracing_arguments: tuple[object, ...] | None = None
    override_tracing_kwargs: Mapping[str, object] | None = None
    save_weights: bool = True
    inline_all_constant: bool = True
    export_node_metadata: bool = False
    custom_ops_allowed_in_graph: set[str] = field(default_factory=set)
    export_weights: bool | None = None


@dataclass
class VariableSignature:
    """Shape and dtype of an argument or result; `dynamic_dims` are the dimensions that may vary."""

    shape: list[int]
    dtype: str
    dynamic_dims: list[int] = field(default_factory=list)


@dataclass
class StableHLOFunctionMeta:
    """Signature of a function."""

    name: str
    stablehlo_version: str
    input_signature: list[VariableSignature]
    output_signature: list[VariableSignature]


@dataclass
class StableHLOFunc:
    """One function as MLIR bytecode and as text."""

    meta: StableHLOFunctionMeta
    bytecode: bytes
    text: str | None


@dataclass
class StableHLOModelBundle:
    """The functions of a model, and the exported program that they were converted from."""

    stablehlo_funcs: list[StableHLOFunc]
    program: torch.export.ExportedProgram


class StableHLOGraphModule:
    """An exported program with its StableHLO.

    Args:
        bundle: The exported program and its functions.
    """

    def __init__(self, bundle: StableHLOModelBundle) -> None:
        self._bundle = bundle
        self._module: torch.nn.Module | None = None

    def __call__(self, *args: object) -> object:
        """Run the model on the device of the arguments."""
        return self.evaluate(_METHOD, args)

    def evaluate(self, method_name: str, args: tuple[object, ...]) -> object:
        """Run a method through the exported program.

        Args:
            method_name: Name of the method.
            args: Its arguments.
        """
        self._function(method_name)
        if self._module is None:
            self._module = self._bundle.program.module()
        device = next((each.device for each in args if isinstance(each, torch.Tensor)), None)
        return self._module.to(device)(*args)

    def get_stablehlo_bytecode(self, method_name: str | None = None) -> bytes:
        """Return a method as MLIR bytecode."""
        return self._function(method_name).bytecode

    def get_stablehlo_text(self, method_name: str | None = None) -> str | None:
        """Return a method as MLIR text; None if it was saved without."""
        return self._function(method_name).text

    def _function(self, name: str | None) -> StableHLOFunc:
        for function in self._bundle.stablehlo_funcs:
            if name in (None, function.meta.name):
                return function
        raise KeyError(name)

    def save(
        self, directory_path: str | os.PathLike[str], options: StableHLOExportOptions | None = None
    ) -> None:
        """Write ``functions/NAME.bytecode``, ``.mlir`` and ``.meta``, and ``program.pt2``.

        Args:
            directory_path: The directory, created if missing.
            options: Options of the export.
        """
        functions = Path(directory_path, "functions")
        functions.mkdir(parents=True, exist_ok=True)
        for function in self._bundle.stablehlo_funcs:
            stem = functions / function.meta.name
            stem.with_suffix(".bytecode").write_bytes(function.bytecode)
            meta = vars(function.meta) | {
                key: [vars(each) for each in getattr(function.meta, key)]
                for key in ("input_signature", "output_signature")
            }
            stem.with_suffix(".meta").write_text(json.dumps(meta, indent=1))
            with_text = (options or StableHLOExportOptions()).include_human_readable_text
            if function.text is not None and with_text:
                stem.with_suffix(".mlir").write_text(function.text)
        torch.export.save(self._bundle.program, Path(directory_path, "program.pt2"))

    @classmethod
    def load(cls, directory_path: str | os.PathLike[str]) -> StableHLOGraphModule:
        """Load the files that `save` wrote."""
        functions = []
        for path in sorted(Path(directory_path, "functions").glob("*.meta")):
            meta = json.loads(path.read_text())
            for key in ("input_signature", "output_signature"):
                meta[key] = [VariableSignature(**each) for each in meta[key]]
            text = path.with_suffix(".mlir")
            functions.append(
                StableHLOFunc(
                    StableHLOFunctionMeta(**meta),
                    path.with_suffix(".bytecode").read_bytes(),
                    text.read_text() if text.is_file() else None,
                )
            )
        return cls(
            StableHLOModelBundle(functions, torch.export.load(Path(directory_path, "program.pt2")))
        )


def exported_program_to_stablehlo(
    exported_model: torch.export.ExportedProgram, options: StableHLOExportOptions | None = None
) -> StableHLOGraphModule:
    """Convert an exported program to StableHLO, with its weights as constants.

    Args:
        exported_model: The exported program.
        options: Options of the export.

    Raises:
        NotImplementedError: torch-mlir has no conversion of an operation; the message names it.
    """
    with optional_packages.needed(_PURPOSE):
        from torch_mlir import fx

    module = _convert(
        lambda: fx.export_and_import(exported_model, output_type="stablehlo", func_name=_METHOD)
    )
    values = {node.name: node.meta.get("val") for node in exported_model.graph.nodes}
    signature = exported_model.graph_signature
    meta = StableHLOFunctionMeta(
        _METHOD,
        "",
        [_variable(values[name]) for name in signature.user_inputs if isinstance(name, str)],
        [_variable(values[name]) for name in signature.user_outputs if isinstance(name, str)],
    )
    text = (
        str(module) if (options or StableHLOExportOptions()).include_human_readable_text else None
    )
    return StableHLOGraphModule(
        StableHLOModelBundle([StableHLOFunc(meta, _bytecode(module), text)], exported_model)
    )


def save_as_stablehlo(
    exported_model: torch.export.ExportedProgram,
    stablehlo_dir: str | os.PathLike[str],
    options: StableHLOExportOptions | None = None,
) -> None:
    """Convert an exported program to StableHLO and save it; see `StableHLOGraphModule.save`.

    Args:
        exported_model: The exported program.
        stablehlo_dir: The directory.
        options: Options of the export.
    """
    exported_program_to_stablehlo(exported_model, options).save(stablehlo_dir, options)


def save_torch_model_as_stablehlo(
    torchmodel: torch.nn.Module,
    args: tuple[object, ...],
    path: str | os.PathLike[str],
    options: StableHLOExportOptions | None = None,
) -> None:
    """Export a module with `torch.export.export` and save it with `save_as_stablehlo`.

    Args:
        torchmodel: The module.
        args: Example arguments.
        path: The directory.
        options: Options of the export.
    """
    chosen = options or StableHLOExportOptions()
    exported = torch.export.export(
        torchmodel,
        chosen.override_tracing_arguments or args,
        kwargs=dict(chosen.override_tracing_kwargs or {}),
    )
    save_as_stablehlo(exported, path, chosen)


# --- pending operations


def text_of(tensors: list[torch.Tensor]) -> str:
    """Return StableHLO text that computes `tensors`, or all pending operations if it is empty."""
    return str(_pending(tensors))


def bytecode_of(tensors: list[torch.Tensor]) -> bytes:
    """Return the same as `text_of` as MLIR bytecode."""
    return _bytecode(_pending(tensors))


def _pending(tensors: list[torch.Tensor]) -> object:
    with optional_packages.needed(_PURPOSE):
        from torch_mlir import ir
        from torch_mlir.compiler_utils import OutputType, lower_mlir_module
        from torch_mlir.dialects import torch as torch_dialect

    from ftm_lazy import _C
    from ftm_lazy.compile import compile_client

    context = ir.Context()
    torch_dialect.register_dialect(context)
    with context:
        trace = trace_of(_C._trace(tensors))
        module = ir.Module.parse(compile_client.client().texts(trace)["torch"])
        return _convert(lambda: lower_mlir_module(False, OutputType.STABLEHLO, module))


def _convert(convert: Callable[[], object]) -> object:
    """Run a conversion, and raise its failure as NotImplementedError with an alternative."""
    from torch_mlir.compiler_utils import TorchMlirCompilerError

    try:
        return convert()
    except (TorchMlirCompilerError, NotImplementedError) as error:
        raise NotImplementedError(
            f"torch-mlir does not convert this to StableHLO: {error}\n"
            "Instead: ftm_lazy.debug.text(tensors, 'linalg')"
        ) from error


def _bytecode(module: Any) -> bytes:
    stream = io.BytesIO()
    module.operation.write_bytecode(stream)
    return stream.getvalue()


def _variable(value: torch.Tensor) -> VariableSignature:
    dynamic = [i for i, size in enumerate(value.shape) if not isinstance(size, int)]
    shape = [size if isinstance(size, int) else -1 for size in value.shape]
    return VariableSignature(shape, str(value.dtype).removeprefix("torch."), dynamic)
