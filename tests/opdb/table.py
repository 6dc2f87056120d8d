"""The tables of docs/ops.md, made of `support.json`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from ftm_backend.frontend.ops import native_ops
from opdb import known
from opdb.families import FAMILIES, family
from opdb.support import RIGHT, WORDS, load

__all__ = ["fallbacks", "modules", "ops", "optims", "totals"]

_SHORT = {
    "float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16", "int8": "i8", "uint8": "u8",
    "int16": "i16", "int32": "i32", "int64": "i64", "bool": "bool", "complex64": "c64",
}  # fmt: skip


_NATIVE = native_ops()

PARTS = ("forward in parts", "backward in parts")


def _entries(db: str) -> list[dict[str, Any]]:
    return [entry for entry in load() if entry["db"] == db]


def totals() -> str:
    """The numbers at the head of the document."""
    entries = _entries("ops")
    best = Counter(_word(entry, "forward", "backward") for entry in entries)
    dtypes = Counter(word for entry in entries for word in entry["dtypes"].values())
    checks = Counter(word for entry in entries for word in entry["checks"].values())
    rows = [
        "| op_db | native | fallback | uncompiled | wrong | crash | hang | not on the CPU |",
        "|---|" + "---:|" * 7,
    ]
    for title, counts in {
        f"{len(entries)} entries, forward and backward in float32": best,
        f"{checks.total()} checks in float32": checks,
        f"{dtypes.total()} pairs of entry and dtype": dtypes,
    }.items():
        rows.append(f"| {title} | {' | '.join(str(counts[word]) for word in (*WORDS, None))} |")
    counts = Counter(_word(entry, "forward", "backward") for entry in _entries("compiled"))
    rows.append(
        f"| the same under `torch.compile(fullgraph=True)` | {' | '.join(str(counts[word]) for word in (*WORDS, None))} |"
    )
    parts = Counter(
        _word(entry, *PARTS)
        for entry in _entries("compiled")
        if any(check in entry["checks"] for check in PARTS)
    )
    rows.append(
        f"| {parts.total()} that Dynamo breaks into several graphs, without `fullgraph`"
        f" | {' | '.join(str(parts[word]) for word in (*WORDS, None))} |"
    )
    for db in ("modules", "optims"):
        counts = Counter(_word(entry, *entry["checks"]) for entry in _entries(db))
        title = f"{len(_entries(db))} entries of {db.removesuffix('s')}_db, all checks"
        rows.append(f"| {title} | {' | '.join(str(counts[word]) for word in (*WORDS, None))} |")
    return "\n".join(rows) + "\n"


def ops() -> str:
    """The entries of op_db, by family."""
    compiled = {entry["entry"]: entry for entry in _entries("compiled")}
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in _entries("ops"):
        groups[family(entry["entry"])].append(entry)
    parts = []
    for name in ("elementwise", *FAMILIES):
        native = sum(_word(entry, "forward", "backward") == "native" for entry in groups[name])
        parts.append(
            f"### {name}\n\n{native} of {len(groups[name])} are native in float32, forward and backward.\n"
        )
        rows: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for entry in groups[name]:
            rows[_op_cells(entry, compiled[entry["entry"]])].append(entry["entry"])
        parts.append(_table(_OP_TITLES, rows))
    return "\n".join(parts)


def modules() -> str:
    """The entries of module_db."""
    return _plain(_entries("modules"), ("train", "eval", "backward", "copies"))


def optims() -> str:
    """The entries of optim_db."""
    return _plain(_entries("optims"), ("plain", "foreach", "fused", "scheduled"))


def fallbacks() -> str:
    """The operations that run on the CPU, grouped by the dtypes in which they do and the reason."""
    users: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in _entries("ops"):
        for operation in entry["fallbacks"]:
            users[operation].append(entry)
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for operation, entries in sorted(users.items()):
        dtypes, reason = _unsupported(operation, entries)
        groups[dtypes, known.fallback_reason(operation) or reason].append(operation)
    return _table(("operations", "dtypes", "reason"), groups)


def _table(titles: tuple[str, ...], groups: dict[tuple[str, ...], list[str]]) -> str:
    """A table with a row for each group: its names, and the cells that they share."""
    rows = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for cells, names in groups.items():
        rows.append(f"| {' '.join(f'`{name}`' for name in names)} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def _unsupported(operation: str, entries: list[dict[str, Any]]) -> tuple[str, str]:
    """The dtypes in which an operation runs on the CPU, and why."""
    supported = _NATIVE.get(operation) or _NATIVE.get(operation.rpartition(".")[0])
    if supported is None:
        return "all", "has no op record"
    met = {
        _SHORT.get(dtype, dtype): None
        for entry in entries
        for dtype, word in entry["dtypes"].items()
        if word == "fallback"
    }
    missing = [dtype for dtype in met if dtype not in supported]
    if missing:
        return " ".join(missing), "its op record does not take these dtypes"
    return "all", "its op record does not take every form"


def _word(entry: dict[str, Any], *checks: str) -> str | None:
    """The worst word of the entry's `checks`; None if it has none of them."""
    found = [entry["checks"][check] for check in checks if check in entry["checks"]]
    return max(found, key=WORDS.index) if found else None


