"""``torch.compile(model, backend="ftm")``: compile Dynamo's graphs for the machine.

AOTAutograd functionalizes each graph and derives the backward graph. Recorder and compiler are
those of the lazy device. Programs read and write CPU tensors in place, because the machine uses
host memory.

``TORCH_LOGS=ftm_lazy`` logs how each graph is partitioned into programs; ``TORCH_LOGS=+ftm_lazy``
also logs the text of every compiler stage.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule
from torch.nn.attention import SDPBackend, sdpa_kernel

from ftm_backend.ir.trace.trace import Trace
from ftm_lazy.frontends.aot_fast_path import GraphCache, bypass_wrappers
from ftm_lazy.frontends.fx_graph import CompiledGraph
from ftm_lazy.torch_version import private_names

_graphs = torch._logging.getArtifactLogger(__name__, "aot_graphs")
_stages = logging.getLogger(__name__)


class TorchCompileBackend:
    """Backend for ``torch.compile`` that can write what it compiles to a directory.

    Compiling a graph raises OSError if the directory cannot be written.

    Args:
        output_dir: Directory that gets a folder for each graph, ``0000_forward`` and so on, with
            the text of every compiler stage (``NN_stage``; the assembly is ``.lan``). None writes
            nothing.

    Example:
        >>> backend = ftm_lazy.TorchCompileBackend(output_dir="stages")
        >>> compiled = torch.compile(model, backend=backend)
    """

    def __init__(self, output_dir: str | Path | None = None) -> None:
        self._output_dir = None if output_dir is None else Path(output_dir)
        self._numbers = itertools.count()
        self.graphs: list[CompiledGraph] = []
        """The graphs compiled so far, in order."""

    def __call__(
        self, graph_module: GraphModule, example_inputs: Sequence[object], **options: object
    ) -> Callable[..., object]:
        """Compile one graph; called by Dynamo.

        Args:
            graph_module: Dynamo's graph.
            example_inputs: Example inputs of the graph.
            **options: ``mode`` and ``options`` of `torch.compile`, which have no effect.

        Returns:
            A function that replaces the graph.
        """
        del options
        graphs = GraphCache()
        compilers = {
            f"{name}_compiler": partial(self._compile, graphs, kind)
            for name, kind in (("fw", "forward"), ("bw", "backward"), ("inference", "inference"))
        }
        with _without_cpu_kernels():
            call = aot_autograd(**compilers, keep_inference_input_mutations=True)(
                graph_module, example_inputs
            )
        return bypass_wrappers(call, graphs)

    def _compile(
        self,
        graphs: GraphCache,
        kind: str,
        graph_module: GraphModule,
        example_inputs: Sequence[object],
    ) -> CompiledGraph:
        del example_inputs
        graph = self.compile_aten(graph_module, kind)
        graphs.add(kind, graph)
        return graph

    def compile_aten(self, graph_module: GraphModule, kind: str) -> CompiledGraph:
        """Compile a graph of ATen ops, without AOTAutograd.

        Args:
            graph_module: A graph as AOTAutograd makes it.
            kind: The graph's name in logs and in `output_dir`, after its number.

        Raises:
            ValueError: The graph calls modules or methods.
        """
        name, directory = f"{next(self._numbers):04}_{kind}", None
        if self._output_dir is not None:
            directory = self._output_dir / name
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "graph.py").write_text(graph_module.print_readable(print_output=False))
        graph = CompiledGraph(
            graph_module, name, partial(self._write_stages, name, directory, itertools.count())
        )
        self.graphs.append(graph)
        return graph

    def _write_stages(
        self, name: str, directory: Path | None, numbers: Iterator[int], trace: Trace
    ) -> None:
        """Log and write the stages of one program of a graph."""
        _graphs.debug("ftm trace\n%s", trace)
        logs = _stages.isEnabledFor(logging.DEBUG)
        if directory is None and not logs:
            return
        from ftm_lazy.compile import compile_client, dump

        number = next(numbers)
        texts = compile_client.client().texts(trace)
        if logs:
            for stage, content in texts.items():
                _stages.debug("%s, program %d, stage %s\n%s", name, number, stage, content)
        if directory is not None:
            folder = directory if number == 0 else directory / f"program_{number}"
            folder.mkdir(exist_ok=True)
            dump.write_stages(folder, texts)


@contextmanager
def _without_cpu_kernels() -> Iterator[None]:
    """Keep AOTAutograd from choosing CPU-only ops for attention and recurrent layers.

    For CPU tensors it would trace calls of flash attention and of oneDNN's recurrent layers.
    """
    enabled = private_names.mkldnn_enabled()
    private_names.set_mkldnn_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        private_names.set_mkldnn_enabled(enabled)


def backend(
    graph_module: GraphModule, example_inputs: Sequence[object], **options: object
) -> Callable[..., object]:
    """Compile one graph; the entry point ``ftm`` in the group ``torch_dynamo_backends``.

    Args:
        graph_module: Dynamo's graph.
        example_inputs: Example inputs of the graph.
        **options: ``mode`` and ``options`` of `torch.compile`, which have no effect.

    Returns:
        A function that replaces the graph.
    """
    return TorchCompileBackend()(graph_module, example_inputs, **options)
