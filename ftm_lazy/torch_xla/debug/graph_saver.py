"""torch_xla.debug.graph_saver: writes what would compute some tensors to a file."""

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
    """Write the trace of `tensors` into `save_dir`, in the format that ``SAVE_GRAPH_FMT`` says:
    text, dot or hlo (MLIR).

    Raises RuntimeError for another format.
    """
    chosen = os.environ.get("SAVE_GRAPH_FMT", "text")
    if chosen not in _FORMATS:
        raise RuntimeError(f"Invalid save graph format: {chosen}")
    thread = threading.get_ident()
    number = _saved[thread, name]
    _saved[thread, name] += 1
    Path(save_dir, f"{name}-{thread}-{number}.{chosen}").write_text(_FORMATS[chosen](tensors))
