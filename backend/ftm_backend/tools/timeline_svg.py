"""Draws the modelled timeline of cores as SVG, or writes it as a Chrome or Perfetto trace."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from html import escape

from ftm_backend.perf_model.cycle_model import CycleProfile, TimelineSpan

LANES = ("core", "DMA")
WIDTH, LANE_HEIGHT, LEFT, RIGHT, TOP = 1200, 24, 78, 40, 64
_BAND, _GAP, _LEGEND = 20, 8, 150
_CHARACTER = 7.2
"""Pixels of a wide character, so that names stay inside of their bands."""
_SMALLEST = 0.2
"""Narrower boxes are drawn this wide."""
COLOURS = {
    "MM": "#1f5fa8",
    "MMW": "#4f9bd9",
    "@map": "#3f8f3f",
    "SCAN": "#8cc63f",
    "SORT": "#00695c",
    "MERGE": "#26a69a",
    "TRANS": "#7b4fb0",
    "FOLD": "#c08ae0",
    "scalar": "#9e9e9e",
    "wait": "#f3d9b8",
    "DLD": "#e07b1f",
    "DLB": "#f5b041",
    "DST": "#b03020",
    "DGA": "#d4ac0d",
    "DSC": "#78281f",
    "DCP": "#16a0b0",
    "DCW": "#0b5563",
}
OTHER = "#444444"
_MEANINGS = {
    "MM": "matrix product",
    "MMW": "product of windows",
    "@map": "map",
    "TRANS": "transpose",
    "FOLD": "col2im",
    "scalar": "addresses and issue",
    "wait": "waits for a transfer",
    "DLD": "load",
    "DLB": "padded load",
    "DST": "store",
    "DGA": "gather",
    "DSC": "scatter",
    "DCP": "copy",
    "DCW": "copy of windows",
}
_BANDS = ("#dfe7f2", "#f2e9df")


def round_ticks(first: float, last: float, most: int = 10) -> list[float]:
    """Return at most about ``most`` multiples of 1, 2 or 5 times a power of ten in a range."""
    exact = (last - first) / most
    unit = 10 ** math.floor(math.log10(exact))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= exact * 0.999)
    start = math.ceil(first / step - 1e-9)
    return [step * k for k in range(start, math.floor(last / step + 1e-9) + 1)]


def svg(
    profile: CycleProfile,
    window: tuple[float, float] | None = None,
    cores: Sequence[int] | None = None,
) -> str:
    """Draw the spans of ``profile``, which must have been modelled with ``watch``.

    Args:
        profile: The profile.
        window: First and last cycle; by default all.
        cores: The cores to draw; by default all.
    """
    first, last = window or (0.0, max((span.end for span in profile.spans), default=1.0))
    last = max(last, first + 1.0)
    chosen = range(profile.cores) if cores is None else cores
    spans = [span for span in profile.spans if span.end > first and span.start < last]
    picture = _Picture(profile, first, last)
    picture.title(len(chosen))
    for core in chosen:
        picture.core(core, [span for span in spans if span.core == core])
    picture.axis()
    picture.legend(span.what for span in spans if span.core in chosen)
    return picture.text()


class _Picture:
    def __init__(self, profile: CycleProfile, first: float, last: float) -> None:
        self.profile, self.first, self.last = profile, first, last
        self.scale = WIDTH / (last - first)
        self.titles = {kernel.name: kernel.title for kernel in profile.kernels}
        self.lines: list[str] = []
        self.y = float(TOP)

    def x(self, cycle: float) -> float:
        return LEFT + (min(max(cycle, self.first), self.last) - self.first) * self.scale

    def title(self, shown: int) -> None:
        profile = self.profile
        self._text(
            LEFT,
            22,
            f"modelled on {profile.machine}, {shown} of {profile.cores} cores, "
            f"{profile.clock_hz / 1e9:g} GHz: cycles {self.first:,.0f} to {self.last:,.0f} of "
            f"{profile.cycles:,.0f} ({profile.seconds * 1e3:.3f} ms)",
            size=14,
        )

    def core(self, core: int, spans: Sequence[TimelineSpan]) -> None:
        """Draw the kernels of a core as bands with names, and its lanes below."""
        self._text(8, self.y + 14, f"core {core}")
        for number, (function, begin, end) in enumerate(_bands(spans)):
            name = self._name(function)
            x, width = self.x(begin), self.x(end) - self.x(begin)
            self._rect(x, self.y, width, _BAND, _BANDS[number % 2], name)
            room = int(width / _CHARACTER) - 1
            if room > 4:
                self._text(x + 3, self.y + 14, name if len(name) <= room else name[:room] + "…")
        self.y += _BAND + 1
        for lane in LANES:
            if lane == "DMA":
                self._text(LEFT - 34, self.y + 15, lane)
            self._rect(LEFT, self.y, WIDTH, LANE_HEIGHT - 3, "#f7f7f7")
            for span in spans:
                if span.lane == lane:
                    x = self.x(span.start)
                    title = (
                        f"{span.what} in {self._name(span.function)}: "
                        f"cycles {span.start:.0f} to {span.end:.0f}"
                    )
                    width = max(self.x(span.end) - x, _SMALLEST)
                    self._rect(x, self.y, width, LANE_HEIGHT - 3, _colour(span.what), title)
            self.y += LANE_HEIGHT
        self.y += _GAP

    def axis(self) -> None:
        """Draw round numbers of cycles, and the time below them."""
        microseconds = 1e6 / self.profile.clock_hz
        for tick in round_ticks(self.first, self.last):
            x = self.x(tick)
            # A centered long number at the edge would extend past it.
            at_edge = x > LEFT + WIDTH - 20
            self.lines.append(f'<path d="M{x:.1f} {TOP - 6}V{self.y:.0f}" stroke="#00000022"/>')
            anchor = "end" if at_edge else "middle"
            self._text(x, self.y + 14, f"{tick:.0f}", anchor)
            self._text(x, self.y + 30, f"{tick * microseconds:.4g} µs", anchor, "#777")
        self._text(8, self.y + 14, "cycles", fill="#777")
        self.y += 48

    def legend(self, kinds: Iterable[str]) -> None:
        x = float(LEFT)
        used = set(kinds)
        for what in [*(kind for kind in COLOURS if kind in used), *sorted(used - COLOURS.keys())]:
            label = f"{what}: {_MEANINGS[what]}" if what in _MEANINGS else what
            if x + _LEGEND > LEFT + WIDTH:
                x, self.y = float(LEFT), self.y + 20
            self._rect(x, self.y, 12, 12, _colour(what))
            self._text(x + 17, self.y + 11, label)
            x += max(_LEGEND, 30 + 6.6 * len(label))
        self.y += 28

    def text(self) -> str:
        width = LEFT + WIDTH + RIGHT
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{self.y:.0f}" '
            'font-family="sans-serif" font-size="12">\n'
            '<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(self.lines)
        ) + "\n</svg>\n"

    def _name(self, function: int) -> str:
        names = self.profile.names
        name = names[function] if 0 <= function < len(names) else "?"
        return self.titles.get(name, name)

    def _rect(
        self, x: float, y: float, width: float, height: float, fill: str, title: str = ""
    ) -> None:
        inside = f"<title>{escape(title)}</title>" if title else ""
        self.lines.append(
            f'<rect x="{x:.2f}" y="{y:.0f}" width="{width:.2f}" height="{height}" '
            f'fill="{fill}">{inside}</rect>'
        )

    def _text(
        self,
        x: float,
        y: float,
        text: str,
        anchor: str = "start",
        fill: str = "#333",
        size: int = 12,
    ) -> None:
        self.lines.append(
            f'<text x="{x:.1f}" y="{y:.0f}" text-anchor="{anchor}" font-size="{size}" '
            f'fill="{fill}">{escape(text)}</text>'
        )


def _bands(spans: Sequence[TimelineSpan]) -> list[tuple[int, float, float]]:
    """Return function, first and last cycle of each run of spans of one function."""
    bands: list[tuple[int, float, float]] = []
    for span in sorted(spans, key=lambda each: each.start):
        if bands and bands[-1][0] == span.function:
            function, begin, end = bands[-1]
            bands[-1] = function, begin, max(end, span.end)
        else:
            bands.append((span.function, span.start, span.end))
    return bands


def _colour(what: str) -> str:
    return COLOURS.get(what, OTHER)


def html(profile: CycleProfile, window: tuple[float, float] | None = None) -> str:
    """Return the table and the picture as one HTML file."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(profile.machine)}</title></head>"
        '<body style="background:#fff;color:#222;font-family:sans-serif">'
        f"<pre>{escape(profile.table())}</pre>\n{svg(profile, window)}</body></html>\n"
    )


