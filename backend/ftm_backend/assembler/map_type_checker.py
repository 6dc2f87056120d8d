"""Type checker of map bodies.

A map register has the type that was last written to it; it must be written (or be an input) before
it is read. The result is a list of typed operations on numbered *values*: each write defines a new
value.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ftm_backend.assembler.image_layout import NONE, OPERAND_KINDS
from ftm_backend.assembler.immediate_encoder import to_bits
from ftm_backend.assembler.instruction_encoder import InstructionEncoder
from ftm_backend.assembler.operand_encoder import Value
from ftm_backend.assembler.section_writer import SectionWriter
from ftm_backend.ir.asm import program as p
from ftm_backend.symbolic import FloatBits
from ftm_backend.target import instruction as i
from ftm_backend.target.element_types import (
    BY_SUFFIX,
    SCALAR_REGISTERS,
    VECTOR_REGISTERS,
    ElementType,
    same_elements,
)
from ftm_backend.target.instruction_table import BY_NAME, OPCODES

KIND = {name: number for number, name in enumerate(OPERAND_KINDS)}
_RESULT, _INPUT, _IMMEDIATE = KIND["RESULT"], KIND["INPUT"], KIND["IMMEDIATE"]
_SCALAR, _REGISTER = KIND["SCALAR"], KIND["REGISTER"]


_Row = tuple[int, int, int, list[ElementType | None], ElementType]
"""Opcode, type and from-type numbers, type of each operand (None: an address), result type."""


@dataclass(slots=True)
class OperandSource:
    """A source operand.

    Attributes:
        kind: Index into ``image_layout.OPERAND_KINDS``; RESULT means the value ``index``.
        type: Its type.
        index: By kind.
    """

    kind: int
    type: ElementType
    index: int


@dataclass(slots=True)
class TypedOperation:
    """A typed operation that defines value ``result``."""

    opcode: int
    type: int
    from_type: int
    line: int
    result: int
    sources: list[OperandSource]
    buffer: int = NONE
    address: Value = (0, NONE, NONE)


@dataclass(slots=True)
class TypedMapBody:
    """A typed body.

    Attributes:
        types: Type of every value; the first values are the inputs.
        operations: In order.
        outputs: The value of each output.
    """

    types: list[ElementType] = field(default_factory=list)
    operations: list[TypedOperation] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)


class MapTypeChecker:
    """Checks and types map bodies.

    Args:
        encoder: Resolves tiles, buffers and scalars.
        immediates: Pool that the immediates are added to.
    """

    def __init__(self, encoder: InstructionEncoder, immediates: ImmediateTypes) -> None:
        self.encoder = encoder
        self.error = encoder.error
        self.immediates = immediates
        self._rows: dict[tuple[str, tuple[str, ...]], _Row] = {}

    def run(self, item: p.AsmInstruction) -> TypedMapBody:
        """Return the typed body of ``item``; raise AsmError if its types are wrong."""
        body = TypedMapBody()
        registers: dict[int, int] = {}
        for number, entry in enumerate(item.inputs, 1):
            if entry.register in registers:
                raise self.error(f"v{entry.register} is defined by two inputs", item.line, number)
            self._vector(entry.register, item.line, number)
            registers[entry.register] = len(body.types)
            body.types.append(self.encoder.tile(entry.tile, item.line, number).type)
        inputs = len(body.types)
        for line in item.body:
            if isinstance(line, p.AsmInstruction):
                self._operation(line, body, registers, inputs)
        if not item.outputs:
            raise self.error("@map needs at least one output", item.line)
        for number, out in enumerate(item.outputs, inputs + 1):
            value = registers.get(out.register)
            if value is None:
                raise self.error(
                    f"v{out.register} is stored but nothing in the map writes it", item.line, number
                )
            tile = self.encoder.tile(out.tile, item.line, number)
            if tile.type is not body.types[value]:
                raise self.error(
                    f"v{out.register} is {body.types[value].suffix}, tile {tile.tile.name} is "
                    f"{tile.type.suffix}: convert with "
                    f"VCVT.{tile.type.suffix}.{body.types[value].suffix}",
                    item.line,
                    number,
                )
            body.outputs.append(value)
        return body

    def _vector(self, number: int, line: int, operand: int) -> None:
        if not 0 <= number < VECTOR_REGISTERS:
            raise self.error(
                f"v{number} does not exist: registers are v0 to v{VECTOR_REGISTERS - 1}",
                line,
                operand,
            )

    def _row(self, item: p.AsmInstruction) -> _Row:
        """Return the signature of an instruction; raise AsmError if it does not exist."""
        signature = self._rows.get((item.name, item.suffixes))
        if signature is not None:
            return signature
        row = BY_NAME.get(item.name)
        if row is None or not row.in_map:
            reason = (
                f"{item.name} does not belong inside @map"
                if row
                else f"unknown instruction {item.name!r}"
            )
            raise self.error(reason, item.line)
        wanted = bool(row.types) + bool(row.from_types)
        if (
            len(item.suffixes) != wanted
            or (wanted and item.suffixes[0] not in row.types)
            or (wanted == 2 and item.suffixes[1] not in row.from_types)
        ):
            form = f"{item.name}.<{' '.join(row.types)}>" if row.types else item.name
            form += f".<{' '.join(row.from_types)}>" if row.from_types else ""
            raise self.error(
                f"{'.'.join((item.name, *item.suffixes))} does not exist; write {form}", item.line
            )
        own = BY_SUFFIX[item.suffixes[0]] if wanted else BY_SUFFIX[row.result]
        source = BY_SUFFIX[item.suffixes[1]] if wanted == 2 else own
        if item.name == "VBITC" and own.bits != source.bits:
            raise self.error(
                f"VBITC needs types of one size; {own.suffix} and {source.suffix} differ", item.line
            )
        rules = [self._rule(o.kind, own, source) for o in row.operands[:-1]]
        result = self._rule(row.result if row.name != "VGA" else i.SAME, own, source)
        assert result is not None
        from_number = source.number if wanted == 2 else 0
        signature = OPCODES[item.name], own.number, from_number, rules, result
        self._rows[item.name, item.suffixes] = signature
        return signature

    @staticmethod
    def _rule(kind: str, own: ElementType, source: ElementType) -> ElementType | None:
        if kind == i.ADDRESS:
            return None
        return own if kind == i.SAME else source if kind == i.FROM else BY_SUFFIX[kind]

    def _operation(
        self, item: p.AsmInstruction, body: TypedMapBody, registers: dict[int, int], inputs: int
    ) -> None:
        opcode, type_number, from_number, rules, result = self._row(item)
        line = item.line
        if len(item.operands) != len(rules) + 1:
            raise self.error(
                f"{item.name} takes {len(rules) + 1} operands, found {len(item.operands)}", line
            )
        if item.predicate is not None:
            raise self.error("no predicates inside @map: choose with VSEL", line)
        operation = TypedOperation(opcode, type_number, from_number, line, len(body.types), [])
        for number, rule in enumerate(rules):
            operand = item.operands[number]
            if rule is None:
                buffer = self.encoder.buffer(operand, line, number)
                if not same_elements(buffer.type, result):
                    raise self.error(
                        f"buffer {buffer.buffer.name} is {buffer.type.suffix}, not {result.suffix}",
                        line,
                        number,
                    )
                operation.buffer, operation.address = (
                    buffer.number,
                    self.encoder.index(operand, line, number),
                )
            elif type(operand) is p.VectorRegister:
                if item.name == "VIDX":
                    raise self.error(
                        "VIDX takes immediates, scalar registers and scalars", line, number
                    )
                value = registers.get(operand.number)
                if value is None:
                    self._vector(operand.number, line, number)
                    raise self.error(
                        f"v{operand.number} is read before anything writes it", line, number
                    )
                if body.types[value] is not rule:
                    raise self.error(
                        f"v{operand.number} is {body.types[value].suffix} where {item.name} reads "
                        f"{rule.suffix}: convert with "
                        f"VCVT.{rule.suffix}.{body.types[value].suffix}",
                        line,
                        number,
                    )
                operation.sources.append(
                    OperandSource(_INPUT if value < inputs else _RESULT, rule, value)
                )
            else:
                operation.sources.append(self._uniform(operand, rule, line, number))
        last = item.operands[-1]
        if not isinstance(last, p.VectorRegister):
            raise self.error(f"{item.name} writes a map register here", line, len(rules))
        self._vector(last.number, line, len(rules))
        registers[last.number] = operation.result
        body.types.append(result)
        body.operations.append(operation)

    def _uniform(
        self, operand: p.Operand, rule: ElementType, line: int, number: int
    ) -> OperandSource:
        if isinstance(operand, p.Immediate):
            try:
                return OperandSource(_IMMEDIATE, rule, self.immediates.intern(operand.value, rule))
            except ValueError as error:
                raise self.error(str(error), line, number) from None
        if isinstance(operand, p.Register):
            if not 0 <= operand.number < SCALAR_REGISTERS:
                raise self.error(f"r{operand.number} does not exist", line, number)
            return OperandSource(_REGISTER, rule, operand.number)
        if isinstance(operand, p.SymbolName):
            found = self.encoder.scalar(operand.name)
            if not found[1]:
                raise self.error(
                    f"{operand.name!r} is no scalar of the program or the function", line, number
                )
            if found[1] == "f64" and rule.kind != "float":
                raise self.error(
                    f"{operand.name} is f64 where {rule.suffix} is read: convert with VCVT",
                    line,
                    number,
                )
            return OperandSource(_SCALAR, rule, found[0])
        raise self.error(
            "expected a map register, a number, a scalar register or a scalar argument",
            line,
            number,
        )


Key = tuple[str, str, int]
"""Python type, text and element type of an immediate."""

ImmediateEntry = tuple[Key, int | FloatBits]
"""An immediate of the pool, and its bits."""


class ImmediateTypes:
    """The immediate pool: the bits of each distinct (value, type)."""

    def __init__(self) -> None:
        self.bits = SectionWriter("Q")
        self.keys: list[ImmediateEntry] = []
        self._indices: dict[Key, int] = {}

    def intern(self, value: int | float, element: ElementType) -> int:
        """Return the index of ``value`` in ``element``; ValueError if not representable."""
        key = type(value).__name__, repr(value), element.number
        found = self._indices.get(key)
        if found is None:
            return self.add((key, to_bits(value, element)))
        return found

    def add(self, entry: ImmediateEntry) -> int:
        """Add an entry of another pool and return its index."""
        key, bits = entry
        found = self._indices.get(key)
        if found is None:
            found = self._indices[key] = len(self.bits)
            self.bits.append(bits)
            self.keys.append(entry)
        return found
