"""Bar charts of stored benchmarks, as SVG in the colours of the page's theme.

A row has its name above its bars, so a chart is readable on a narrow screen, too.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["bar_chart", "modelled_steps", "step_speeds"]

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
LONGEST, CHARACTER = 330, 6
KINDS = (("bar", 13), ("plain", 6))
"""Class and height of a row's first and second bar."""

Bar = tuple[float, str]
"""A length, and the text behind the bar."""


def bar_chart(
    label: str, rows: Sequence[tuple[str, Sequence[Bar]]], legend: str = "", line: str = ""
) -> str:
    """Return a chart.

    Args:
        label: The chart in one sentence, for readers who do not see it.
        rows: Names with one or two bars each.
        legend: Names of both bars, separated by "|".
        line: Name of a line at length 1.
    """
    scale = LONGEST / max(length for _, bars in rows for length, _ in bars)
    width = LONGEST + 6 + CHARACTER * max(len(text) for _, bars in rows for _, text in bars)
    parts, texts, lines, y = [], [], "", 0
    for name, bars in rows:
        parts.append(f'<text class="left small" x="0" y="{y + 12}">{html.escape(name)}</text>')
        y += 17
        if line:
            height = sum(KINDS[k][1] + 2 for k in range(len(bars)))
            lines += f"M{scale:.0f} {y - 3}v{height + 4}"
        for (kind, height), (length, text) in zip(KINDS, bars, strict=False):
            end = length * scale
            parts.append(
                f'<rect class="{kind}" x="0" y="{y}" width="{end:.0f}" height="{height}"/>'
            )
            start = end + 6
            if line and start < scale < start + CHARACTER * len(text):
                start = scale + 6  # not across the line
            texts.append(
                f'<text class="left small edge" x="{start:.0f}" y="{y + 11}">{text}</text>'
            )
            y += height + 2
        y += 7
    if line:
        parts.append(f'<path class="line" d="{lines}"/>')
        parts.append(f'<text class="small" x="{scale:.0f}" y="{y + 12}">{line}</text>')
        y += 18
    for index, name in enumerate(filter(None, legend.split("|"))):
        (kind, height), x = KINDS[index], 90 * index
        top = y + 13 - height
        parts.append(
            f'<rect class="{kind}" x="{x}" y="{top}" width="14" height="{height}"/>'
            f'<text class="left small" x="{x + 20}" y="{y + 12}">{name}</text>'
        )
    y += 18 if legend else 0
    box = f'viewBox="0 0 {width} {y}" style="max-width:{1.25 * width:.0f}px"'
    picture = f'<svg {box} role="img" aria-label="{label}">{"".join(parts + texts)}</svg>'
    return f'<div class="drawing">{picture}</div>'


def step_speeds() -> str:
    """Return the chart of the measured steps: the speeds of ftm and Inductor, eager's is 1."""
    rows = []
    for row in _stored("step_time"):
        speed = row["eager"] / row["ftm"]
        other = row["eager"] / row["inductor"] if row["inductor"] else 0.0
        rows.append((row["name"], ((speed, f"{speed:.2f}"), (other, ""))))
    label = "Speed of training steps relative to eager PyTorch"
    return bar_chart(label, rows, "ftm|torch.compile (Inductor)", "eager: 1")


def modelled_steps() -> str:
    """Return the chart of the modelled steps: their shares of the roofline."""
    rows = []
    for row in _stored("target_steps"):
        share = row["of_roofline"]
        rows.append((row["name"], ((share, f"{share:.0f} %, {row['milliseconds']:.2f} ms"),)))
    return bar_chart("Share of the machine's limit, modelled", rows)


def _stored(name: str) -> list[dict[str, Any]]:
    """Return the rows that a benchmark has stored."""
    content = json.loads((BENCHMARKS / f"{name}.json").read_text())
    rows: list[dict[str, Any]] = content["rows"]
    return rows
