"""Parses directives that declare the program, its buffers and scalars, parameters and tiles.

Each function takes the comma-separated words after the directive. All raise DeclarationError, or
OperandError for a word of the wrong kind. The parser checks where a directive may stand.
"""

from __future__ import annotations

from ftm_backend.ir.asm import operand_parser
from ftm_backend.ir.asm import program as p

_PLACED = ("@arena", "@gsm")
"""Directives of buffers whose offset in their memory is declared."""


class DeclarationError(ValueError):
    """A directive has too few, too many or wrong words."""


def program(words: list[str]) -> p.AsmProgram:
    """Parse ``@program name, machine``."""
    _count("@program", words, 2, "name, machine")
    return p.AsmProgram(
        operand_parser.name(words[0], "a program name"),
        operand_parser.name(words[1], "a machine preset"),
    )


def header(head: str, words: list[str]) -> p.BufferDirective | p.ScalarArgument:
    """Parse ``@scalar``, ``@in``, ``@out``, ``@const``, ``@arena`` or ``@gsm``."""
    if head == "@scalar":
        _count(head, words, 2, "name, type")
        return p.ScalarArgument(operand_parser.name(words[0], "a scalar's name"), words[1])
    if head == "@in":
        _count(head, words, 3, "name, type, shape")
    elif head == "@out":
        _count(head, words, 3, "name, type, shape [, input]", 4)
    elif head == "@const":
        _count(head, words, 3, "name, type, shape, hex", 4)
    elif head in _PLACED:
        _count(head, words, 4, "name, offset, type, shape")
    else:
        raise DeclarationError(
            f"unknown directive {head}; known: @program @in @scalar @out @const @arena @gsm "
            "@func @param @tile @map @endmap @call @ret"
        )
    offset = operand_parser.integer(words.pop(1), "a byte offset") if head in _PLACED else 0
    buffer = p.BufferDirective(
        head[1:],
        operand_parser.name(words[0], "a buffer's name"),
        words[1],
        operand_parser.shape(words[2]),
        offset=offset,
    )
    if head == "@out" and len(words) == 4:
        buffer.alias = operand_parser.name(words[3], "an input")
    if head == "@const" and len(words) == 4:
        try:
            buffer.data = bytes.fromhex(words[3])
        except ValueError:
            raise DeclarationError(
                "expected the constant's bytes in hexadecimal, two digits a byte"
            ) from None
    return buffer


def parameter(head: str, words: list[str]) -> p.AsmParameter:
    """Parse ``@param``, or ``@scalar`` in a function."""
    scalar = head == "@scalar"
    if scalar:
        _count(head, words, 2, "name, type")
    else:
        _count(head, words, 2, "name, type [, out [, parameter]]", 4)
        if words[2:] and words[2] != "out":
            raise DeclarationError(
                f"expected `out` for a parameter that the function writes, found {words[2]!r}"
            )
    alias = operand_parser.name(words[3], "a parameter") if len(words) == 4 else ""
    return p.AsmParameter(
        operand_parser.name(words[0], "a parameter's name"), words[1], scalar, len(words) > 2, alias
    )


def tile(words: list[str]) -> p.TileDirective:
    """Parse ``@tile name, space, type, RxC, depth, offset``."""
    _count("@tile", words, 6, "name, space, type, RxC, depth, offset")
    extents = operand_parser.shape(words[3])
    if len(extents) != 2:
        raise DeclarationError(f"a tile has two extents, as in 144x96, found {words[3]!r}")
    name, depth, offset = operand_parser.name(words[0], "a tile's name"), words[4], words[5]
    return p.TileDirective(
        name,
        words[1],
        words[2],
        extents[0],
        extents[1],
        operand_parser.integer(depth, "a ring depth"),
        operand_parser.integer(offset, "a byte offset"),
    )


def _count(head: str, words: list[str], least: int, form: str, most: int = 0) -> None:
    if not least <= len(words) <= max(least, most):
        raise DeclarationError(f"expected `{head} {form}`, found {len(words)} words")
