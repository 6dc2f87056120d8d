"""A trace as a graph in graphviz's language."""

from __future__ import annotations

from ftm_backend.ir.trace.trace import Ref, Trace, argument_refs

__all__ = ["graph"]


def graph(text: str) -> str:
    """Return the graph of a trace's text: a box for each operation, an ellipse for each parameter, results
    with a double line."""
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