def chrome_trace(profile: CycleProfile) -> str:
    """Return the spans in Chrome's trace event format (JSON); modelled times in microseconds."""
    scale = 1e6 / profile.clock_hz
    titles = {kernel.name: kernel.title for kernel in profile.kernels}
    events: list[dict[str, object]] = [
        {
            "ph": "M",
            "pid": 0,
            "name": "process_name",
            "args": {"name": f"modelled: {profile.machine}, {profile.cores} cores"},
        },
        *(
            {
                "ph": "M",
                "pid": 0,
                "tid": core * len(LANES) + number,
                "name": "thread_name",
                "args": {"name": f"core {core}" + (" DMA" if lane == "DMA" else "")},
            }
            for core in range(profile.cores)
            for number, lane in enumerate(LANES)
        ),
    ]
    for span in profile.spans:
        name = profile.names[span.function] if span.function >= 0 else ""
        events.append(
            {
                "ph": "X",
                "pid": 0,
                "tid": span.core * len(LANES) + LANES.index(span.lane),
                "name": span.what,
                "ts": span.start * scale,
                "dur": (span.end - span.start) * scale,
                "args": {"kernel": titles.get(name, name), "cycles": span.end - span.start},
            }
        )
    return (
        json.dumps(
            {"traceEvents": events, "displayTimeUnit": "ns", "otherData": {"modelled": True}}
        )
        + "\n"
    )
