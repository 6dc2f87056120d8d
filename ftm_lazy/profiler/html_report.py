"""Renders a profile as one HTML file without scripts or references to other files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from ftm_lazy.profiler import charts
from ftm_lazy.profiler.events import short_line
from ftm_lazy.profiler.limits import measured_limits

if TYPE_CHECKING:
    from ftm_lazy.profiler.steps import Step
    from ftm_lazy.profiler.views import Profile


_SHOWN = 30
_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 1240px; color: #222;
  background: #fff; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin: 2em 0 .4em; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: right; padding: 2px 8px; border-bottom: 1px solid #e4e4e4; }
th { border-bottom: 2px solid #999; } th:first-child, td:first-child, .left { text-align: left; }
td { font-variant-numeric: tabular-nums; } code { font-size: 12px; }
.note { color: #666; } svg { display: block; max-width: 100%; height: auto; }
"""


def render(profile: Profile) -> str:
    """Return the report."""
    parts = [
        _summary(profile),
        _section("Advice", _advice(profile)),
        _section("Steps", _steps(profile.steps)),
        _section(f"The {_SHOWN} costliest kernels", _kernels(profile)),
        _section(
            "Roofline",
            charts.roofline(profile.kernels, measured_limits()),
            "Each kernel by its operations per byte; the area of a circle is its time. The lines "
            "are this machine's limits, measured with a matrix product and a sum of vectors.",
        ),
        _section(
            "Time by module",
            charts.module_flame(profile.modules),
            "Time of the device, forward and backward. A module's bar is under that of its parent.",
        ),
        _section(
            "Timeline of the last step",
            charts.timeline(profile.events, profile.steps[-1]),
            "The host above, then the device's kernels, and what each core did. Hover for names.",
        ),
        _section("Memory", _memory(profile)),
        _section("Compiles", _compiles(profile)),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>Profile of device ftm</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _section(title: str, content: str, note: str = "") -> str:
    told = f'<p class="note">{escape(note)}</p>' if note else ""
    return f"<h2>{escape(title)}</h2>{told}\n{content}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], left: Sequence[int] = ()) -> str:
    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=left' if number in left else ''}>{escape(cell)}</{tag}>"
            for number, cell in enumerate(row)
        )

    body = "\n".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table><tr>{cells(head, 'th')}</tr>\n{body}</table>"


def _summary(profile: Profile) -> str:
    events = profile.events
    wall = (events.end - events.begin) / 1e6
    return (
        "<h1>Profile of device ftm</h1><p>"
        f"{wall:.1f} ms, {len(profile.steps)} steps, {len(events.runs)} runs of programs with "
        f"{len(events.kernels)} kernels on {events.core_count} cores. Programs ran "
        f"{profile.device_time / 1e6:.1f} ms, kernels {profile.kernel_time / 1e6:.1f} ms; "
        f"{profile.attributed:.1%} of that has a module and a Python line.</p>"
    )


def _advice(profile: Profile) -> str:
    found = profile.advice()
    if not found:
        return "<p>Nothing was found that costs much.</p>"
    return "<ul>" + "".join(f"<li>{escape(str(each))}</li>" for each in found) + "</ul>"


def _steps(steps: Sequence[Step]) -> str:
    names = "wall recording launching waiting compiling copying running idle".split()
    rows = [
        [str(number), *(f"{getattr(step, name) / 1e6:.3f}" for name in names), str(step.programs)]
        for number, step in list(enumerate(steps))[-_SHOWN:]
    ]
    return _table(["step", *(f"{name} ms" for name in names), "runs"], rows)


def _kernels(profile: Profile) -> str:
    limits = measured_limits()
    rows = [
        [
            total.name,
            f"{total.time / 1e6:.3f}",
            f"{total.time / max(profile.kernel_time, 1):.1%}",
            str(len(total.kernels)),
            f"{total.flops_per_second / 1e9:.1f}",
            f"{total.flops_per_second / (limits.flops or 1):.1%}",
            f"{total.bytes_per_second / 1e9:.2f}",
            f"{total.bytes_per_second / (limits.bytes or 1):.1%}",
            total.bound,
            short_line(total.line),
        ]
        for total in profile.kernels[:_SHOWN]
    ]
    head = ["kernel", "ms", "share", "runs", "GFLOP/s", "of max", "GB/s", "of max", "bound by"]
    return _table([*head, "line"], rows, left=(0, 9))


def _memory(profile: Profile) -> str:
    peak = profile.memory()
    chart = charts.memory_chart(profile.events, profile.memory_line())
    if peak is None:
        return chart
    rows = [
        [h.kind, f"{h.bytes / 2**20:.2f}", str(h.blocks), h.module, short_line(h.line)]
        for h in peak.holdings
    ]
    return (
        chart
        + f"<p>Peak of the last step: {peak.bytes / 2**20:.1f} MiB in use, "
        + f"{peak.idle / 2**20:.1f} MiB kept for reuse. It is held by:</p>"
        + _table(["kind", "MiB", "blocks", "module", "line"], rows[:_SHOWN], left=(0, 3, 4))
    )


def _compiles(profile: Profile) -> str:
    rows = [
        [event.name, f"{event.time / 1e6:.1f}", short_line(event.line)]
        for event in profile.events.host
        if event.kind == "compile"
    ]
    if not rows:
        return "<p>Nothing was compiled: all programs were in memory.</p>"
    return _table(["program", "ms", "line"], rows, left=(0, 2))
