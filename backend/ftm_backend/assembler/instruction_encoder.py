"""Encodes instructions outside of maps; the instruction table tells how to read each operand."""

from __future__ import annotations

from ftm_backend.assembler.image_layout import (
    ARGUMENT,
    COLLECTIVE_BIT,
    FLAGS,
    INSTRUCTION,
    NONE,
)
from ftm_backend.assembler.operand_encoder import ZERO, OperandEncoder, Value
from ftm_backend.assembler.operand_verifier import CHECKS
from ftm_backend.assembler.section_writer import SectionWriter
from ftm_backend.assembler.symbol_table import BufferSymbol, SymbolTable
from ftm_backend.ir.asm import program as p
from ftm_backend.target import instruction as i
from ftm_backend.target.element_types import same_elements
from ftm_backend.target.instruction_table import BY_NAME, OPCODES
from ftm_backend.target.instructions.collective import COLLECTIVE_KINDS

_FLAG = {name: 1 << bit for bit, name in enumerate(FLAGS)} | {
    kind: number << COLLECTIVE_BIT for number, kind in enumerate(COLLECTIVE_KINDS)
}


def flags_of(item: p.AsmInstruction) -> int:
    """Return the flag bits of an instruction's suffixes.

    Raises:
        KeyError: A suffix that the instruction does not take, or a repeated or misplaced one.
    """
    left = list(item.suffixes)
    flags = 0
    for allowed in BY_NAME[item.name].suffixes:
        words = (allowed,) if isinstance(allowed, str) else allowed
        if left and left[0] in words:
            flags |= _FLAG[left.pop(0)]
    if left:
        raise KeyError(left[0])
    return flags


