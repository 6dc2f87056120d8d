"""Dump of each program's text at every compiler stage (``FTM_DUMP=dir``).

Each program gets a directory ``NNN_<hash>`` with one file ``NN_stage`` per stage and
``inputs.json``, the kinds, dtypes and shapes of its inputs. With ``FTM_DEBUG=data`` it also has the
inputs and outputs of the first run, so ``ftm run <directory>`` can repeat the run and compare.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy
import torch

from ftm_backend.ir.trace.trace import Trace
from ftm_backend.pass_manager import changes
from ftm_lazy.user_warnings import warn_user

__all__ = ["describe", "write", "write_data", "write_stages"]


def write(directory: Path, texts: dict[str, str], diffs: bool = False) -> Path | None:
    """Write the stages of one program into a new directory.

    Args:
        directory: The directory of all programs, created if missing.
        texts: Stage name to text, in the order of the stages, including "trace". An empty text,
            which needs a package that is not installed, has no file.
        diffs: Also write what each pass changes.

    Returns:
        The program's directory. None, with a warning, if it cannot be written.
    """
    digest = hashlib.blake2b(texts["trace"].encode(), digest_size=4).hexdigest()
    try:
        folder = _new_folder(directory, digest)
        write_stages(folder, texts, diffs)
    except OSError as error:
        warn_user(f"cannot write to FTM_DUMP={directory}: {error.strerror}")
        return None
    return folder


def write_stages(folder: Path, texts: dict[str, str], diffs: bool = False) -> None:
    """Write the stages of one program and ``inputs.json`` into an existing directory.

    Args:
        folder: The directory.
        texts: As of `write`.
        diffs: Also write ``NN_stage.diff`` for each pass that changes the text.

    Raises:
        OSError: A file cannot be written.
    """
    before, last = "", ".trace"
    for number, (stage, text) in enumerate(texts.items()):
        if not text:
            continue
        path, suffix = folder / f"{number:02d}_{stage}", _suffix(stage, text)
        path.with_suffix(suffix).write_text(text)
        if diffs and suffix == last and stage != "linalg":
            diff = changes(texts[before], text, (before, stage))
            if diff:
                path.with_suffix(".diff").write_text(diff)
        before, last = stage, suffix
    (folder / "inputs.json").write_text(
        json.dumps(describe(Trace.parse(texts["trace"])), indent=2) + "\n"
    )


def _suffix(stage: str, text: str) -> str:
    if stage in ("trace", "asm"):
        return {"trace": ".trace", "asm": ".lan"}[stage]
    return ".tiles" if text.startswith("@stage") else ".mlir"


def describe(trace: Trace) -> list[dict[str, object]]:
    """Return kind ("tensor" or "scalar"), dtype and shape of each input of a trace, in order."""
    tensors: list[dict[str, object]] = [
        {"kind": "tensor", "dtype": type_.dtype, "shape": list(type_.shape)}
        for type_ in trace.params
    ]
    scalars: list[dict[str, object]] = [
        {"kind": "scalar", "dtype": dtype} for dtype in trace.scalars
    ]
    return tensors + scalars


def write_data(
    folder: Path,
    inputs: Sequence[torch.Tensor],
    scalars: Sequence[float],
    outputs: Sequence[torch.Tensor],
) -> None:
    """Write the inputs and outputs of one run into the directory of its program.

    Tensors become ``<name>.npy``, where the name is that in the assembly; bfloat16 is stored as its
    bits in uint16. Scalars go to ``scalars.json``.

    Args:
        folder: The directory that `write` returned.
        inputs: Tensors on the CPU, in the order of the trace's parameters.
        scalars: Values in the order of the trace's scalars.
        outputs: Tensors on the CPU, in the order of the trace's results.
    """
    asm = next(folder.glob("*.lan")).read_text()
    try:
        for kind, tensors in (("in", inputs), ("out", outputs)):
            for name, tensor in zip(_names(asm, kind), tensors, strict=True):
                numpy.save(folder / f"{name}.npy", _array(tensor))
        values = dict(zip(_names(asm, "scalar"), scalars, strict=True))
        (folder / "scalars.json").write_text(json.dumps(values) + "\n")
    except OSError as error:
        warn_user(f"cannot write to {folder}: {error.strerror}")


def _names(asm: str, kind: str) -> list[str]:
    """Return the names of inputs, outputs or scalars in the order of the assembly."""
    lines = (line.split() for line in asm.splitlines() if line.startswith(f"@{kind} "))
    return [words[1].rstrip(",") for words in lines]


def _array(tensor: torch.Tensor) -> numpy.ndarray:
    tensor = tensor.detach().contiguous()
    return (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _new_folder(directory: Path, digest: str) -> Path:
    """Create the directory with the next free number; other processes may do the same."""
    directory.mkdir(parents=True, exist_ok=True)
    number = sum(1 for entry in directory.iterdir() if entry.is_dir())
    while True:
        folder = directory / f"{number:03d}_{digest}"
        if not any(directory.glob(f"{number:03d}_*")):
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                return folder
        number += 1
