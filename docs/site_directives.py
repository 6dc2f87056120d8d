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
from itertools import pairwise
from pathlib import Path
from typing import Any

import site_charts
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

ARROW = re.compile(r"\s*(-->|-\.-)\s*(?:\|([^|]*)\|)?\s*")
NODE = re.compile(r'^(\w[\w.]*)(?:\["(.*)"\])?$')
CHARACTER, SMALL_CHARACTER = 7.4, 5.6
LINE, GAP, SPACE, WIDEST = 34, 46, 16, 900
DTYPES_SHOWN = "f32 f64 f16 bf16 i64 i32 i16 i8 u8 i1 c32 c64 c128 u16 u32 u64".split()


class Graph:
    """A directed graph, read from a flowchart.

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

    def width(self, node: str) -> float:
        """Return the width of a node's box, and of the space for a bend."""
        return max(60.0, CHARACTER * len(self.labels[node]) + 20) if node in self.labels else 12.0

    def _forward_edges(self) -> list[tuple[str, str]]:
        """Return the edges that determine layers: those that are not dashed and close no cycle."""
        before: dict[str, set[str]] = {node: set() for node in self.labels}  # all predecessors
        forward = []
        for source, target, _, is_dashed in self.edges:
            if not is_dashed and target not in {source, *before[source]}:
                forward.append((source, target))
                for node, nodes_before in before.items():
                    if node == target or target in nodes_before:
                        nodes_before |= {source, *before[source]}
        return forward

    def _layer_numbers(self) -> dict[str, int]:
        """Return the length of the longest path to each node; a wide layer becomes several."""
        depth, forward = dict.fromkeys(self.labels, 0), self._forward_edges()
        for _ in self.labels:
            for source, target in forward:
                depth[target] = max(depth[target], depth[source] + 1)
        number: dict[str, int] = {}
        row, last, used = -1, -1, 0.0
        for node in sorted(self.labels, key=depth.__getitem__):
            is_full = self.downwards and used + self.width(node) > WIDEST
            if depth[node] != last or is_full:
                row, last, used = row + 1, depth[node], 0.0
            number[node] = row
            used += self.width(node) + SPACE
        return number

    def layout(self) -> tuple[list[list[str]], list[list[str]]]:
        """Order the nodes in layers, and lead the edges around boxes.

        Returns:
            The nodes of each layer, and of each edge's route from its upper to its lower end. A
            route has a *bend* in each layer between: a node without a box.
        """
        number = self._layer_numbers()
        routes, before = [], defaultdict(list)
        for source, target, _, _ in self.edges:
            upper, lower = sorted((source, target), key=number.__getitem__)
            bends = {f"{source} {target} {k}": k for k in range(number[upper] + 1, number[lower])}
            number |= bends
            routes.append([upper, *bends, lower])
            for first, second in pairwise(routes[-1]):
                before[second].append(first)
        layers: list[list[str]] = [[] for _ in range(1 + max(number.values()))]
        for node, row in number.items():
            layers[row].append(node)
        self._sort(layers, before)
        return layers, routes

    def _sort(self, layers: list[list[str]], before: dict[str, list[str]]) -> None:
        """Order each layer so that a node is near the mean of its predecessors."""
        position: dict[str, float] = {}
        for layer in layers:
            for index, node in enumerate(layer):
                known = [position[s] for s in before[node] if s in position]
                position[node] = sum(known) / len(known) if known else index - len(layer) / 2
            layer.sort(key=lambda node: position[node])
            middle = sum(self.width(node) + SPACE for node in layer) / 2
            for node in layer:
                position[node] = -middle + (self.width(node) + SPACE) / 2
                middle -= self.width(node) + SPACE


Box = tuple[float, float, float]
"""Left, top and width of a node; the height is `LINE`."""


def _places(graph: Graph, layers: list[list[str]]) -> dict[str, Box]:
    places: dict[str, Box] = {}
    if graph.downwards:
        lengths = [sum(graph.width(node) + SPACE for node in layer) for layer in layers]
        for index, layer in enumerate(layers):
            x = (max(lengths) - lengths[index]) / 2
            for node in layer:
                places[node] = (x, index * (LINE + GAP), graph.width(node))
                x += graph.width(node) + SPACE
    else:
        x, most = 0.0, max(map(len, layers))
        for layer in layers:
            widest = max(graph.width(node) for node in layer)
            for index, node in enumerate(layer):
                y = (index + (most - len(layer)) / 2) * (LINE + GAP)
                places[node] = (x, y, graph.width(node) if node in graph.labels else widest)
            x += widest + 2 * GAP
    return places


def draw(graph: Graph) -> str:
    """Return the graph as SVG whose colours are those of the page's theme."""
    layers, routes = graph.layout()
    places = _places(graph, layers)
    left, right = 0.0, max(x + width for x, _, width in places.values())
    height = max(y for _, y, _ in places.values()) + LINE
    lines, labels, boxes = [], [], []
    for route, (source, _, label, is_dashed) in zip(routes, graph.edges, strict=True):
        path, ends = _path(graph.downwards, [places[node] for node in route])
        end, (x, y) = ("end", ends[0]) if route[0] == source else ("start", ends[1])
        style = 'class="dashed"' if is_dashed else f'marker-{end}="url(#arrow)"'
        lines.append(f'<path d="{path}" {style}/>')
        if label:
            left = min(left, x - SMALL_CHARACTER * len(label) / 2)
            right = max(right, x + SMALL_CHARACTER * len(label) / 2)
            labels.append(
                f'<text class="small edge" x="{x:.0f}" y="{y:.0f}">{html.escape(label)}</text>'
            )
    for node, text in graph.labels.items():
        x, y, width = places[node]
        boxes.append(
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{LINE}" rx="6"/>'
            f'<text x="{x + width / 2:.0f}" y="{y + 22:.0f}">{html.escape(text)}</text>'
        )
    total = right - left
    style = f"max-width:{total:.0f}px;min-width:min({total:.0f}px,38rem)"
    return (
        f'<div class="drawing"><svg viewBox="{left - 4:.0f} -4 {total + 8:.0f} {height + 8:.0f}" '
        f'style="{style}" role="img"><defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" '
        'markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"/>'
        f"</marker></defs>{''.join(lines + boxes + labels)}</svg></div>"
    )


def _path(downwards: bool, route: list[Box]) -> tuple[str, list[tuple[float, float]]]:
    """Return the path of an edge, and where its label may be, near its upper or its lower end.

    Both are away from the end, where the labels of edges from one node are apart.
    """
    path, near_upper, near_lower = "", [], []
    for first, second in pairwise(route):
        if downwards:
            x1, y1 = first[0] + first[2] / 2, first[1] + LINE
            x2, y2 = second[0] + second[2] / 2, second[1]
            bend = max(20.0, (y2 - y1) / 2)
            control = f"{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f}"
        else:
            x1, y1 = first[0] + first[2], first[1] + LINE / 2
            x2, y2 = second[0], second[1] + LINE / 2
            bend = max(20.0, (x2 - x1) / 2)
            control = f"{x1 + bend:.0f} {y1:.0f} {x2 - bend:.0f} {y2:.0f}"
        path += f"{'L' if path else 'M'}{x1:.0f} {y1:.0f}C{control} {x2:.0f} {y2:.0f}"
        near_upper.append((x1 + 0.72 * (x2 - x1), y1 + 0.62 * (y2 - y1) + 4))
        near_lower.append((x1 + 0.28 * (x2 - x1), y1 + 0.38 * (y2 - y1) + 4))
    return path, [near_upper[0], near_lower[-1]]


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
