"""The compact, committed form of a full run's results: `support.json`. Entries with equal results
share a line.

Of each check in the entry's primary dtype, and of each other dtype (the worst of its checks without
variants), it keeps one word of `WORDS`; and the operations that fell back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["FILE", "RIGHT", "WORDS", "condense", "load", "save", "word"]

FILE = Path(__file__).with_name("support.json")

WORDS = ("native", "fallback", "uncompiled", "wrong", "crash", "hang")
"""From good to bad. All of it was compiled; some operations ran on the CPU; some programs did not
compile and ran operation by operation on the CPU; a result differs; the process died; it did not
end in time."""


RIGHT = WORDS[:3]
"""The words for right results."""

_OF_DTYPES = ("forward", "backward", "train", "eval", "plain", "foreach")
"""The checks that determine whether a dtype is supported."""


def word(record: dict[str, Any]) -> str | None:
    """The word for one record of the results; None if there was nothing to run."""
    if record["status"] != "right":
        return None if record["status"] == "none" else record["status"]
    if record["compile_failures"]:
        return "uncompiled"
    return "fallback" if record["fallbacks"] else "native"


def condense(
    names: Iterable[tuple[str, str]], records: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The entries of `support.json`.

    Args:
        names: database and name of all entries, in order; those without a record exist on no CPU.
        records: the results, in any order as long as an entry's primary dtype is its first.
    """
    entries: dict[tuple[str, str], dict[str, Any]] = {
        (db, name): {
            "db": db,
            "entry": name,
            "dtype": None,
            "checks": {},
            "dtypes": {},
            "fallbacks": [],
        }
        for db, name in names
    }
    for record in records:
        entry = entries[record["db"], record["entry"]]
        entry["dtype"] = entry["dtype"] or record["dtype"]
        found = word(record)
        if found is None:
            continue
        if record["dtype"] == entry["dtype"]:
            entry["checks"][record["check"]] = found
        if record["check"] in _OF_DTYPES:
            entry["dtypes"][record["dtype"]] = worst(
                entry["dtypes"].get(record["dtype"], WORDS[0]), found
            )
        entry["fallbacks"] = sorted({*entry["fallbacks"], *record["fallbacks"]})
    return list(entries.values())


def worst(*words: str) -> str:
    """The worst of `words`."""
    return max(words, key=WORDS.index)


def save(entries: list[dict[str, Any]], path: Path = FILE) -> None:
    """Writes `entries`, those with equal results on one line."""
    groups: dict[str, list[str]] = {}
    for entry in entries:
        results = {key: value for key, value in entry.items() if key != "entry"}
        groups.setdefault(json.dumps(results), []).append(entry["entry"])
    lines = [
        json.dumps({"entries": names, **json.loads(results)}) for results, names in groups.items()
    ]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")


def load(path: Path = FILE) -> list[dict[str, Any]]:
    """Reads what `save` wrote."""
    return [
        {"entry": name, **{key: value for key, value in group.items() if key != "entries"}}
        for group in json.loads(path.read_text())
        for name in group["entries"]
    ]
