"""Capture of a model as one program with its weights, for `FTMCompiler` and packages.

The model runs on placeholders instead of its parameters, buffers and inputs. Python, or
TorchScript's interpreter, executes its control flow, so the program has the branches that were
taken. A condition on a tensor's value is an error: placeholders have no values.
"""

from __future__ import annotations

import copy
import functools
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, TensorArgument
from torch.utils import _pytree as pytree

from ftm_lazy import _C
from ftm_lazy.frontends.capture import (
    DEVICE,
    CaptureError,
    capturing,
    check_in_memory,
    on_device,
    placeholder_like,
    resolved,
)
from ftm_lazy.frontends.graph_partition import call_node


class DataDependentError(CaptureError):
    """The model reads the value of a tensor."""


@dataclass(frozen=True)
class CapturedModel:
    """One program with its weights, inputs and outputs.

    Attributes:
        captured: The recorder's program. Its placeholders are the weights, then the inputs.
        weights: Name to CPU tensor, in the order of the placeholders, including buffers that the
            program writes.
        inputs: Name to example, a contiguous CPU tensor.
        structure: The nesting (pytree) of the outputs.
        output_names: Names of the flat outputs.
    """

    captured: _C._Captured
    weights: dict[str, torch.Tensor]
    inputs: dict[str, torch.Tensor]
    structure: object
    output_names: tuple[str, ...]

    def arguments(self, *inputs: object, **keywords: object) -> list[torch.Tensor]:
        """Return the tensors among a call's arguments, in the order of the inputs.

        Raises:
            CaptureError: Their number, shapes or dtypes differ from those of the capture.
        """
        leaves = [
            leaf
            for leaf in pytree.tree_leaves((inputs, keywords))
            if isinstance(leaf, torch.Tensor)
        ]
        if len(leaves) != len(self.inputs):
            raise CaptureError(
                f"the model takes {len(self.inputs)} tensors ({', '.join(self.inputs)}),"
                f" {len(leaves)} were given"
            )
        for (name, example), leaf in zip(self.inputs.items(), leaves, strict=True):
            _check_type(name, example, leaf)
        return [resolved(leaf) for leaf in leaves]

    def run(self, *inputs: object, **keywords: object) -> object:
        """Run the program on the machine.

        Args:
            *inputs: Positional arguments as in the capture.
            **keywords: Keyword arguments as in the capture.

        Returns:
            CPU tensors in the nesting of the model's result.

        Raises:
            CaptureError: The arguments differ from those of the capture.
            CompileError: The program does not compile.
        """
        self.captured.build()
        leaves = self.captured.launch(
            [*self.weights.values(), *self.arguments(*inputs, **keywords)]
        )
        return pytree.tree_unflatten(leaves, self.structure)


def capture_model(
    model: object, inputs: Sequence[object], keywords: dict[str, object] | None = None
) -> CapturedModel:
    """Capture ``model(*inputs, **keywords)`` as a program.

    Args:
        model: An `nn.Module`, a `torch.jit.ScriptModule`, an `ExportedProgram` or a function of
            tensors.
        inputs: Example arguments. Tensors, also nested ones, become the program's inputs; other
            values become constants. Optional for an `ExportedProgram`, which has its own.
        keywords: Example keyword arguments, treated in the same way.

    Returns:
        The program with its weights.

    Raises:
        CaptureError: The model reads the value of a tensor, or an op cannot be recorded.
        TypeError: The model is of another kind.
    """
    keywords = keywords or {}
    if isinstance(model, ExportedProgram):
        if inputs or keywords:
            exported_arguments(model, inputs, keywords)
        return _capture_exported(model)
    if isinstance(model, torch.jit.ScriptModule):
        return _capture_call(
            _tensors_of(model), lambda tensors: _scripted(model, tensors), inputs, keywords
        )
    if isinstance(model, nn.Module):
        return _capture_module(model, inputs, keywords)
    if callable(model):
        return _capture_call({}, lambda tensors: model, inputs, keywords)
    raise TypeError(
        "expected an nn.Module, a function, an ExportedProgram or a ScriptModule,"
        f" found {type(model).__name__}"
    )


