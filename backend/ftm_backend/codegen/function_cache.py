"""Caches of compiled functions: one in this process, and one that processes share on disk.

The key of a function (`midend.analysis.structural_key.function_key`) does not depend on the program
around it, and is its name in both. An entry has the function's assembly and its encoded records, so
a hit skips lowering, code generation and assembling.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ftm_backend.assembler.object_files import TYPES, ObjectFile
from ftm_backend.ir.asm import program as p
from ftm_backend.ir.asm.parser import parse_function
from ftm_backend.ir.tile.program import CompiledFunction
from ftm_backend.lru import KEPT_PROGRAMS, LRUCache

KNOWN_SIZE = 1 << 27
KNOWN: LRUCache[CompiledFunction] = LRUCache(KNOWN_SIZE, kept_programs=KEPT_PROGRAMS)
"""Functions that this process has compiled, by key; the size is in bytes."""


class FunctionStore(Protocol):
    """A cache of functions that processes share, by key."""

    def get(self, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Return the functions that it has, of those asked for."""

    def put(self, functions: Mapping[str, bytes]) -> None:
        """Add functions."""


def fetch(keys: Iterable[str], shelf: FunctionStore) -> set[str]:
    """Copy functions that this process lacks from the shared cache into its own.

    Args:
        keys: Functions of the program to compile.
        shelf: The shared cache.

    Returns:
        The functions that neither cache has.
    """
    missing = [key for key in keys if KNOWN.get(key) is None]
    found = shelf.get(missing) if missing else {}
    for key, content in found.items():
        compiled = _unpack(content)
        KNOWN.put(key, compiled, compiled.size)
    return {*missing} - {*found}


def store(missing: Iterable[str], shelf: FunctionStore) -> None:
    """Add functions to the shared cache that `fetch` did not find and that were compiled since."""
    compiled = {key: KNOWN.get(key) for key in missing}
    entries = {key: _pack(f) for key, f in compiled.items() if f is not None}
    if entries:
        shelf.put(entries)


# --- serialization
# ---------------------------------------------------------------------------------------------


def _pack(compiled: CompiledFunction) -> bytes:
    header: dict[str, object] = {
        "lines": compiled.code.printed,
        "parameters": [
            (x.name, x.dtype, x.scalar, x.out, x.alias) for x in compiled.code.parameters
        ],
        "can_fault": compiled.can_fault,
        "has_products": compiled.has_products,
        "scattered": sorted(compiled.scattered),
        "gsm_bytes": compiled.gsm_bytes,
    }
    body = b""
    encoded: ObjectFile | None = compiled.code.object
    if encoded is not None:  # the program calls the function, so it was assembled
        header["object"] = {
            "sections": [(name, records.nbytes) for name, records in encoded.records.items()],
            "bases": encoded.bases,
            "immediates": encoded.immediates,
            "names": encoded.names,
        }
        body = b"".join(records.tobytes() for records in encoded.records.values())
    return zlib.compress(json.dumps(header).encode() + b"\n" + body, 1)


def _unpack(content: bytes) -> CompiledFunction:
    text, _, body = zlib.decompress(content).partition(b"\n")
    header = json.loads(text)
    if "object" in header:
        parameters = [p.AsmParameter(*fields) for fields in header["parameters"]]
        code = p.AsmFunction("", [*parameters], object=_unpack_object(header["object"], body))
    else:
        code = parse_function(header["lines"])
    code.printed = tuple(header["lines"])
    return CompiledFunction(
        code,
        header["can_fault"],
        header["has_products"],
        frozenset(header["scattered"]),
        header["gsm_bytes"],
    )


def _unpack_object(header: dict[str, Any], body: bytes) -> ObjectFile:
    records, at = {}, 0
    for name, size in header["sections"]:
        kind = TYPES[name]
        records[name] = np.frombuffer(body, kind, size // kind.itemsize, at)
        at += size
    immediates = tuple(((tuple(key), bits), number) for (key, bits), number in header["immediates"])
    names = {section: tuple(each) for section, each in header["names"].items()}
    return ObjectFile(records, header["bases"], immediates, names)
