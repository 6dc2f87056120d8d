"""Functions that were compiled before: those of this process, and those that a cache on disk has.

A function is found by what it is (`midend.analysis.structural_key`), whatever program it stands in.
On disk its name is a digest of that; what is kept is its assembly, and its records as they stand in
an image, so that it is neither lowered, nor written, nor assembled again.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ftm_backend.assembler.object_files import OBJECTS, TYPES, ObjectFile
from ftm_backend.ir.asm import program as p
from ftm_backend.ir.tile.kernel_tree import KernelParameter
from ftm_backend.ir.tile.program import CompiledFunction
from ftm_backend.lru import KEPT_PROGRAMS, LRUCache

__all__ = ["KNOWN", "KNOWN_SIZE", "FunctionStore", "Signature", "fetch", "store"]

KNOWN_SIZE = 1 << 26
KNOWN: LRUCache[CompiledFunction] = LRUCache(KNOWN_SIZE, kept_programs=KEPT_PROGRAMS)
"""Functions that this process has compiled, by their signatures; at most so many characters."""

Signature = tuple[Any, ...]


class FunctionStore(Protocol):
    """A cache of functions that other processes share, by their digests."""

    def get(self, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Those that it has."""

    def put(self, functions: Mapping[str, bytes]) -> None:
        """Keeps functions."""


def fetch(
    signatures: Iterable[Signature], machine: str, shelf: FunctionStore
) -> dict[str, Signature]:
    """Takes functions that this process does not know from the shelf; those that it does not have,
    either, by their digests.

    machine: the preset's name.
    """
    missing = {
        _digest(signature): signature for signature in signatures if KNOWN.get(signature) is None
    }
    if missing:
        for digest, content in shelf.get(list(missing)).items():
            signature = missing.pop(digest)
            written, made = _unpack(content)
            KNOWN.put(signature, written, written.size(signature))
            if made is not None:
                OBJECTS.put((machine, "\n".join(written.lines)), made, made.size)
    return missing


def store(missing: Mapping[str, Signature], machine: str, shelf: FunctionStore) -> None:
    """Puts functions on the shelf that `fetch` did not find there and that were compiled since."""
    made = {}
    for digest, signature in missing.items():
        written = KNOWN.get(signature)
        if written is not None:
            made[digest] = _pack(written, OBJECTS.get((machine, "\n".join(written.lines))))
    if made:
        shelf.put(made)


def _digest(signature: Signature) -> str:
    """Of its text: a signature is made of numbers and strings."""
    return hashlib.blake2b(repr(signature).encode(), digest_size=32).hexdigest()


# --- as bytes
# -------------------------------------------------------------------------------------------


def _pack(written: CompiledFunction, made: ObjectFile | None) -> bytes:
    header: dict[str, Any] = {
        "lines": written.lines,
        "can_fault": written.can_fault,
        "gsm_bytes": written.gsm_bytes,
        "parameters": [(x.name, x.dtype, x.out, x.alias) for x in written.parameters],
    }
    body = b""
    if made is not None:
        header["object"] = {
            "sections": [(name, records.nbytes) for name, records in made.records.items()],
            "bases": made.bases,
            "immediates": made.immediates,
            "names": made.names,
            "parameters": [
                (x.name, x.dtype, x.scalar, x.out, x.alias, x.line, x.comment)
                for x in made.parameters
            ],
        }
        body = b"".join(records.tobytes() for records in made.records.values())
    return zlib.compress(json.dumps(header).encode() + b"\n" + body, 1)


def _unpack(content: bytes) -> tuple[CompiledFunction, ObjectFile | None]:
    text, _, body = zlib.decompress(content).partition(b"\n")
    header = json.loads(text)
    written = CompiledFunction(
        "",
        tuple(header["lines"]),
        [KernelParameter(*x) for x in header["parameters"]],
        header["can_fault"],
        header["gsm_bytes"],
    )
    kept = header.get("object")
    if kept is None:
        return written, None
    records, at = {}, 0
    for name, size in kept["sections"]:
        records[name], at = (
            np.frombuffer(body, TYPES[name], size // TYPES[name].itemsize, at),
            at + size,
        )
    immediates = tuple(((tuple(key), bits), number) for (key, bits), number in kept["immediates"])
    names = {section: tuple(each) for section, each in kept["names"].items()}
    return written, ObjectFile(
        records,
        kept["bases"],
        tuple(p.AsmParameter(*x) for x in kept["parameters"]),
        immediates,
        names,
    )
