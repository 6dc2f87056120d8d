"""Directives of the site: pictures of graphs, the help of commands, links into the sources.

``mermaid`` draws the flowcharts of the documents as SVG, in the colours of the page's theme. It
knows the part of Mermaid's syntax that the documents use: nodes with labels, edges with labels, and
subgraphs, whose frames it leaves out. ``command-help`` prints what ``ftm COMMAND --help`` prints.
``ops-by-dtype``, ``speed-chart`` and ``step-chart`` show the op records, the measured steps and the
modelled ones.
"""

from __future__ import annotations

import html
import importlib
import os
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import site_charts
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

ARROW = re.compile(r"\s*(-->|-\.-)\s*(?:\|([^|]*)\|)?\s*")
NODE = re.compile(r'^(\w[\w.]*)(?:\["(.*)"\])?$')
CHARACTER, LINE, GAP = 7.4, 34, 46
DTYPES_SHOWN = "f32 f64 f16 bf16 i64 i32 i16 i8 u8 i1 c32 c64 c128 u16 u32 u64".split()


class Graph:
    """A directed graph without cycles, read from a flowchart.

    Attributes:
        labels: Node to the text in its box.
        edges: (from, to, label, whether it is dashed).
        downwards: Whether layers follow one another from the top, not from the left.
    """

    def __init__(self, text: str) -> None:
        self.labels: dict[str, str] = {}
        self.edges: list[tuple[str, str, str, bool]] = []
        self.downwards = not text.lstrip().startswith("flowchart LR")
        for line in map(str.strip, text.splitlines()[1:]):
            words = ARROW.split(line)  # node, arrow, label, node, arrow, ...
            for index in range(0, len(words) - 3, 3):
                first, arrow, label, second = words[index : index + 4]
                for source in self._nodes(first):
                    for target in self._nodes(second):
                        is_dashed = arrow == "-.-"
                        self.edges.append((source, target, (label or "").strip('"'), is_dashed))

    def _nodes(self, text: str) -> list[str]:
        names = []
        for word in text.split(" & "):
            found = NODE.match(word.strip())
            if found is None:
                raise ValueError(f"no node of a flowchart: {word!r}")
            if found[2] or found[1] not in self.labels:
                self.labels[found[1]] = (found[2] or found[1]).replace("#quot;", '"')
            names.append(found[1])
        return names

    def layers(self) -> list[list[str]]:
        """Return the nodes by their longest path from a node without predecessors."""
        before = defaultdict(set)
        for source, target, _, is_dashed in self.edges:
            if not is_dashed:
                before[target].add(source)
        depth: dict[str, int] = {}

        def depth_of(node: str, above: tuple[str, ...] = ()) -> int:
            if node not in depth:
                sources = before[node] - {node, *above}
                depth[node] = 1 + max((depth_of(s, (*above, node)) for s in sources), default=-1)
            return depth[node]

        layers: list[list[str]] = []
        for node in self.labels:
            while len(layers) <= depth_of(node):
                layers.append([])
            layers[depth_of(node)].append(node)
        position: dict[str, float] = {}
        for layer in layers:  # each node near the mean of its predecessors
            for index, node in enumerate(layer):
                known = [position[s] for s in before[node] if s in position]
                position[node] = sum(known) / len(known) if known else index
            layer.sort(key=lambda node: position[node])
            for index, node in enumerate(layer):
                position[node] = index - len(layer) / 2
        return layers


def draw(graph: Graph) -> str:
    """Return the graph as SVG whose colours are those of the page's theme."""
    width = {node: max(60.0, CHARACTER * len(text) + 20) for node, text in graph.labels.items()}
    places: dict[str, tuple[float, float]] = {}
    layers = graph.layers()
    if graph.downwards:
        rows = [row for layer in layers for row in _wrapped(layer, width)]
        total = max(sum(width[n] + 16 for n in row) for row in rows)
        for index, row in enumerate(rows):
            x = (total - sum(width[n] + 16 for n in row)) / 2
            for node in row:
                places[node] = (x, index * (LINE + GAP))
                x += width[node] + 16
        height = len(rows) * (LINE + GAP) - GAP
    else:
        x, most = 0.0, max(map(len, layers))
        for layer in layers:
            for index, node in enumerate(layer):
                y = (index + (most - len(layer)) / 2) * (LINE + GAP)
                places[node] = (x, y)
            x += max(width[node] for node in layer) + 2 * GAP
        total, height = x - 2 * GAP, most * (LINE + GAP) - GAP
    parts = [_edge(graph, width, places, *edge) for edge in graph.edges]
    for node, (x, y) in places.items():
        parts.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{width[node]:.0f}" height="{LINE}" rx="6"/>'
        )
        middle = x + width[node] / 2
        parts.append(
            f'<text x="{middle:.0f}" y="{y + 22:.0f}">{html.escape(graph.labels[node])}</text>'
        )
    style = f"max-width:{total:.0f}px;min-width:min({total:.0f}px,38rem)"
    return (
        f'<div class="drawing"><svg viewBox="-4 -4 {total + 8:.0f} {height + 8:.0f}" '
        f'style="{style}" role="img"><defs><marker id="arrow" viewBox="0 0 8 8" '
        'refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z"/>'
        f"</marker></defs>{''.join(parts)}</svg></div>"
    )


