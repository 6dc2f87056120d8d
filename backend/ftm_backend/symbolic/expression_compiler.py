"""Check symbolic expressions in text form, and compile many of them into one Python function."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Collection, Sequence
from typing import cast

SIZE_PATTERN = r"\{[^{}]+\}"
"""Regular expression of a size within another text."""


class SymbolicExpressionError(ValueError):
    """A text is no symbolic expression, or a symbol is used without an environment."""


OPERATIONS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}

# An image of a few hundred kernels has a thousand expressions. Checking them with regular
# expressions is faster than building a syntax tree of each.
_NAME = r"[A-Za-z_]\w*+"
_WHOLE = r"[0-9]++"
_FLOATING = _WHOLE + r"(?:\.[0-9]++)?(?:e[-+]?[0-9]++)?"
_INTEGERS = re.compile(rf"(?:{_NAME}|{_WHOLE}(?![\w.])|[-+*/%() ])*+", re.ASCII)
_REALS = re.compile(rf"(?:{_NAME}|{_FLOATING}(?![\w.])|[-+*/%() ])*+", re.ASCII)
_POWER_OR_CALL = re.compile(r"\*\*|//|[\w)] *\(|\) *\w", re.ASCII)
_NAMES = re.compile(rf"(?<![\w.]){_NAME}", re.ASCII)
_BRACKETS = re.compile(r"\[([^][]*)\]")


def parse(text: str, symbols: Collection[str]) -> ast.expr:
    """Parse a checked expression.

    Raises:
        SymbolicExpressionError: The text contains more than sums, products, quotients and
            remainders of symbols and integers.
    """
    _check(text, symbols, real=False)
    return ast.parse(text, mode="eval").body


def compile_expressions(
    texts: Sequence[str], symbols: tuple[str, ...], real: bool = False
) -> Callable[..., tuple[int, ...]]:
    """Compile expressions into one function.

    Args:
        texts: The expressions.
        symbols: The function's parameters, in order.
        real: The texts are floating-point expressions; sizes stand in brackets, and ``/`` divides
            exactly outside of them.

    Returns:
        A function from the symbols' values to the values of all `texts`.

    Raises:
        SymbolicExpressionError: A text is no expression of these symbols.
    """
    for text in dict.fromkeys(texts):
        _check(text, symbols, real)
    rounded = [_BRACKETS.sub(_round, text) if real else text.replace("/", "//") for text in texts]
    source = f"lambda {','.join(symbols)}: ({''.join(f'({text}),' for text in rounded)})"
    try:
        code = compile(source, "<sizes>", "eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SymbolicExpressionError(
            f"these are no sizes of {', '.join(symbols)}: {error}"
        ) from None
    return cast(Callable[..., tuple[int, ...]], eval(code, {"__builtins__": {}}))


def _check(text: str, symbols: Collection[str], real: bool) -> None:
    """Raise unless a text consists of numbers, symbols, ``+ - * / %`` and parentheses."""
    plain = _BRACKETS.sub(r"(\1)", text) if real else text
    if not (_REALS if real else _INTEGERS).fullmatch(plain) or _POWER_OR_CALL.search(plain):
        raise SymbolicExpressionError(
            f"{text!r} is no size: there is more in it than numbers, symbols, groups and + - * / %"
        )
    for name in _NAMES.findall(plain):
        if name not in symbols:
            raise SymbolicExpressionError(
                f"there is no size {name!r}; there are {', '.join(symbols) or 'none'}"
            )
    try:
        compile(plain.strip(), "<size>", "eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise SymbolicExpressionError(f"{text!r} is no size: {error}") from None


def _round(bracket: re.Match[str]) -> str:
    """Use integer division inside of brackets."""
    return f"({bracket[1].replace('/', '//')})"
