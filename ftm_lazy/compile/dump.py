"""Writes the text of programs at every stage: ``FTM_DUMP=dir``.

Each program gets a directory ``NNN_<hash>`` of its own, with a file ``NN_stage`` for each stage and
``inputs.json``, which says what the program takes. With ``FTM_DEBUG=data``, what it was given when
it first ran and what came out stand beside them, so that ``ftm-run <directory>`` repeats the run
and compares.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy
import torch

from ftm_backend.pass_manager import changes
from ftm_lazy.warnings_once import notice

__all__ = ["describe", "write", "write_data", "write_stages"]

_INPUT = re.compile(r"^  [%$](\d+) = (param|scalar) (\w+)(?:\[([\d,]*)\])?$", re.MULTILINE)


def write(directory: Path, texts: dict[str, str], diffs: bool = False) -> Path | None:
    """Writes one program; returns its directory, or None, with a warning, if it cannot be written.

    Args:
        directory: the directory of all programs, made if need be.
        texts: stage name to text, in the order of the stages, the trace among them.
        diffs: also write what each pass changes.
    """
    digest = hashlib.blake2b(texts["trace"].encode(), digest_size=4).hexdigest()
    try:
        place = _fresh(directory, digest)
        write_stages(place, texts, diffs)
    except OSError as error:
        notice(f"cannot write to FTM_DUMP={directory}: {error.strerror}")
        return None
    return place


def write_stages(place: Path, texts: dict[str, str], diffs: bool = False) -> None:
    """Write the stages of one program into a directory that exists.

    Args:
        place: The directory.
        texts: Stage name to text, in order.
        diffs: Also write ``NN_stage.diff`` for each pass that changes the text.

    Raises:
        OSError: The directory cannot be written.
    """
    before, last = "", ".trace"
    for number, (stage, text) in enumerate(texts.items()):
        path, suffix = place / f"{number:02d}_{stage}", _suffix(stage, text)
        path.with_suffix(suffix).write_text(text)
        if diffs and suffix == last and stage != "linalg":
            diff = changes(texts[before], text, (before, stage))
            if diff:
                path.with_suffix(".diff").write_text(diff)
        before, last = stage, suffix
    (place / "inputs.json").write_text(json.dumps(describe(texts["trace"]), indent=2) + "\n")


def _suffix(stage: str, text: str) -> str:
    if stage in ("trace", "asm"):
        return {"trace": ".trace", "asm": ".lan"}[stage]
    return ".tiles" if text.startswith("@stage") else ".mlir"


def describe(trace: str) -> list[dict[str, object]]:
    """What a program takes, in the order in which it takes it: kind, dtype and, for tensors,
    shape."""
    found = []
    for _, kind, dtype, shape in _INPUT.findall(trace):
        entry: dict[str, object] = {
            "kind": "tensor" if kind == "param" else "scalar",
            "dtype": dtype,
        }
        if kind == "param":
            entry["shape"] = [int(extent) for extent in shape.split(",") if extent]
        found.append(entry)
    return found


def write_data(
    place: Path,
    inputs: Sequence[torch.Tensor],
    scalars: Sequence[float],
    outputs: Sequence[torch.Tensor],
) -> None:
    """Writes one run into the directory of its program: ``<name>.npy`` by the names in its
    assembly, bfloat16 as its bits in uint16, and ``scalars.json``.

    Args:
        place: what `write` returned.
        inputs: on the CPU, in the order of the trace's parameters.
        scalars: in the order of the trace's scalars.
        outputs: on the CPU, in the order of the trace's results.
    """
    asm = next(place.glob("*.lan")).read_text()
    try:
        for kind, tensors in (("in", inputs), ("out", outputs)):
            for name, tensor in zip(_names(asm, kind), tensors, strict=True):
                numpy.save(place / f"{name}.npy", _array(tensor))
        values = dict(zip(_names(asm, "scalar"), scalars, strict=True))
        (place / "scalars.json").write_text(json.dumps(values) + "\n")
    except OSError as error:
        notice(f"cannot write to {place}: {error.strerror}")


def _names(asm: str, kind: str) -> list[str]:
    return re.findall(rf"^@{kind}\s+(\w+),", asm, re.MULTILINE)


def _array(tensor: torch.Tensor) -> numpy.ndarray:
    tensor = tensor.detach().contiguous()
    return (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _fresh(directory: Path, digest: str) -> Path:
    """Makes the next directory; other processes may be doing the same."""
    directory.mkdir(parents=True, exist_ok=True)
    number = sum(1 for entry in directory.iterdir() if entry.is_dir())
    while True:
        place = directory / f"{number:03d}_{digest}"
        taken = any(directory.glob(f"{number:03d}_*"))
        try:
            if not taken:
                place.mkdir()
                return place
        except FileExistsError:
            taken = True
        number += 1
