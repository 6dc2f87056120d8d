"""Draws one core's modelled timeline as SVG, or writes it as a Chrome or Perfetto trace."""

from __future__ import annotations

import json
from html import escape

from ftm_backend.perf_model.cycle_model import CycleProfile, TimelineSpan

__all__ = ["chrome_trace", "svg"]

LANES = ("core", "DMA")
WIDTH, LANE_HEIGHT, LEFT, TOP, TICKS = 1200, 34, 60, 56, 10
COLOURS = {
    "MM": "#3b6ea8",
    "MMW": "#3b6ea8",
    "@map": "#5a9a5a",
    "TRANS": "#8a6fb0",
    "FOLD": "#8a6fb0",
    "scalar": "#b9b9b9",
    "wait": "#f0e2d0",
    "DLD": "#d08a3c",
    "DLB": "#d08a3c",
    "DST": "#b5533c",
    "DGA": "#c7a23c",
    "DSC": "#97423c",
    "DCP": "#6fa8a8",
    "DCW": "#6fa8a8",
}
OTHER = "#777777"


def svg(profile: CycleProfile, window: tuple[float, float] | None = None) -> str:
    """Draw the spans of ``profile``, which must have been modelled with ``watch``.

    Args:
        profile: The profile.
        window: First and last cycle; by default all.
    """
    first, last = window or (0.0, max((span.end for span in profile.spans), default=1.0))
    spans = [span for span in profile.spans if span.end > first and span.start < last]
    scale = WIDTH / max(last - first, 1.0)
    height = TOP + LANE_HEIGHT * len(LANES) + 70
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 20}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<text x="{LEFT}" y="20" font-size="14">modelled on {escape(profile.machine)}, '
        f"one of {profile.cores} cores, "
        f"cycles {first:.0f} to {last:.0f} of {profile.cycles:.0f}</text>",
    ]
    for number, lane in enumerate(LANES):
        y = TOP + number * LANE_HEIGHT
        lines.append(f'<text x="8" y="{y + 19}">{lane}</text>')
        lines.append(
            f'<rect x="{LEFT}" y="{y}" width="{WIDTH}" height="{LANE_HEIGHT - 6}" fill="#fafafa"/>'
        )
        lines += [_box(span, y, first, last, scale, profile) for span in spans if span.lane == lane]
    base = TOP + len(LANES) * LANE_HEIGHT
    for tick in range(TICKS + 1):
        x, cycle = LEFT + WIDTH * tick / TICKS, first + (last - first) * tick / TICKS
        # A centered long number would extend past the edge.
        anchor = "end" if tick == TICKS else "middle"
        lines.append(
            f'<text x="{x:.1f}" y="{base + 14}" text-anchor="{anchor}" '
            f'fill="#555">{cycle:.0f}</text>'
        )
    x = float(LEFT)
    for what in dict.fromkeys(span.what for span in spans):
        lines.append(
            f'<rect x="{x}" y="{base + 30}" width="12" height="12" fill="{_colour(what)}"/>'
        )
        lines.append(f'<text x="{x + 16}" y="{base + 41}">{escape(what)}</text>')
        x += 34 + 7 * len(what)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _box(
    span: TimelineSpan, y: int, first: float, last: float, scale: float, profile: CycleProfile
) -> str:
    start, end = max(span.start, first), min(span.end, last)
    name = profile.names[span.function] if 0 <= span.function < len(profile.names) else "?"
    title = f"{span.what} in {name}: cycles {span.start:.0f} to {span.end:.0f}"
    return (
        f'<rect x="{LEFT + (start - first) * scale:.2f}" y="{y}" '
        f'width="{max((end - start) * scale, 0.2):.2f}" height="{LANE_HEIGHT - 6}" '
        f'fill="{_colour(span.what)}"><title>{escape(title)}</title></rect>'
    )


def _colour(what: str) -> str:
    return COLOURS.get(what, OTHER)


def chrome_trace(profile: CycleProfile) -> str:
    """Return the spans in Chrome's trace event format (JSON); modelled times in microseconds."""
    scale = 1e6 / profile.clock_hz
    events: list[dict[str, object]] = [
        {
            "ph": "M",
            "pid": 0,
            "name": "process_name",
            "args": {"name": f"modelled: {profile.machine}, {profile.cores} cores"},
        },
        *(
            {"ph": "M", "pid": 0, "tid": number, "name": "thread_name", "args": {"name": lane}}
            for number, lane in enumerate(LANES)
        ),
    ]
    for span in profile.spans:
        events.append(
            {
                "ph": "X",
                "pid": 0,
                "tid": LANES.index(span.lane),
                "name": span.what,
                "ts": span.start * scale,
                "dur": (span.end - span.start) * scale,
                "args": {
                    "kernel": profile.names[span.function] if span.function >= 0 else "",
                    "cycles": span.end - span.start,
                },
            }
        )
    return (
        json.dumps(
            {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"modelled": True}}
        )
        + "\n"
    )
