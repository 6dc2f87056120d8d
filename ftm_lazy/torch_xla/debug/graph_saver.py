"""torch_xla.debug.graph_saver: write the graph that computes some tensors to a file."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path

import torch

from ftm_lazy.torch_xla import _XLAC

__all__ = ["save_tensors_graph"]

_FORMATS = {
    "text": _XLAC._get_xla_tensors_text,
    "dot": _XLAC._get_xla_tensors_dot,
    "hlo": _XLAC._get_xla_tensors_hlo,
}
_saved: Counter[tuple[int, str]] = Counter()


def save_tensors_graph(
    save_dir: str | os.PathLike[str], name: str, tensors: list[torch.Tensor]
) -> None:
    """Write the graph of `tensors` in the format ``SAVE_GRAPH_FMT``: text, dot or hlo (MLIR).

    Args:
        save_dir: The directory.
        name: First part of the file's name.
        tensors: Pending tensors.

    Raises:
        RuntimeError: The format is unknown.
    """
    chosen = os.environ.get("SAVE_GRAPH_FMT", "text")
    if chosen not in _FORMATS:
        raise RuntimeError(f"Invalid save graph format: {chosen}")
    thread = threading.get_ident()
    number = _saved[thread, name]
    _saved[thread, name] += 1
    Path(save_dir, f"{name}-{thread}-{number}.{chosen}").write_text(_FORMATS[chosen](tensors))
