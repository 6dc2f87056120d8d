"""Draws the charts of the report as SVG."""

from __future__ import annotations

import math
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from ftm_lazy.profiler.events import Events

if TYPE_CHECKING:
    from ftm_lazy.profiler.limits import Limits
    from ftm_lazy.profiler.steps import Step
    from ftm_lazy.profiler.views import KernelTotal


WIDTH, LEFT = 1200, 110
_ROW = 26
_SMALLEST = 0.4
"""Boxes of fewer pixels are not drawn."""
_HOST_COLOURS = {
    "launch": "#7a5195",
    "wait": "#ef5675",
    "compile": "#ffa600",
    "copy_to_device": "#2f9e9e",
    "copy_to_host": "#1f6f6f",
    "fallback": "#c00000",
    "collective": "#003f5c",
    "step": "#222222",
}


def round_ticks(first: float, last: float, most: int = 10) -> list[float]:
    """Return at most about ``most`` multiples of 1, 2 or 5 times a power of ten in a range."""
    if last <= first:
        return [first]
    exact = (last - first) / most
    unit = 10 ** math.floor(math.log10(exact))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= exact * 0.999)
    start = math.ceil(first / step - 1e-9)
    return [step * k for k in range(start, math.floor(last / step + 1e-9) + 1)]


def _svg(width: float, height: float, body: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" font-family="system-ui, sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="#fff"/>' + "".join(body) + "</svg>"
    )


def _text(x: float, y: float, text: str, anchor: str = "start", fill: str = "#444") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{escape(text)}</text>'
    )


def _box(
    x: float, y: float, width: float, height: float, fill: str, title: str, label: bool = False
) -> str:
    shown = title.splitlines()[0]
    room = int(width / 6.5)
    text = ""
    if label and room > 4:
        text = shown if len(shown) <= room else shown[: room - 1] + "…"
        text = _text(x + 4, y + height / 2 + 4, text, fill="#fff")
    return (
        f'<g><rect x="{x:.2f}" y="{y:.1f}" width="{max(width, _SMALLEST):.2f}" '
        f'height="{height:.1f}" fill="{fill}"><title>{escape(title)}</title></rect>{text}</g>'
    )


def _colour(name: str) -> str:
    """Return the colour of a name, the same in every chart."""
    return f"hsl({zlib.crc32(name.encode()) % 360}, 48%, 42%)"


def roofline(totals: Sequence[KernelTotal], limits: Limits) -> str:
    """Draw kernels by their operations per byte and their rate, under the machine's limits."""
    points = []
    for total in totals:
        flops, moved = total.flops_per_second, total.bytes_per_second
        if flops and moved:
            points.append((flops / moved, flops, total))
    if not points or not limits.flops or not limits.bytes:
        return "<p>No kernel computes and moves memory.</p>"
    height, base = 420, 370
    ridge = limits.flops / limits.bytes
    low = math.floor(math.log10(min(ridge, *(x for x, *_ in points)) / 2))
    high = math.ceil(math.log10(max(ridge, *(x for x, *_ in points)) * 2))
    bottom = math.floor(math.log10(min(y for _, y, _ in points) / 2))
    top = math.ceil(math.log10(max(limits.flops, *(y for _, y, _ in points)) * 1.2))

    def x_of(value: float) -> float:
        return LEFT + (math.log10(value) - low) / (high - low) * (WIDTH - LEFT - 20)

    def y_of(value: float) -> float:
        return base - (math.log10(value) - bottom) / (top - bottom) * (base - 20)

    lines = []
    for power in range(low, high + 1):
        x = x_of(10**power)
        lines.append(f'<path d="M{x:.1f} 20V{base}" stroke="#eee"/>')
        lines.append(_text(x, base + 18, f"{10.0**power:g}", "middle"))
    for power in range(bottom, top + 1):
        y = y_of(10**power)
        lines.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - 20}" stroke="#eee"/>')
        lines.append(_text(LEFT - 8, y + 4, f"{10.0 ** (power - 9):g}", "end"))
    lines.append(_text((LEFT + WIDTH) / 2, base + 38, "operations per byte", "middle"))
    lines.append(_text(10, 14, "GFLOP/s"))
    start = 10.0**low
    lines.append(
        f'<path d="M{x_of(start):.1f} {y_of(max(start * limits.bytes, 10.0**bottom)):.1f}'
        f'L{x_of(ridge):.1f} {y_of(limits.flops):.1f}H{WIDTH - 20}" '
        'fill="none" stroke="#333" stroke-width="2"/>'
    )
    whole = sum(total.time for *_, total in points)
    for x, y, total in points:
        radius = 3 + 24 * math.sqrt(total.time / whole)
        title = f"{total.name}\n{y / 1e9:.1f} GFLOP/s, {x:.2f} operations per byte\n{total.line}"
        lines.append(
            f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="{radius:.1f}" '
            f'fill="{_colour(total.name)}" fill-opacity=".65"><title>{escape(title)}</title>'
            "</circle>"
        )
    return _svg(WIDTH, height, lines)


