"""Print the results of a run: a summary by family, and the failures."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from rich.console import Console
from rich.table import Table

from opdb import known
from opdb.databases import Unit
from opdb.families import family

__all__ = ["line", "say", "summarize", "unexpected"]

_BAD = ("wrong", "crash", "hang")


def line(unit: Unit, check: str, record: dict[str, Any]) -> str:
    """A failure in one line."""
    more = f" (of {record['wrong']})" if record["wrong"] > 1 else ""
    return f"{record['status']}: {unit.entry} {unit.dtype} {check}: {record['detail'][0]}{more}"


def unexpected(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is wrong, crashes or hangs and is no known gap."""
    return [
        r
        for r in records
        if r["status"] in _BAD and not known.reason(r["entry"], r["dtype"], r["check"], r["db"])
    ]


def say(console: Console, text: str, style: str | None = None) -> None:
    """Print `text` on one line, without markup or wrapping."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def summarize(records: list[dict[str, Any]], console: Console, details: bool) -> None:
    """Prints a table by family, and what is not right."""
    table = Table(title="checks by family")
    for column in (
        "family",
        "entries",
        "native",
        "checks",
        "right",
        "native",
        "wrong",
        "crash",
        "hang",
        "seconds",
    ):
        table.add_column(column, justify="left" if column == "family" else "right")
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        groups[family(record["entry"]) if record["db"] == "ops" else record["db"]].append(record)
    for name, group in [*sorted(groups.items()), ("all", records)]:
        counts = Counter(record["status"] for record in group)
        ran = [record for record in group if record["status"] != "none"]
        entries = {record["entry"] for record in group}
        behind = {record["entry"] for record in ran if not record["native"]}
        table.add_row(
            name, *map(str, (len(entries), len(entries - behind), len(ran), counts["right"])),
            str(sum(record["native"] for record in ran)), *(str(counts[status]) for status in _BAD),
            f"{sum(record['seconds'] for record in group):.1f}", end_section=name == max(groups),
        )  # fmt: skip
    console.print(table)
    if details:
        _explain(records, console)
    bad = unexpected(records)
    console.print(f"{len(bad)} checks are wrong, crash or hang" + (":" if bad else ""))
    for record in bad:
        unit = Unit(record["db"], record["entry"], record["dtype"], ())
        say(console, line(unit, record["check"], record))


def _explain(records: list[dict[str, Any]], console: Console) -> None:
    """Prints what fell back or did not compile, entry by entry."""
    for record in records:
        if record["fallbacks"] or record["compile_failures"]:
            why = [f"falls back: {', '.join(record['fallbacks'])}"] if record["fallbacks"] else []
            if record["compile_failures"]:
                why.append(
                    f"{record['compile_failures']} did not compile: {'; '.join(record['uncompiled'])}"
                )
            where = f"{record['entry']} {record['dtype']} {record['check']}"
            say(console, f"{where}: {'; '.join(why)}")
