"""Names of kernels in assembly: the comment of each call in main.

    @call kernel_3, b1[0], b0[0], o0[0]    // layer1.0 convolution+relu, model.py:33

Functions are shared by equal kernels, so a function has the names of all its calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from ftm_backend.ir.asm import program as p
from ftm_backend.ir.asm.parser import parse


def _calls(program: p.AsmProgram) -> Iterator[tuple[p.AsmInstruction, str]]:
    """Yield each call in main, and the function that it calls."""
    for function in program.functions:
        if isinstance(function, p.AsmFunction) and function.name == "main":
            for item in function.items:
                if isinstance(item, p.AsmInstruction) and item.name == "@call":
                    callee = item.operands[0]
                    if isinstance(callee, p.SymbolName):
                        yield item, callee.name


def with_call_names(text: str, names: Sequence[str]) -> str:
    """Add a comment to each call of main.

    Args:
        text: The assembly.
        names: For each call in the order of the text its name; "" adds no comment.

    Returns:
        The text; unchanged if the number of calls differs.
    """
    program = parse(text)
    calls = list(_calls(program))
    if len(calls) != len(names):
        return text
    for (call, _), name in zip(calls, names, strict=True):
        call.comment = name or call.comment
    return str(program)


def function_names(program: p.AsmProgram) -> dict[str, str]:
    """Return the name of each function that main calls, from the comments of its calls.

    A function with calls of several names has that of the most, and their number.
    """
    names: dict[str, Counter[str]] = {}
    for call, function in _calls(program):
        if call.comment:
            names.setdefault(function, Counter())[call.comment] += 1
    return {
        function: found.most_common(1)[0][0]
        + (f" and {len(found) - 1} others" if len(found) > 1 else "")
        for function, found in names.items()
    }


def called_functions(program: p.AsmProgram) -> list[str]:
    """Return the function of each call of main, in the order of the text."""
    return [function for _, function in _calls(program)]
