"""Parses the text of a trace; errors name line and column.

The grammar, one item a line (blank lines and ``//`` comments are skipped):

    trace
      size sN = HINT, LEAST[, own]
      %N = param DTYPE[SHAPE]
      $N = scalar DTYPE
      %N, ... = NAME(ARG=VALUE, ...) : TYPE, ...
      return %N, ...
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import NoReturn

from ftm_backend import symbolic
from ftm_backend.dtypes import DTYPES
from ftm_backend.ir.trace import parsed_line_cache
from ftm_backend.ir.trace.trace import (
    Complex,
    DType,
    Node,
    Ref,
    ScalarRef,
    TensorType,
    Trace,
    TraceError,
)

_TOKEN = re.compile(
    r"""[ \t]*(?:
      (?P<mark>[=(),:\]])
    | (?P<type>[a-z]\w*\[\s*(?:EXTENT\s*(?:,\s*EXTENT\s*)*)?\])
    | (?P<integers>\[INTEGER(?:,[ ]?INTEGER)*\](?![.\w]))
    | (?P<bracket>\[)
    | (?P<ref>%\d+)
    | (?P<scalar>\$\d+)
    | (?P<float>-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf\b)|nan\b)
    | (?P<int>-?\d+|SIZE)
    | (?P<name>[A-Za-z_][\w.]*(?:::[\w.]+)?)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<end>(?://.*)?$)
    )""".replace("EXTENT", rf"(?:\d+|{symbolic.SIZE_PATTERN})")
    .replace("INTEGER", rf"(?:-?\d+|{symbolic.SIZE_PATTERN})")
    .replace("SIZE", symbolic.SIZE_PATTERN),
    re.VERBOSE,
)
_NUMBER_NAMES = ("nan", "inf")  # numbers as values, but also names of arguments (nan_to_num)
_WORDS = {"none": None, "true": True, "false": False}
_TYPES: dict[str, TensorType] = {}
"""Parsed types by their text; types repeat."""
_TYPES_CAPACITY = 10_000


def parse(text: str) -> Trace:
    """Parse a trace.

    Returns:
        The trace. Only the order of its numbers is checked; ``Trace.verify`` checks the rest.

    Raises:
        TraceError: The text is not a trace; the message has line, column and the line itself.
    """
    with ExitStack() as declared:
        return _parse(text.splitlines(), declared)


def _parse(lines: list[str], declared: ExitStack) -> Trace:
    """Parse a trace; ``declared`` is where its symbols are entered."""
    trace = Trace()
    number = 0
    state = "trace"
    for line_number, line in enumerate(lines, 1):
        if state == "body" and (cached := parsed_line_cache.find(line, number)) is not None:
            trace.nodes.append(cached)
            number += len(cached.results)
            continue
        cursor = _Line(line, line_number)
        if cursor.kind == "end":
            continue
        if state == "trace":
            cursor.word("trace")
            state = "body"
        elif state == "done":
            cursor.fail("there is text after 'return'; a trace ends there")
        elif cursor.kind == "name" and cursor.text == "size":
            if trace.symbols is None:
                trace.symbols = declared.enter_context(symbolic.ShapeEnv({}))
            _symbol(cursor, trace.symbols)
        elif cursor.kind == "scalar":
            _scalar(cursor, trace, number)
        elif cursor.kind == "ref":
            number = _value(cursor, trace, number)
            if trace.nodes:
                cursor.end()
                parsed_line_cache.keep(line, trace.nodes[-1])
        else:
            cursor.word("return")
            if cursor.kind != "end":
                trace.results = [_reference(cursor)]
                while cursor.accept(","):
                    trace.results.append(_reference(cursor))
            state = "done"
        cursor.end()
    if state != "done":
        missing = "'trace' at its start" if state == "trace" else "'return' at its end"
        raise TraceError(f"the text of a trace is incomplete: it has no {missing}")
    return trace


class _Line:
    """A cursor over the tokens of one line; ``kind`` and ``text`` describe the current one."""

    __slots__ = ("_match", "_scan", "kind", "line", "number", "text")

    def __init__(self, line: str, number: int) -> None:
        self.line, self.number = line, number
        self._scan = _TOKEN.scanner(line).match  # type: ignore[attr-defined]
        self._match: re.Match[str] | None = None
        self.advance()

    def advance(self) -> None:
        match = self._scan()
        if match is None:
            start = self._match.end() if self._match else 0
            rest = self.line[start:]
            self.fail(
                f"unexpected {rest.lstrip()[:1]!r}", start + len(rest) - len(rest.lstrip()) + 1
            )
        self._match = match
        kind = self.kind = match.lastgroup
        self.text = match[kind]

    @property
    def column(self) -> int:
        assert self._match is not None
        return self._match.start(self.kind) + 1

    def fail(self, message: str, column: int = 0) -> NoReturn:
        column = column or self.column
        raise TraceError(
            f"line {self.number}, column {column}: {message}\n  {self.line}\n"
            f"  {' ' * (column - 1)}^"
        )

    def accept(self, mark: str) -> bool:
        if self.text == mark and self.kind in ("mark", "bracket"):
            self.advance()
            return True
        return False

    def expect(self, mark: str) -> None:
        if not self.accept(mark):
            self.fail(
                f"expected {mark!r}, found {self.text!r}"
                if self.text
                else f"expected {mark!r}, the line ends"
            )

    def word(self, word: str) -> None:
        if self.kind != "name" or self.text != word:
            self.fail(f"expected {word!r}, found {self.text!r}")
        self.advance()

    def end(self) -> None:
        if self.kind != "end":
            self.fail(f"expected the end of the line, found {self.text!r}")


def _symbol(cursor: _Line, symbols: symbolic.ShapeEnv) -> None:
    cursor.advance()
    name = cursor.text
    if cursor.kind != "name" or not (name[0] == "s" and name[1:].isdecimal()):
        cursor.fail(f"expected a symbol such as s0, found {name!r}")
    if name in symbols.declared:
        cursor.fail(f"symbol {name} is declared twice")
    cursor.advance()
    cursor.expect("=")
    hint = _integer(cursor)
    cursor.expect(",")
    symbols.declare(name, hint, _integer(cursor))
    if cursor.accept(","):
        cursor.word("own")
        symbols.distinct.add(name)


def _integer(cursor: _Line) -> int:
    if cursor.kind != "int" or cursor.text.startswith("{"):
        cursor.fail(f"expected an integer, found {cursor.text!r}")
    value = int(cursor.text)
    cursor.advance()
    return value


def _scalar(cursor: _Line, trace: Trace, number: int) -> None:
    if cursor.text != f"${len(trace.scalars)}":
        cursor.fail(f"expected ${len(trace.scalars)}: scalars are numbered in order")
    if number > len(trace.params):
        cursor.fail("scalars stand before the nodes")
    cursor.advance()
    cursor.expect("=")
    cursor.word("scalar")
    if cursor.text not in ("f64", "i64"):
        cursor.fail(f"a scalar is f64 or i64, not {cursor.text!r}")
    trace.scalars.append(cursor.text)
    cursor.advance()


def _value(cursor: _Line, trace: Trace, number: int) -> int:
    """Parse a parameter or a node and return the next free number."""
    count = 0
    while True:
        if cursor.text != f"%{number + count}":
            cursor.fail(f"expected %{number + count}: values are numbered in order")
        cursor.advance()
        count += 1
        if not cursor.accept(","):
            break
    cursor.expect("=")
    if cursor.kind != "name":
        cursor.fail(f"expected 'param' or the name of an op, found {cursor.text!r}")
    if cursor.text == "param":
        if trace.nodes or trace.scalars:
            cursor.fail("parameters stand before scalars and nodes")
        if count != 1:
            cursor.fail("a parameter is one value")
        cursor.advance()
        type_ = _type(cursor)
        if type_ is None:
            cursor.fail("a parameter has a type; 'none' is for undefined results")
        trace.params.append(type_)
        return number + 1
    op_column, op = cursor.column, cursor.text
    cursor.advance()
    args = _arguments(cursor)
    cursor.expect(":")
    results = [_type(cursor)]
    while cursor.accept(","):
        results.append(_type(cursor))
    if len(results) != count:
        cursor.fail(
            f"{op} has {count} values on the left and {len(results)} types on the right", op_column
        )
    trace.nodes.append(Node.of(op, args, results))
    return number + count


def _arguments(cursor: _Line) -> tuple[tuple[str, object], ...]:
    cursor.expect("(")
    args: list[tuple[str, object]] = []
    if cursor.accept(")"):
        return ()
    while True:
        if cursor.kind != "name" and cursor.text not in _NUMBER_NAMES:
            cursor.fail(f"expected the name of an argument, found {cursor.text!r}")
        name = cursor.text
        if any(name == other for other, _ in args):
            cursor.fail(f"argument {name!r} is given twice")
        cursor.advance()
        cursor.expect("=")
        args.append((name, _argument(cursor)))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(args)


def _argument(cursor: _Line) -> object:
    kind, text = cursor.kind, cursor.text
    if kind == "bracket":
        return _list(cursor)
    if kind == "name" and text == "complex":
        return _complex(cursor)
    if kind == "name" and text in _WORDS:
        value: object = _WORDS[text]
    elif kind == "name" and text in DTYPES:
        value = DType(text)
    elif kind in _LITERALS:
        try:
            value = _LITERALS[kind](text)
        except json.JSONDecodeError as error:
            cursor.fail(f"not a JSON string: {error.msg}")
    else:
        cursor.fail(
            f"expected a value, found {text!r}; "
            "values are %N, $N, numbers, strings, dtypes and lists"
        )
    cursor.advance()
    return value


_LITERALS: dict[str, Callable[[str], object]] = {
    "ref": lambda text: Ref(int(text[1:])),
    "scalar": lambda text: ScalarRef(int(text[1:])),
    "int": symbolic.parse_size,
    "integers": lambda text: tuple(map(symbolic.parse_size, text[1:-1].split(","))),
    "float": float,
    "string": json.loads,
}
"""Values of one token, by its kind."""


def _list(cursor: _Line) -> tuple[object, ...]:
    cursor.advance()
    items: list[object] = []
    if cursor.accept("]"):
        return ()
    while True:
        items.append(_argument(cursor))
        if not cursor.accept(","):
            break
    cursor.expect("]")
    return tuple(items)


def _complex(cursor: _Line) -> Complex:
    cursor.advance()
    cursor.expect("(")
    real = _argument(cursor)
    cursor.expect(",")
    imaginary = _argument(cursor)
    cursor.expect(")")
    if not isinstance(real, float) or not isinstance(imaginary, float):
        cursor.fail("the parts of a complex number are floating-point numbers: complex(0.0,1.0)")
    return Complex(real, imaginary)


def _reference(cursor: _Line) -> int:
    if cursor.kind != "ref":
        cursor.fail(f"expected a value %N, found {cursor.text!r}")
    index = int(cursor.text[1:])
    cursor.advance()
    return index


def _type(cursor: _Line) -> TensorType | None:
    if cursor.kind == "name" and cursor.text == "none":
        cursor.advance()
        return None
    found = _TYPES.get(cursor.text)
    if found is None:
        dtype, _, extents = cursor.text[:-1].partition("[")
        if cursor.kind != "type" or dtype not in DTYPES:
            cursor.fail(f"expected a type such as f32[2,3], found {cursor.text!r}")
        found = TensorType(
            dtype, tuple(map(symbolic.parse_size, extents.split(","))) if extents.strip() else ()
        )
        if "{" not in extents:  # a symbolic size belongs to its program
            if len(_TYPES) >= _TYPES_CAPACITY:
                _TYPES.clear()
            _TYPES[cursor.text] = found
    cursor.advance()
    return found