def module_flame(times: Mapping[str, int]) -> str:
    """Draw the device's time by module, children under their parents."""
    tree: dict[tuple[str, ...], int] = defaultdict(int)
    for path, time in times.items():
        parts = tuple(path.split(".")) if path else ("outside of modules",)
        for depth in range(len(parts) + 1):
            tree[parts[:depth]] += time
    whole = tree[()]
    if not whole:
        return "<p>No kernel ran.</p>"
    deepest = max(map(len, tree))
    lines = []

    def draw(path: tuple[str, ...], x: float, scale: float) -> None:
        time = tree[path]
        name = ".".join(path) or "all"
        title = f"{path[-1] if path else 'all'} {time / 1e6:.2f} ms\n{name}, {time / whole:.1%}"
        y = len(path) * _ROW
        lines.append(
            _box(x, y, time * scale - 0.6, _ROW - 2, _colour(name) if path else "#555", title, True)
        )
        children = [key for key in tree if len(key) == len(path) + 1 and key[: len(path)] == path]
        for child in sorted(children, key=lambda key: -tree[key]):
            if tree[child] * scale >= _SMALLEST:
                draw(child, x, scale)
            x += tree[child] * scale

    draw((), 0.0, WIDTH / whole)
    return _svg(WIDTH, (deepest + 1) * _ROW, lines)


def timeline(events: Events, step: Step) -> str:
    """Draw what the host, the device and each core did in a step."""
    scale = (WIDTH - LEFT - 10) / max(step.wall, 1)
    threads = sorted({event.thread for event in events.host}, key=lambda t: t != events.thread)
    rows = [
        *("host" if thread == events.thread else f"thread {thread}" for thread in threads),
        "programs",
        "kernels",
        *(f"core {core}" for core in range(events.core_count)),
    ]
    height = len(rows) * _ROW + 66
    lines = []
    for number, name in enumerate(rows):
        y = number * _ROW + 4
        lines.append(_text(4, y + 16, name))
        lines.append(
            f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - 10}" height="{_ROW - 4}" '
            'fill="#f4f4f4"/>'
        )
    for row, begin, end, colour, title in _spans(events, threads):
        first, last = max(begin, step.begin), min(end, step.end)
        if last >= first and (last - first) * scale >= _SMALLEST:
            x = LEFT + (first - step.begin) * scale
            width = (last - first) * scale
            lines.append(_box(x, row * _ROW + 4, width, _ROW - 4, colour, title, label=True))
    base = len(rows) * _ROW + 8
    for tick in round_ticks(0, step.wall / 1e6):
        x = LEFT + tick * 1e6 * scale
        lines.append(f'<path d="M{x:.1f} 0V{base}" stroke="#0002"/>')
        lines.append(_text(x, base + 14, f"{tick:g} ms", "middle"))
    x = float(LEFT)
    for kind, colour in _HOST_COLOURS.items():
        if any(event.kind == kind for event in events.host):
            lines.append(_box(x, base + 28, 12, 12, colour, kind))
            lines.append(_text(x + 16, base + 38, kind.replace("_", " ")))
            x += 40 + 7 * len(kind)
    return _svg(WIDTH, height, lines)


def _spans(events: Events, threads: Sequence[int]) -> Iterator[tuple[int, int, int, str, str]]:
    """Yield row, begin, end, colour and title of each box of the timeline."""
    for event in events.host:
        title = f"{event.name} {event.time / 1e6:.3f} ms\n{event.line}"
        row = threads.index(event.thread)
        yield row, event.begin, event.end, _HOST_COLOURS.get(event.kind, "#777"), title
    programs = len(threads)
    for run in events.runs:
        title = f"program {run.number}, {run.calls} operations\nlaunched at {run.line}"
        yield programs, run.begin, run.end, "#667", title
    for kernel in events.kernels:
        title = f"{kernel.name}\n{kernel.time / 1e6:.3f} ms\n{kernel.line}"
        yield programs + 1, kernel.begin, kernel.end, _colour(kernel.name), title
    for span in events.cores:
        name = "barrier" if span.kernel < 0 else events.kernels[span.kernel].name
        colour = "#ddd" if span.kernel < 0 else _colour(name)
        title = f"{name}\n{(span.end - span.begin) / 1e6:.3f} ms"
        yield programs + 2 + span.core, span.begin, span.end, colour, title


def memory_chart(events: Events, line: Sequence[tuple[int, int]]) -> str:
    """Draw the bytes in use over time."""
    height, base = 220, 180
    most = max((size for _, size in line), default=0) or 1
    scale = (WIDTH - LEFT - 10) / max(events.end - events.begin, 1)
    lines = []
    for tick in round_ticks(0, most / 2**20, 5):
        y = base - tick * 2**20 / most * (base - 20)
        lines.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - 10}" stroke="#eee"/>')
        lines.append(_text(LEFT - 8, y + 4, f"{tick:g} MiB", "end"))
    path: list[str] = []
    at = -1.0
    for time, size in line:
        x = LEFT + (time - events.begin) * scale
        y = base - size / most * (base - 20)
        if x - at >= _SMALLEST or size == most:
            path.append(f"{'H' if path else 'M'}{x:.1f}{'V' if path else ' '}{y:.1f}")
            at = x
    lines.append(
        f'<path d="{"".join(path)}H{WIDTH - 10}" fill="none" stroke="#3b6ea8" stroke-width="1.5"/>'
    )
    for tick in round_ticks(0, (events.end - events.begin) / 1e6):
        lines.append(_text(LEFT + tick * 1e6 * scale, base + 18, f"{tick:g} ms", "middle"))
    return _svg(WIDTH, height, lines)
