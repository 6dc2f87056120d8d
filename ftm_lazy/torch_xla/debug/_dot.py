"""Conversion of a trace to a Graphviz graph."""

from __future__ import annotations

from ftm_backend.ir.trace.trace import Ref, Trace, argument_refs

__all__ = ["graph"]


def graph(text: str) -> str:
    """Convert a trace to DOT: boxes are operations, ellipses parameters, double boxes results."""
    trace = Trace.parse(text)
    lines = ["digraph trace {"]
    owner: list[str] = []
    for number, type_ in enumerate(trace.params):
        owner.append(f"p{number}")
        lines.append(f'  p{number} [shape=ellipse, label="%{number}: {type_}"];')
    results = set(trace.results)
    for position, node in enumerate(trace.nodes):
        name = f"n{position}"
        numbers = range(len(owner), len(owner) + len(node.results))
        types = ", ".join(str(type_) for type_ in node.results)
        doubled = ", peripheries=2" if results.intersection(numbers) else ""
        lines.append(f'  {name} [shape=box{doubled}, label="{node.op}\\n{types}"];')
        for argument, value in node.args:
            for ref in argument_refs(value):
                if isinstance(ref, Ref):
                    lines.append(f'  {owner[ref.index]} -> {name} [label="{argument}"];')
        owner += [name] * len(node.results)
    return "\n".join([*lines, "}"]) + "\n"
