"""``torch.compile(model, backend="ftm")``: Dynamo's graphs, through AOTAutograd, as programs of the
machine.

AOTAutograd makes the graphs functional and derives the backward one; everything else is the
recorder's and the compiler's that the device itself uses. Tensors on the CPU are the machine's
memory: a program reads and writes them where they lie.

``TORCH_LOGS=ftm_lazy`` says into what each graph falls, ``TORCH_LOGS=+ftm_lazy`` also the text of
every stage of its programs, under the stage's name.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule
from torch.nn.attention import SDPBackend, sdpa_kernel

from ftm_lazy.frontends.aot_fast_path import GraphCache, shortened
from ftm_lazy.frontends.fx_graph import CompiledGraph

__all__ = ["TorchCompileBackend", "backend"]

_graphs = torch._logging.getArtifactLogger(__name__, "aot_graphs")
_stages = logging.getLogger(__name__)


class TorchCompileBackend:
    """A backend object for ``torch.compile``, which can leave what it compiles in a directory.

    Args:
        output_dir: gets a folder for each graph, ``0000_forward`` and so on, with the text of every
            stage of its programs (``NN_stage``), the assembly among them as ``.lan``; None: nothing
            is written.

    Raises OSError, when a graph is compiled, if the directory cannot be written.
    """

    def __init__(self, output_dir: str | Path | None = None) -> None:
        self._output_dir = None if output_dir is None else Path(output_dir)
        self._numbers = itertools.count()
        self.graphs: list[CompiledGraph] = []
        """The graphs compiled so far, in order."""

    def __call__(
        self, graph_module: GraphModule, example_inputs: Sequence[Any], **options: Any
    ) -> Callable[..., Any]:
        """Dynamo's entry.  ``mode`` and ``options`` of `torch.compile` choose nothing here."""
        del options
        graphs = GraphCache()
        compilers = {
            f"{name}_compiler": partial(self._compile, graphs, kind)
            for name, kind in (("fw", "forward"), ("bw", "backward"), ("inference", "inference"))
        }
        with _without_the_cpus_kernels():
            call = aot_autograd(**compilers, keep_inference_input_mutations=True)(
                graph_module, example_inputs
            )
        return shortened(call, graphs)

    def _compile(
        self,
        graphs: GraphCache,
        kind: str,
        graph_module: GraphModule,
        example_inputs: Sequence[Any],
    ) -> CompiledGraph:
        del example_inputs
        name, directory = f"{next(self._numbers):04}_{kind}", None
        if self._output_dir is not None:
            directory = self._output_dir / name
            directory.mkdir(parents=True, exist_ok=True)
            (directory / "graph.py").write_text(graph_module.print_readable(print_output=False))
        graph = CompiledGraph(
            graph_module, name, partial(self._compiled, name, directory, itertools.count())
        )
        self.graphs.append(graph)
        graphs.add(kind, graph)
        return graph

    def _compiled(
        self, name: str, directory: Path | None, numbers: Iterator[int], text: str
    ) -> None:
        _graphs.debug("ftm trace\n%s", text)
        logs = _stages.isEnabledFor(logging.DEBUG)
        if directory is None and not logs:
            return
        from ftm_lazy.compile import compile_client, dump

        number = next(numbers)
        texts = compile_client.client().texts(text)
        if logs:
            for stage, content in texts.items():
                _stages.debug("%s, program %d, stage %s\n%s", name, number, stage, content)
        if directory is not None:
            place = directory if number == 0 else directory / f"program_{number}"
            place.mkdir(exist_ok=True)
            dump.write_stages(place, texts)


@contextmanager
def _without_the_cpus_kernels() -> Iterator[None]:
    """Keep AOTAutograd from taking ops for tensors of the CPU that are kernels of its libraries:
    attention, recurrent layers."""
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


def backend(
    graph_module: GraphModule, example_inputs: Sequence[Any], **options: Any
) -> Callable[..., Any]:
    """Return the entry point ``ftm`` in the group ``torch_dynamo_backends``."""
    return TorchCompileBackend()(graph_module, example_inputs, **options)