def exported_arguments(
    program: ExportedProgram, inputs: Sequence[object], keywords: dict[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return a call's arguments in the order of an exported program's inputs.

    Args:
        program: The exported program.
        inputs: Positional arguments. Without any argument, the examples of the export are used.
        keywords: Keyword arguments.

    Raises:
        CaptureError: The arguments do not match the program's inputs.
    """
    if not inputs and not keywords and program.example_inputs is not None:
        inputs, keywords = program.example_inputs
    specs = [
        spec.arg
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT
    ]
    expected = program.call_spec.in_spec
    names = list(expected.child(1).context) if expected is not None else []
    if set(names) == set(keywords):
        keywords = {name: keywords[name] for name in names}
    nodes = {node.name: node for node in program.graph.nodes}
    leaves, structure = pytree.tree_flatten((tuple(inputs), keywords))
    if structure != expected:
        taken = ", ".join(spec.name for spec in specs) or "nothing"
        given = ", ".join([f"{len(inputs)} by position", *keywords])
        raise CaptureError(
            f"the exported program takes {taken}, nested and named as in the export;"
            f" given were {given}"
        )
    for spec, leaf in zip(specs, leaves, strict=True):
        if isinstance(spec, ConstantArgument) and not _is_same(leaf, spec.value):
            raise CaptureError(
                f"the program was exported with {spec.name} = {spec.value!r}, and {leaf!r} was"
                " given: export another program for it"
            )
        if isinstance(spec, TensorArgument) and not isinstance(leaf, torch.Tensor):
            raise CaptureError(
                f"input {spec.name} of the exported program is a tensor,"
                f" {type(leaf).__name__} was given"
            )
        if isinstance(spec, TensorArgument):
            _check_type(spec.name, _example(nodes[spec.name].meta["val"], spec.name), leaf)
    return tuple(inputs), keywords


def _is_same(given: object, exported: object) -> bool:
    """Return whether two constants are equal; NaN equals NaN."""
    return bool(given == exported or (given != given and exported != exported))


def _check_type(name: str, example: torch.Tensor, given: torch.Tensor) -> None:
    if given.shape != example.shape or given.dtype != example.dtype:
        raise CaptureError(
            f"input {name} is {given.dtype} of shape {list(given.shape)}, but the program was"
            f" compiled for {example.dtype} of shape {list(example.shape)}: programs have static"
            " shapes, compile another one for this shape"
        )


def _capture_module(
    model: nn.Module, inputs: Sequence[object], keywords: dict[str, object]
) -> CapturedModel:
    """Capture a module by running it; if that reads a value, capture its export instead.

    Many modules read values only if they are not being exported, e.g. to check a mask.
    """
    try:
        return _capture_call(
            _tensors_of(model), lambda tensors: _with_tensors(model, tensors), inputs, keywords
        )
    except DataDependentError as data_dependent:
        try:
            # a failing export prints its graph, which is of no use here
            with redirect_stderr(io.StringIO()) as printed:
                exported = torch.export.export(model, tuple(inputs), keywords)
            print(printed.getvalue(), end="", file=sys.stderr)  # warnings
        except Exception:
            # the first error points at the line that reads the value
            raise data_dependent from None
        return _capture_exported(exported)


def _capture_call(
    weights: dict[str, torch.Tensor],
    bind: Callable[[dict[str, torch.Tensor]], Callable[..., object]],
    inputs: Sequence[object],
    keywords: dict[str, object],
) -> CapturedModel:
    paths, structure = pytree.tree_flatten_with_path((tuple(inputs), keywords))
    tensors = {_name(path): leaf for path, leaf in paths if isinstance(leaf, torch.Tensor)}
    with _explained():
        for tensor in (*weights.values(), *tensors.values()):
            check_in_memory(tensor)
    examples = {
        name: resolved(tensor.detach().cpu()).contiguous() for name, tensor in tensors.items()
    }
    with capturing() as recording:
        held = {name: placeholder_like(recording, tensor) for name, tensor in weights.items()}
        given = {name: placeholder_like(recording, tensor) for name, tensor in examples.items()}
        leaves = [
            given[_name(path)] if isinstance(leaf, torch.Tensor) else leaf for path, leaf in paths
        ]
        args, kwargs = pytree.tree_unflatten(leaves, structure)
        with _explained(), _uncompiled(), torch.device(DEVICE):
            result = bind(held)(*args, **kwargs)
        return _finish(recording, weights, examples, result)


@contextmanager
def _uncompiled() -> Iterator[None]:
    """Run modules that `torch.compile` wraps eagerly: a capture cannot contain their programs."""
    if "torch._dynamo" not in sys.modules:  # nothing is wrapped, and importing it takes seconds
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


def _capture_exported(program: ExportedProgram) -> CapturedModel:
    signature = program.graph_signature
    state = {**program.state_dict, **program.constants}
    weights: dict[str, torch.Tensor] = {}
    examples: dict[str, torch.Tensor] = {}
    nodes = {node.name: node for node in program.graph.nodes}
    for spec in signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            value = nodes[spec.arg.name].meta.get("val")
            if isinstance(value, torch.Tensor):
                examples[spec.arg.name] = _example(value, spec.arg.name)
            elif isinstance(value, torch.types.py_sym_types):
                raise CaptureError(
                    f"input {spec.arg.name} is a number that may change:"
                    " export the model with static numbers"
                )
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            weights[spec.target] = resolved(state[spec.target].detach().cpu())
        else:
            raise CaptureError(
                f"input {spec.arg.name} of the exported program is a {spec.kind.name.lower()}:"
                " a program takes tensors only"
            )
    with capturing() as recording:
        held = {name: placeholder_like(recording, tensor) for name, tensor in weights.items()}
        given = {name: placeholder_like(recording, tensor) for name, tensor in examples.items()}
        values: dict[object, object] = {}
        for spec in signature.input_specs:
            node = nodes[spec.arg.name]
            values[node] = (
                given.get(spec.arg.name) if spec.kind is InputKind.USER_INPUT else held[spec.target]
            )
        with _explained():
            flat = _interpret(program.graph_module, values)
        written = {**held, **given}
        results = []
        for spec, value in zip(signature.output_specs, flat, strict=True):
            if spec.target in written:
                written[spec.target].copy_(value)  # a buffer's or an input's new content
            else:
                results.append(value)
        result = pytree.tree_unflatten(results, program.call_spec.out_spec)
        return _finish(recording, weights, examples, result)


def _finish(
    recording: _C._Capture,
    weights: dict[str, torch.Tensor],
    examples: dict[str, torch.Tensor],
    result: object,
) -> CapturedModel:
    paths, structure = pytree.tree_flatten_with_path(result)
    for path, leaf in paths:
        if not isinstance(leaf, torch.Tensor):
            raise CaptureError(
                f"the model's result {'.'.join(_keys(path))} is {type(leaf).__name__}:"
                " a program returns tensors only"
            )
    names = tuple(".".join(_keys(path)) or "output" for path, _ in paths)
    with _explained():
        captured = recording.finish([on_device(leaf) for _, leaf in paths], [True] * len(paths))
    return CapturedModel(captured, weights, examples, structure, names)


_REGIONS = frozenset({"wrap_with_set_grad_enabled", "wrap_with_autocast"})
"""Ops that wrap a graph in a mode. The mode is already applied in a graph of ATen ops."""


def _interpret(graph_module: torch.fx.GraphModule, values: dict[object, object]) -> list[object]:
    """Run a graph of ATen ops; `values` has the values of its placeholders."""
    for node in graph_module.graph.nodes:
        if node.op == "call_function" and getattr(node.target, "__name__", "") in _REGIONS:
            given = torch.fx.node.map_arg(node.args, values.__getitem__)
            inner = next(
                i for i, argument in enumerate(given) if isinstance(argument, torch.fx.GraphModule)
            )
            bound = (n for n in given[inner].graph.nodes if n.op == "placeholder")
            values[node] = _interpret(
                given[inner], dict(zip(bound, given[inner + 1 :], strict=True))
            )
        elif node.op == "call_function":
            values[node] = call_node(node, values.__getitem__)
        elif node.op == "get_attr":
            values[node] = getattr(graph_module, node.target)
        elif node.op == "output":
            return list(torch.fx.node.map_arg(node.args[0], values.__getitem__))
    raise CaptureError("the graph has no output")


def _example(value: torch.Tensor, name: str) -> torch.Tensor:
    if any(isinstance(extent, torch.SymInt) for extent in value.shape):
        raise CaptureError(
            f"input {name} has the shape {list(value.shape)}: export the model with static shapes"
        )
    return torch.zeros(tuple(value.shape), dtype=value.dtype)


def _tensors_of(module: nn.Module) -> dict[str, torch.Tensor]:
    named = [*module.named_parameters(), *module.named_buffers()]
    return {name: resolved(tensor.detach().cpu()) for name, tensor in named}


def _with_tensors(module: nn.Module, tensors: dict[str, torch.Tensor]) -> Callable[..., object]:
    return lambda *args, **kwargs: torch.func.functional_call(module, tensors, args, kwargs)


def _scripted(
    module: torch.jit.ScriptModule, tensors: dict[str, torch.Tensor]
) -> Callable[..., object]:
    """Return a copy of a scripted module with these tensors as parameters and buffers."""
    copied = copy.deepcopy(module)
    for name, tensor in tensors.items():
        *owners, attribute = name.split(".")
        functools.reduce(getattr, owners, copied)._c.setattr(attribute, tensor)
    return copied


def _keys(path: Sequence[object]) -> list[str]:
    return [
        str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key)))) for key in path
    ]


def _name(path: Sequence[object]) -> str:
    """Return the name of an argument's tensor, e.g. ``x0`` (positional) or ``mask.keys.1``."""
    which, first, *rest = _keys(path)
    return ".".join([f"x{first}" if which == "0" else first, *rest])


_REMEDY = (
    'call it outside of the model, or use torch.compile(model, backend="ftm"), which calls it on'
    " the CPU between two programs"
)


@contextmanager
def _explained() -> Iterator[None]:
    """Translate errors of a recording to `CaptureError` with a remedy."""
    try:
        yield
    except NotImplementedError as error:
        if str(error).startswith("the value of a tensor was asked for"):
            raise DataDependentError(str(error)) from error
        raise CaptureError(f"{error}: {_REMEDY}") from error
    except TypeError as error:
        if "device type tensor to numpy" in str(error):
            raise DataDependentError(
                "the model converts a tensor to an array, which needs its values: numpy is no part"
                " of a program. Use PyTorch operations, or compute this part outside of the model"
            ) from error
        raise
    except RuntimeError as error:
        if "Expected all tensors to be on the same device" in str(error):
            raise CaptureError(
                "the model uses a tensor on another device, which is not an input, parameter or"
                " buffer: make it an input, or give the nn.Module that it belongs to (in place of a"
                " frozen ScriptModule, what was frozen)"
            ) from error
        raise
