"""Writes the text of programs at every stage: ``FTM_DUMP=dir``.

Each program gets a directory ``NNN_<hash>`` of its own, with a file ``NN_stage`` for each stage and
``inputs.json``, which says what `ftm-run` must be given to run the last of them.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from pathlib import Path

__all__ = ["write"]

_SUFFIXES = {"trace": ".txt", "torch": ".mlir", "linalg": ".mlir", "ftm": ".mlir", "asm": ".lan"}
_INPUT = re.compile(r"^  [%$](\d+) = (param|scalar) (\w+)(?:\[([\d,]*)\])?$", re.MULTILINE)


def write(directory: Path, texts: dict[str, str]) -> Path | None:
    """Writes one program; returns its directory, or None, with a warning, if it cannot be written.

    Args:
        directory: the directory of all programs, made if need be.
        texts: stage name to text, in the order of the stages, the trace among them.
    """
    digest = hashlib.blake2b(texts["trace"].encode(), digest_size=4).hexdigest()
    try:
        place = _fresh(directory, digest)
        for number, (stage, text) in enumerate(texts.items()):
            (place / f"{number:02d}_{stage}{_SUFFIXES.get(stage, '.txt')}").write_text(text)
        (place / "inputs.json").write_text(json.dumps(describe(texts["trace"]), indent=2) + "\n")
    except OSError as error:
        warnings.warn(f"cannot write to FTM_DUMP={directory}: {error.strerror}", RuntimeWarning, stacklevel=4)
        return None
    return place


def describe(trace: str) -> list[dict[str, object]]:
    """What a program takes, in the order in which it takes it: kind, dtype and, for tensors, shape."""
    found = []
    for _, kind, dtype, shape in _INPUT.findall(trace):
        entry: dict[str, object] = {"kind": "tensor" if kind == "param" else "scalar", "dtype": dtype}
        if kind == "param":
            entry["shape"] = [int(extent) for extent in shape.split(",") if extent]
        found.append(entry)
    return found


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