_OP_TITLES = tuple(
    "entries,forward,backward,`torch.compile`,other checks,dtypes,why not native".split(",")
)


def _op_cells(entry: dict[str, Any], compiled: dict[str, Any]) -> tuple[str, ...]:
    checks = entry["checks"]
    others = {check: word for check, word in checks.items() if check not in ("forward", "backward")}
    return (
        checks.get("forward", "-"),
        checks.get("backward", "-"),
        _word(compiled, "forward", "backward")
        or (f"in parts: {word}" if (word := _word(compiled, *PARTS)) else "-"),
        ", ".join(_grouped(others)),
        "; ".join(_grouped(_shortened(entry))),
        "; ".join((*_reasons(entry), *_reasons_compiled(compiled))),
    )


def _shortened(entry: dict[str, Any]) -> dict[str, str]:
    return {_SHORT.get(name, name): word for name, word in entry["dtypes"].items()}


def _grouped(words: dict[str, str]) -> Iterator[str]:
    """The names with the same word together, the word only where it is not "native"."""
    for word in WORDS:
        names = [name for name, has in words.items() if has == word]
        if names:
            yield " ".join(names) if word == "native" else f"{word}: {' '.join(names)}"


def _reasons(entry: dict[str, Any]) -> Iterator[str]:
    if entry["dtype"] is None:
        yield "PyTorch has it on GPUs only"
    yield from (f"`{operation}`" for operation in entry["fallbacks"])
    bad = {reason for check, word in entry["checks"].items() if word not in RIGHT
           if (reason := known.reason(entry["entry"], entry["dtype"], check, entry["db"]))}  # fmt: skip
    bad |= {reason for dtype, word in entry["dtypes"].items() if word not in RIGHT
            if (reason := known.reason(entry["entry"], dtype, "forward", entry["db"]))}  # fmt: skip
    yield from sorted(bad)


def _reasons_compiled(entry: dict[str, Any]) -> Iterator[str]:
    if entry["entry"] in known.NOT_COMPILED:
        yield f"no whole graph: {known.NOT_COMPILED[entry['entry']]}"
    for check, word in entry["checks"].items():
        reason = (
            known.reason(entry["entry"], entry["dtype"], check, "compiled")
            if word not in RIGHT
            else None
        )
        if reason:
            yield f"compiled: {reason}"
            return


def _plain(entries: list[dict[str, Any]], checks: tuple[str, ...]) -> str:
    rows: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for entry in entries:
        found = [entry["checks"].get(check, "-") for check in checks]
        names = " ".join(f"`{operation}`" for operation in entry["fallbacks"])
        rows[*found, "; ".join(_grouped(_shortened(entry))), names].append(entry["entry"])
    return _table(("entries", *checks, "dtypes", "falls back"), rows)