class InstructionEncoder(OperandEncoder):
    """Encodes the instructions of functions; collects them, their dimensions and arguments."""

    def __init__(self, symbols: SymbolTable) -> None:
        super().__init__(symbols)
        self.code = SectionWriter(INSTRUCTION)
        self.arguments = SectionWriter(ARGUMENT)
        self.calls: list[tuple[int, int]] = []
        self._flags: dict[tuple[str, tuple[str, ...]], int] = {}

    def encode(self, item: p.AsmInstruction) -> None:
        """Append the record of one instruction."""
        line, name = item.line, item.name
        if name == "@call":
            self._call(item)
            return
        row = self._row(item)
        flags = self._flags.get((name, item.suffixes))
        if flags is None:
            flags = self._suffixes(item)
        target = dst = buffer = NONE
        tiles = [NONE, NONE, NONE]
        values = [ZERO, ZERO, ZERO, ZERO]
        first = len(self.dims)
        rows = columns = place = scalars = sides = 0
        for number, (operand, wanted) in enumerate(zip(item.operands, row.operands, strict=True)):
            kind = wanted.kind
            if kind == i.SCALAR:
                values[scalars] = self.value(operand, line, number)
                scalars += 1
            elif kind == i.REGISTER:
                if not isinstance(operand, p.Register):
                    raise self.error(f"{name} writes a register here ({wanted.name})", line, number)
                dst = self.register(operand.number, line, number)
            elif kind == i.SLOT:
                slot = place if name != "DGA" else 1 - place
                tiles[slot] = self.tile(operand, line, number).number
                values[slot] = self.index(operand, line, number)
                place += 1
            elif kind == i.ADDRESS:
                address = self.buffer(operand, line, number).number
                offset = self.index(operand, line, number)
                if buffer == NONE:
                    buffer, values[3] = address, offset
                else:
                    first = len(self.arguments)
                    self.arguments.append(address, 0, *offset)
            elif kind in (i.DIMS, i.ROW_DIMS):
                rows, columns = self.dimensions(operand, kind, values, line, number)
            elif kind == i.SIDES:
                sides = self.border(operand, line, number)
            elif kind == i.LABEL:
                target = self.label(operand, line, number)
        if row.family != "scalar":
            check = CHECKS.get(item.name)
            if check is not None:
                check(self, item, values)
        elif name == "SLDI" and self.buffer(item.operands[0], line, 0).type.kind == "float":
            raise self.error("SLDI loads from a buffer of an integer type", line, 0)
        predicate, negated = item.predicate or (NONE, False)
        if predicate != NONE:
            self.register(predicate, line, None)
        self.code.append(
            OPCODES[name],
            flags,
            predicate,
            negated,
            line,
            target,
            dst,
            buffer,
            *tiles,
            first,
            rows,
            columns,
            sides,
            *values[0],
            *values[1],
            *values[2],
            *values[3],
        )

    def _row(self, item: p.AsmInstruction) -> i.InstructionDef:
        """Return the row of an instruction in the table."""
        row = BY_NAME.get(item.name)
        if row is None or row.in_map:
            raise self.error(
                f"{item.name} belongs inside @map" if row else f"unknown instruction {item.name!r}",
                item.line,
            )
        if len(item.operands) != len(row.operands):
            raise self.error(
                f"{item.name} takes {len(row.operands)} operands, found {len(item.operands)}",
                item.line,
            )
        return row

    def _suffixes(self, item: p.AsmInstruction) -> int:
        try:
            flags = flags_of(item)
        except KeyError as error:
            legal = (
                ", ".join(
                    f".{word}"
                    if isinstance(word, str)
                    else "one of " + " ".join(f".{w}" for w in word)
                    for word in BY_NAME[item.name].suffixes
                )
                or "none"
            )
            raise self.error(
                f"{item.name} does not take .{error.args[0]} there; its suffixes, in this order: "
                f"{legal}",
                item.line,
            ) from None
        self._flags[item.name, item.suffixes] = flags
        return flags

    def _call(self, item: p.AsmInstruction) -> None:
        line = item.line
        called, *arguments = item.operands
        name = called.name if isinstance(called, p.SymbolName) else ""
        target = self.symbols.functions.get(name)
        if target is None:
            raise self.error(f"no function {name or called!r}", line, 0)
        self.calls.append((self.function, target))
        parameters = self.symbols.parameters[target]
        wanted: list[BufferSymbol | tuple[int, str]] = [
            *parameters.buffers.values(),
            *parameters.scalars.values(),
        ]
        if len(arguments) != len(wanted):
            names = ", ".join((*parameters.buffers, *parameters.scalars)) or "none"
            raise self.error(
                f"{name} has {len(wanted)} parameters ({names}), found {len(arguments)} arguments",
                line,
            )
        first = len(self.arguments)
        for number, (argument, parameter) in enumerate(zip(arguments, wanted, strict=True), 1):
            if isinstance(parameter, BufferSymbol):
                buffer = self._bound(argument, parameter, line, number)
                self.arguments.append(buffer.number, 0, *self.index(argument, line, number))
            else:
                self.arguments.append(
                    NONE, 0, *self._bound_scalar(argument, parameter[1], line, number)
                )
        predicate, negated = item.predicate or (NONE, False)
        if predicate != NONE:
            self.register(predicate, line, None)
        self.code.append(
            OPCODES["@call"],
            0,
            predicate,
            negated,
            line,
            target,
            NONE,
            NONE,
            NONE,
            NONE,
            NONE,
            first,
            len(arguments),
            0,
            0,
            *ZERO,
            *ZERO,
            *ZERO,
            *ZERO,
        )

    def _bound(
        self, argument: p.Operand, parameter: BufferSymbol, line: int, number: int
    ) -> BufferSymbol:
        buffer = self.buffer(argument, line, number)
        if not same_elements(buffer.type, parameter.type):
            raise self.error(
                f"{buffer.buffer.name} is {buffer.type.token}, parameter "
                f"{parameter.buffer.name} is {parameter.type.token}",
                line,
                number,
            )
        if parameter.buffer.offset:
            self.writable(buffer, line, number)
        return buffer

    def _bound_scalar(self, argument: p.Operand, dtype: str, line: int, number: int) -> Value:
        if dtype == "i64":
            return self.value(argument, line, number)
        found = self.scalar(argument.name) if isinstance(argument, p.SymbolName) else (-1, "")
        if found[1] != dtype:
            raise self.error(f"expected the name of an {dtype} scalar", line, number)
        return 0, NONE, found[0]
