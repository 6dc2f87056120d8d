"""Names of kernels in assembly: the comment of each call in main.

    @call kernel_3, b1[0], b0[0], o0[0]    // layer1.0 convolution+relu, model.py:33

Functions are shared by equal kernels, so a function has the names of all its calls.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

__all__ = ["called_functions", "function_names", "with_call_names"]

_CALL = re.compile(r"@call\s+(\w+)")


def _calls(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield line number and function of each call in main."""
    in_main = False
    for number, line in enumerate(lines):
        if line.startswith("@func"):
            in_main = line.split()[1] == "main"
        elif in_main and (found := _CALL.search(line)):
            yield number, found[1]


def with_call_names(text: str, names: Sequence[str]) -> str:
    """Add a comment to each call of main.

    Args:
        text: The assembly.
        names: For each call in the order of the text its name; "" adds no comment.

    Returns:
        The text; unchanged if the number of calls differs.
    """
    lines = text.split("\n")
    calls = list(_calls(lines))
    if len(calls) != len(names):
        return text
    for (number, _), name in zip(calls, names, strict=True):
        if name:
            lines[number] = f"{lines[number].partition('//')[0].rstrip()}  // {name}"
    return "\n".join(lines)


def function_names(text: str) -> dict[str, str]:
    """Return the name of each function that main calls, from the comments of its calls.

    A function with calls of several names has that of the most, and their number.
    """
    lines = text.split("\n")
    names: dict[str, Counter[str]] = {}
    for number, function in _calls(lines):
        comment = lines[number].partition("//")[2].strip()
        if comment:
            names.setdefault(function, Counter())[comment] += 1
    return {
        function: found.most_common(1)[0][0]
        + (f" and {len(found) - 1} others" if len(found) > 1 else "")
        for function, found in names.items()
    }


def called_functions(text: str) -> list[str]:
    """Return the function of each call of main, in the order of the text."""
    return [function for _, function in _calls(text.split("\n"))]
