"""Parses assembly text. `assembler` verifies names and types; here only syntax is checked.

    program   = @program name, machine  {header}  {function}
    header    = @in name, type, shape | @scalar name, type | @out name, type, shape [, input]
              | @const name, type, shape, hex | @arena name, offset, type, shape
              | @gsm name, offset, type, shape
    function  = @func name  {parameter | tile | label | instruction | map}  @ret
    parameter = @param name, type [, out [, parameter]] | @scalar name, type
    tile      = @tile name, space, type, RxC, depth, offset
    label     = name: [min, max]
    map       = [predicate] @map R x C {, slot:vN[.access]} -> slot:vN[.reduction[.acc]] {, ...}
                {instruction}  @endmap
    predicate = [rN] | [!rN]
    instruction = [predicate] mnemonic{.suffix} [operand {, operand}]
    call      = [predicate] @call name {, address | scalar}

One item a line; ``//`` starts a comment.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from ftm_backend.ir.asm import directive_parser, operand_parser
from ftm_backend.ir.asm import program as p
from ftm_backend.ir.asm.directive_parser import DeclarationError
from ftm_backend.ir.asm.errors import AsmError
from ftm_backend.ir.asm.map_operands import map_input, map_output
from ftm_backend.ir.asm.operand_parser import OperandError
from ftm_backend.target.instruction import ADDRESS, SLOT
from ftm_backend.target.instruction_table import BY_NAME

_PREDICATE = re.compile(r"\[\s*(!?)\s*r(\d+)\s*\]\s*", re.ASCII)


_Declared = TypeVar(
    "_Declared",
    bound=p.AsmProgram | p.BufferDirective | p.ScalarArgument | p.AsmParameter | p.TileDirective,
)


def parse(text: str) -> p.AsmProgram:
    """Parse the text of a whole program.

    Raises:
        AsmError: The text is no program; the message has line, column and the line itself.
    """
    return _Parser(text).run()


def parse_function(lines: Iterable[str]) -> p.AsmFunction:
    """Parse the lines between ``@func`` and ``@ret`` of a function without a name."""
    program = parse("\n".join(("@program p, host", "@func f", *lines, "@ret")))
    (function,) = program.functions
    assert isinstance(function, p.AsmFunction)
    return replace(function, name="")


class _Parser:
    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.number = 0
        self.comment = ""
        self.mnemonics: dict[str, tuple[str, tuple[str, ...], tuple[bool, ...]]] = {}
        self.program: p.AsmProgram | None = None
        self.function: p.AsmFunction | None = None
        self.map: p.AsmInstruction | None = None
        self.leading: list[p.Comment] = []

    def fail(self, message: str, column: int = 0) -> AsmError:
        source = self.lines[self.number - 1] if 0 < self.number <= len(self.lines) else ""
        if source and not column:
            column = len(source) - len(source.lstrip()) + 1
        return AsmError(message, self.number, column, source)

    def run(self) -> p.AsmProgram:
        while self.number < len(self.lines):
            raw = self.lines[self.number]
            self.number += 1
            code, slashes, comment = raw.partition("//")
            self.comment = comment.strip() if slashes else ""
            code = code.strip()
            try:
                if not code:
                    self.place_comment()
                elif code[0] == "@" or code[0] == "[":
                    self.directive(code)
                else:
                    self.code(code, None)
            except OperandError as error:
                raise self.fail(
                    str(error), operand_parser.operand_column(raw, 0) + error.offset
                ) from None
            except DeclarationError as error:
                raise self.fail(str(error)) from None
        return self.finish()

    def finish(self) -> p.AsmProgram:
        if self.map is not None:
            raise self.fail(
                f"the @map of line {self.map.line} has no @endmap before the end of the text"
            )
        if self.function is not None:
            raise self.fail(
                f"@func {self.function.name} of line {self.function.line} has no @ret: add one"
            )
        if self.program is None:
            raise AsmError("the text has no @program line: start it with `@program name, machine`")
        self.program.source = self.lines
        self.program.leading = self.leading
        return self.program

    def place_comment(self) -> None:
        comment = p.Comment(self.comment, self.number)
        if self.map is not None:
            self.map.body.append(comment)
        elif self.function is not None:
            self.function.items.append(comment)
        elif self.program is None:
            self.leading.append(comment)
        elif self.program.functions:
            self.program.functions.append(comment)
        else:
            self.program.header.append(comment)

    # --- instructions and labels
    # ----------------------------------------------------------------------

    def code(self, code: str, predicate: tuple[int, bool] | None) -> None:
        head, _, rest = code.partition(" ")
        if head[-1] == ":":
            self.label(head[:-1], rest.strip(), predicate)
            return
        if self.map is not None:
            items: list[Any] = self.map.body
        elif self.function is not None:
            items = self.function.items
        else:
            raise self.fail(f"{head} is outside of a function: put it between @func and @ret")
        signature = self.mnemonics.get(head)
        if signature is None:
            signature = self.mnemonic(head)
        name, suffixes, references = signature
        operands: tuple[p.Operand, ...] = ()
        if rest:
            words = rest.split(",")
            if len(words) != len(references):
                raise self.count(name, len(words), len(references))
            parsed: list[p.Operand] = []
            try:
                for word, is_reference in zip(words, references, strict=True):
                    parse = operand_parser.reference if is_reference else operand_parser.operand
                    parsed.append(parse(word.strip()))
            except OperandError as error:
                column = operand_parser.operand_column(self.lines[self.number - 1], len(parsed))
                raise self.fail(str(error), column + error.offset) from None
            operands = tuple(parsed)
        elif references:
            raise self.count(name, 0, len(references))
        items.append(
            p.AsmInstruction(name, operands, suffixes, predicate, self.number, self.comment)
        )

    def call(self, rest: str, predicate: tuple[int, bool] | None) -> None:
        if self.function is None or self.map is not None:
            raise self.fail("@call belongs in a function, outside of @map")
        name, *words = [word.strip() for word in rest.split(",")]
        operands: list[p.Operand] = [p.SymbolName(operand_parser.name(name, "a function's name"))]
        try:
            for word in words:
                operands.append(operand_parser.operand(word))
        except OperandError as error:
            column = operand_parser.operand_column(self.lines[self.number - 1], len(operands))
            raise self.fail(str(error), column + error.offset) from None
        self.function.items.append(
            p.AsmInstruction("@call", tuple(operands), (), predicate, self.number, self.comment)
        )

    def mnemonic(self, word: str) -> tuple[str, tuple[str, ...], tuple[bool, ...]]:
        name, *suffixes = word.split(".")
        row = BY_NAME.get(name)
        if row is None:
            raise self.fail(f"unknown instruction {name!r}{_suggest(name)}", self.column())
        signature = name, tuple(suffixes), tuple(o.kind in (ADDRESS, SLOT) for o in row.operands)
        self.mnemonics[word] = signature
        return signature

    def column(self) -> int:
        return operand_parser.mnemonic_column(self.lines[self.number - 1])

    def count(self, name: str, found: int, wanted: int) -> AsmError:
        names = ", ".join(o.name for o in BY_NAME[name].operands) or "none"
        return self.fail(f"{name} takes {wanted} operands ({names}), found {found}", self.column())

    def label(self, name: str, rest: str, predicate: tuple[int, bool] | None) -> None:
        if self.function is None or self.map is not None or predicate is not None:
            raise self.fail(
                "a label belongs on a line of its own, in a function and outside of @map"
            )
        bounds = None
        if rest:
            words = [word.strip() for word in rest.split(",")]
            if len(words) != 2:
                raise self.fail(
                    "expected the least and the greatest trip count after the label, "
                    f"found {rest!r}"
                )
            bounds = (
                operand_parser.integer(words[0], "the least trip count"),
                operand_parser.integer(words[1], "the greatest trip count"),
            )
        elif name.startswith("LOOP_"):
            raise self.fail(f"loop label {name} needs trip count bounds, as in `{name}: 1, 64`")
        self.function.items.append(
            p.Label(operand_parser.name(name, "a label"), bounds, self.number, self.comment)
        )

    # --- directives
    # -----------------------------------------------------------------------------------

    def directive(self, code: str) -> None:
        predicate = None
        if code[0] == "[":
            match = _PREDICATE.match(code)
            if match is None:
                raise self.fail("expected a predicate such as [r7] or [!r7]")
            predicate = operand_parser.whole(match[2]), match[1] == "!"
            code = code[match.end() :]
            if not code:
                raise self.fail("a predicate needs an instruction after it on the same line")
            if code[0] != "@":
                self.code(code, predicate)
                return
        head, _, rest = code.partition(" ")
        if head == "@map":
            self.map_header(rest, predicate)
        elif head == "@call":
            self.call(rest, predicate)
        elif predicate is not None:
            raise self.fail(f"{head} cannot have a predicate")
        elif head == "@endmap":
            self.end_map(rest)
        elif head == "@func":
            self.func(rest)
        elif head == "@ret":
            self.ret(rest)
        else:
            self.declaration(head, [word.strip() for word in rest.split(",")] if rest else [])

    def func(self, rest: str) -> None:
        if self.program is None:
            raise self.fail("the first line must be `@program name, machine`")
        if self.function is not None:
            raise self.fail(
                f"@func inside @func {self.function.name} of line {self.function.line}: "
                "end that with @ret"
            )
        self.function = p.AsmFunction(
            operand_parser.name(rest.strip(), "a function name"), [], self.number, 0, self.comment
        )

    def ret(self, rest: str) -> None:
        if self.function is None or self.map is not None or rest:
            raise self.fail("@ret stands alone, at the end of a function and outside of @map")
        assert self.program is not None
        self.function.end, self.function.end_comment = self.number, self.comment
        self.program.functions.append(self.function)
        self.function = None

    def declaration(self, head: str, words: list[str]) -> None:
        if head == "@program":
            if self.program is not None:
                raise self.fail(f"a second @program; the first is on line {self.program.line}")
            self.program = self.here(directive_parser.program(words))
        elif self.program is None:
            raise self.fail("the first line must be `@program name, machine`")
        elif head == "@tile":
            self.tile(words)
        elif self.function is not None and head in ("@param", "@scalar"):
            self.parameter(head, words)
        elif self.function is not None or self.program.functions:
            raise self.fail(f"{head} is not known here; header lines go before the first @func")
        else:
            self.program.header.append(self.here(directive_parser.header(head, words)))

    def parameter(self, head: str, words: list[str]) -> None:
        parameter = directive_parser.parameter(head, words)
        assert self.function is not None
        if any(not isinstance(item, (p.AsmParameter, p.Comment)) for item in self.function.items):
            raise self.fail("parameters come first in their function")
        if not parameter.scalar and any(item.scalar for item in self.function.parameters):
            raise self.fail("buffers come before scalars among a function's parameters")
        self.function.items.append(self.here(parameter))

    def tile(self, words: list[str]) -> None:
        if self.function is None or self.map is not None:
            raise self.fail("@tile belongs in a function, outside of @map")
        self.function.items.append(self.here(directive_parser.tile(words)))

    def here(self, declared: _Declared) -> _Declared:
        """Set line and comment of what the current line declares."""
        declared.line, declared.comment = self.number, self.comment
        return declared

    # --- maps
    # -----------------------------------------------------------------------------------------

    def map_header(self, rest: str, predicate: tuple[int, bool] | None) -> None:
        if self.function is None or self.map is not None:
            raise self.fail("@map belongs in a function, and not inside another @map")
        left, arrow, right = rest.partition("->")
        if not arrow:
            raise self.fail("expected `->` between the inputs and the outputs of @map")
        size, *inputs = left.split(",")
        rows, times, columns = size.partition(" x ")
        if not times:
            raise self.fail(f"expected `rows x columns` after @map, found {size.strip()!r}")
        outputs = right.split(",")
        index = 1
        read: list[p.MapInput[p.SlotReference]] = []
        written: list[p.MapOutput[p.SlotReference]] = []
        try:
            for word in inputs:
                read.append(map_input(word.strip(), operand_parser.reference))
                index += 1
            for word in outputs:
                written.append(map_output(word.strip(), operand_parser.reference))
                index += 1
        except OperandError as error:
            column = operand_parser.operand_column(self.lines[self.number - 1], index)
            raise self.fail(str(error), column + error.offset) from None
        extents = operand_parser.scalar(rows.strip()), operand_parser.scalar(columns.strip())
        self.map = p.AsmInstruction(
            "@map", (*extents, *read, *written), (), predicate, self.number, self.comment
        )
        self.function.items.append(self.map)

    def end_map(self, rest: str) -> None:
        if self.map is None or rest:
            raise self.fail("@endmap stands alone and ends a @map")
        self.map = None
        if self.comment:
            self.place_comment()


def _suggest(name: str) -> str:
    close = difflib.get_close_matches(name, BY_NAME, 1)
    return f"; did you mean {close[0]}?" if close else "; see docs/isa.md"