def _wrapped(layer: list[str], width: dict[str, float], limit: float = 900) -> list[list[str]]:
    """Split a layer that is wider than a page into rows."""
    rows: list[list[str]] = [[]]
    used = 0.0
    for node in layer:
        if rows[-1] and used + width[node] > limit:
            rows.append([])
            used = 0.0
        rows[-1].append(node)
        used += width[node] + 16
    return rows


def _edge(
    graph: Graph,
    width: dict[str, float],
    places: dict[str, tuple[float, float]],
    source: str,
    target: str,
    label: str,
    is_dashed: bool,
) -> str:
    (x1, y1), (x2, y2) = places[source], places[target]
    if graph.downwards:
        x1, x2 = x1 + width[source] / 2, x2 + width[target] / 2
        y1 += LINE
        bend, end = max(20.0, (y2 - y1) / 2), f"{x2:.0f} {y2:.0f}"
        path = f"M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {end}"
    else:
        x1 += width[source]
        y1, y2 = y1 + LINE / 2, y2 + LINE / 2
        bend, end = max(20.0, (x2 - x1) / 2), f"{x2:.0f} {y2:.0f}"
        path = f"M{x1:.0f} {y1:.0f}C{x1 + bend:.0f} {y1:.0f} {x2 - bend:.0f} {y2:.0f} {end}"
    style = ' class="dashed"' if is_dashed else ' marker-end="url(#arrow)"'
    title = f"<title>{html.escape(label)}</title>" if label else ""
    return f'<path d="{path}"{style}>{title}</path>'


class Mermaid(Directive):
    """Draws a flowchart."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the drawing."""
        return [nodes.raw("", draw(Graph("\n".join(self.content))), format="html")]


class CommandHelp(Directive):
    """Prints the help of each command, under its name."""

    def run(self) -> list[nodes.Node]:
        """Return a section for each command."""
        os.environ["COLUMNS"] = "88"
        from ftm_backend.tools.ftm import COMMANDS

        sections: list[nodes.Node] = []
        for name, (module, _) in COMMANDS.items():
            section = nodes.section(ids=[f"ftm-{name}"])
            section += nodes.title(text=f"ftm {name}")
            text = importlib.import_module(module).parser().format_help()
            section += nodes.literal_block(text, text, language="text")
            sections.append(section)
        return sections


class OpsByDtype(Directive):
    """Tabulates which dtypes of each op are compiled."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        from ftm_backend.frontend.ops import native_ops

        ops = native_ops()
        dtypes = [dtype for dtype in DTYPES_SHOWN if any(dtype in given for given in ops.values())]
        head = "".join(f"<th>{dtype}</th>" for dtype in dtypes)
        rows = "".join(
            f"<tr><td><code>{html.escape(name)}</code></td>"
            + "".join(f"<td>{'✓' if dtype in given else ''}</td>" for dtype in dtypes)
            + "</tr>"
            for name, given in sorted(ops.items())
        )
        table = f'<table class="docutils"><tr><th>op</th>{head}</tr>{rows}</table>'
        return [nodes.raw("", f'<div class="table-wrapper">{table}</div>', format="html")]


class SpeedChart(Directive):
    """Draws the speed of each measured step."""

    def run(self) -> list[nodes.Node]:
        """Return the chart."""
        return [nodes.raw("", site_charts.step_speeds(), format="html")]


class StepChart(Directive):
    """Draws each modelled step's share of the roofline."""

    def run(self) -> list[nodes.Node]:
        """Return the chart."""
        return [nodes.raw("", site_charts.modelled_steps(), format="html")]


def link_sources(app: Sphinx, doctree: nodes.document) -> None:
    """Show links to files of the sources, which are no pages of the site, as their paths."""
    root = Path(app.srcdir).parent
    for node in list(doctree.findall()):
        target: Any = node.get("refuri") or node.get("reftarget") if hasattr(node, "get") else None
        if not target or "://" in target or target.startswith("#"):
            continue
        name = target.partition("#")[0]
        folder = Path(app.env.doc2path(app.env.docname)).parent
        # a page that includes README's neighbours has their links
        found = [(place / name).resolve() for place in (folder, root)]
        path = next((path for path in found if path.exists()), None)
        if path and path.is_relative_to(root) and not path.is_relative_to(app.srcdir):
            node.replace_self(nodes.literal(text=str(path.relative_to(root))))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("mermaid", Mermaid)
    app.add_directive("command-help", CommandHelp)
    app.add_directive("ops-by-dtype", OpsByDtype)
    app.add_directive("speed-chart", SpeedChart)
    app.add_directive("step-chart", StepChart)
    app.connect("doctree-read", link_sources, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
