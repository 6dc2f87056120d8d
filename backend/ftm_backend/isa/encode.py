"""Instructions outside maps to image records; what their operands must agree in is said in ``operand_checks``.

One method for each operand kind; an instruction's row in the table says which are called.
"""

from __future__ import annotations

from ftm_backend.instructions import instruction as i
from ftm_backend.instructions.table import BY_NAME, OPCODES
from ftm_backend.instructions.types import SCALAR_REGISTERS, same_elements
from ftm_backend.isa import program as p
from ftm_backend.isa.layout import ARGUMENT, DIM, FLAGS, INSTRUCTION, MOST_DIMS, MOST_SIDES, NONE
from ftm_backend.isa.operand_checks import CHECKS
from ftm_backend.isa.symbols import BufferSymbol, Parameters, Symbols, TileSymbol
from ftm_backend.sizes import is_integer

Value = tuple[int, int, int]
"""Immediate, register, scalar: the fields of a Value record."""

_ZERO: Value = (0, NONE, NONE)
_FLAG = {name: 1 << bit for bit, name in enumerate(FLAGS)}
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


def flags_of(item: p.Instruction) -> int:
    """The flag bits of an instruction's suffixes.

    Raises:
        KeyError: a suffix that the instruction does not take, or a repeated or misplaced one.
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


class Encoder:
    """Encodes the instructions of functions, one after another; collects dimension and argument records."""

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols
        self.error = symbols.report.error
        self.dims, self.arguments = bytearray(), bytearray()
        self.tiles: dict[str, TileSymbol] = {}
        self.labels: dict[str, int] = {}
        self.calls: list[tuple[int, int]] = []
        self.function = 0
        self.parameters = Parameters({}, {})
        self._values: dict[p.Operand, Value] = {}
        self._flags: dict[tuple[str, tuple[str, ...]], int] = {}

    def start(self, function: int, tiles: dict[str, TileSymbol], labels: dict[str, int]) -> None:
        """Turns to another function."""
        self.function, self.tiles, self.labels = function, tiles, labels
        self.parameters = self.symbols.parameters[function]

    # --- operands -------------------------------------------------------------------------------------

    def register(self, number: int, line: int, operand: int | None) -> int:
        """A scalar register's number, checked."""
        if not 0 <= number < SCALAR_REGISTERS:
            raise self.error(f"r{number} does not exist: registers are r0 to r{SCALAR_REGISTERS - 1}", line, operand)
        return number

    def value(self, item: p.Operand, line: int, operand: int) -> Value:
        """A scalar source."""
        known = self._values.get(item)
        if known is not None:
            return known
        if isinstance(item, p.Register):
            value = (0, self.register(item.number, line, operand), NONE)
        elif isinstance(item, p.Immediate):
            if not is_integer(item.value):
                raise self.error(f"scalar operands are integers, found {item.value!r}", line, operand)
            if not _LOWEST <= item.value <= _HIGHEST:
                raise self.error(f"{item.value} does not fit in 64 bits", line, operand)
            value = (item.value, NONE, NONE)
        elif isinstance(item, p.Name):
            number, dtype = self.scalar(item.name)
            if dtype != "i64":
                what = "is f64; only map operations read those" if dtype else "is no scalar of the program or the function"
                raise self.error(f"{item.name!r} {what}", line, operand)
            return 0, NONE, number  # a name may mean something else in another function
        else:
            raise self.error("expected a register, an integer or an i64 scalar argument", line, operand)
        self._values[item] = value
        return value

    def scalar(self, name: str) -> tuple[int, str]:
        """Number and type of a scalar; (-1, "") for an unknown name."""
        found = self.parameters.scalars.get(name)
        return found if found is not None else self.symbols.scalars.get(name, (-1, ""))

    def index(self, item: p.Operand, line: int, operand: int) -> Value:
        """What stands in the brackets of what `tile` or `buffer` has found."""
        assert isinstance(item, p.Reference)
        known = self._values.get(item)
        if known is None:
            register = NONE if item.index < 0 else self.register(item.index, line, operand)
            if not _LOWEST <= item.offset <= _HIGHEST:
                raise self.error(f"{item.offset} does not fit in 64 bits", line, operand)
            known = self._values[item] = (item.offset, register, NONE)
        return known

    def tile(self, item: p.Operand, line: int, operand: int) -> TileSymbol:
        """The tile of a slot operand."""
        found = self.tiles.get(item.name) if isinstance(item, p.Reference) else None
        if found is None:
            name = getattr(item, "name", item)
            known = ", ".join(self.tiles) or "none"
            raise self.error(f"{name!r} is no tile of this function; its tiles: {known}", line, operand)
        return found

    def buffer(self, item: p.Operand, line: int, operand: int) -> BufferSymbol:
        """The buffer of an address."""
        name = item.name if isinstance(item, p.Reference) else ""
        found = self.parameters.buffers.get(name) or self.symbols.buffers.get(name)
        if found is None:
            raise self.error(f"{getattr(item, 'name', item)!r} is no buffer of the program's header, nor a parameter", line, operand)
        return found

    # --- transfers ------------------------------------------------------------------------------------

    def side(self, pairs: tuple[tuple[p.Scalar, p.Scalar], ...], line: int, operand: int) -> int:
        """Appends dimension records; the product of the extents, or -1 when a register is among them."""
        total = 1
        for extent, stride in pairs:
            value = self.value(extent, line, operand)
            self.dims += DIM.pack(*value, *self.value(stride, line, operand))
            if value[1] != NONE or value[2] != NONE:
                total = -1
            else:
                if value[0] < 0:
                    raise self.error(f"extent {value[0]} is negative", line, operand)
                if total >= 0:
                    total *= value[0]
        return total

    def fits(self, tile: TileSymbol, rows: int | float, columns: int | float, line: int, operand: int) -> None:
        """Refuses static extents above those of the tile."""
        t = tile.tile
        if rows > t.rows or columns > t.columns:
            shown = f"{rows if rows >= 0 else '?'}x{columns if columns >= 0 else '?'}"
            raise self.error(f"extents {shown} exceed tile {t.name}, which is {t.rows}x{t.columns}", line, operand)

    def reach(self, buffer: BufferSymbol, address: Value, dims: p.Dims, bordered: bool, line: int, operand: int) -> None:
        """Refuses a transfer with static address, extents and strides that leaves the buffer, if that has no border."""
        if bordered or address[1] != NONE or dims.row_stride is not None or buffer.buffer.kind == "param":
            return
        low: int | float = address[0]
        high = low
        for extent, stride in (*dims.rows, *dims.columns):
            if not isinstance(extent, p.Immediate) or not isinstance(stride, p.Immediate):
                return
            if extent.value == 0:
                return
            step = (extent.value - 1) * stride.value
            low, high = low + min(step, 0), high + max(step, 0)
        if low < 0 or high >= buffer.buffer.elements:
            raise self.error(
                f"the transfer touches elements {low} to {high} of {buffer.buffer.name}, which has {buffer.buffer.elements}",
                line,
                operand,
            )

    def writable(self, buffer: BufferSymbol, line: int, operand: int) -> None:
        """Refuses a store into an input or a constant."""
        if buffer.buffer.kind in ("in", "const"):
            raise self.error(
                f"{buffer.buffer.name} is {'an input' if buffer.buffer.kind == 'in' else 'a constant'} and cannot be "
                "written: store to an output, which may share an input's storage",
                line,
                operand,
            )
        if buffer.buffer.kind == "param" and not buffer.buffer.offset:
            raise self.error(
                f"{buffer.buffer.name} is a parameter that is read only: declare it "
                f"`@param {buffer.buffer.name}, {buffer.type.token}, out`",
                line,
                operand,
            )

    def same_type(self, tile: TileSymbol, buffer: BufferSymbol, line: int, operand: int) -> None:
        """Refuses a transfer between different types."""
        if not same_elements(tile.type, buffer.type):
            raise self.error(
                f"tile {tile.tile.name} is {tile.type.token}, buffer {buffer.buffer.name} is {buffer.type.token}: "
                "a transfer does not convert",
                line,
                operand,
            )

    # --- instructions ---------------------------------------------------------------------------------

    def encode(self, item: p.Instruction) -> bytes:
        """The record of one instruction."""
        line, name = item.line, item.name
        if name == "@call":
            return self._call(item)
        row = BY_NAME.get(name)
        if row is None or row.in_map:
            known = f"{name} belongs inside @map" if row else f"unknown instruction {name!r}"
            raise self.error(known, line)
        if len(item.operands) != len(row.operands):
            raise self.error(f"{name} takes {len(row.operands)} operands, found {len(item.operands)}", line)
        flags = self._flags.get((name, item.suffixes))
        if flags is None:
            flags = self._suffixes(item)
        target = dst = buffer = NONE
        tiles = [NONE, NONE, NONE]
        values = [_ZERO, _ZERO, _ZERO, _ZERO]
        first = len(self.dims) // DIM.size
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
                buffer = self.buffer(operand, line, number).number
                values[3] = self.index(operand, line, number)
            elif kind in (i.DIMS, i.ROW_DIMS):
                rows, columns = self._dims(operand, kind, values, line, number)
            elif kind == i.SIDES:
                sides = self._sides(operand, line, number)
            elif kind == i.LABEL:
                target = self._label(operand, line, number)
        if row.family != "scalar":
            check = CHECKS.get(item.name)
            if check is not None:
                check(self, item, values)
        elif name == "SLDI" and self.buffer(item.operands[0], line, 0).type.kind == "float":
            raise self.error("SLDI loads from a buffer of an integer type", line, 0)
        predicate, negated = item.predicate or (NONE, False)
        if predicate != NONE:
            self.register(predicate, line, None)
        return INSTRUCTION.pack(
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

    def _suffixes(self, item: p.Instruction) -> int:
        try:
            flags = flags_of(item)
        except KeyError as error:
            legal = (
                ", ".join(
                    f".{word}" if isinstance(word, str) else "one of " + " ".join(f".{w}" for w in word)
                    for word in BY_NAME[item.name].suffixes
                )
                or "none"
            )
            raise self.error(f"{item.name} does not take .{error.args[0]} there; its suffixes, in this order: {legal}", item.line) from None
        self._flags[item.name, item.suffixes] = flags
        return flags

    def _dims(self, operand: p.Operand, kind: str, values: list[Value], line: int, number: int) -> tuple[int, int]:
        if not isinstance(operand, p.Dims) or (operand.row_stride is not None) != (kind == i.ROW_DIMS):
            form = "1024 | 64@1" if kind == i.ROW_DIMS else "16@64 | 64@1"
            raise self.error(f"expected dimensions of the form {form}", line, number)
        if operand.row_stride is not None:
            values[2] = self.value(operand.row_stride, line, number)
        self.rows = self.side(operand.rows, line, number) if operand.rows else -1
        self.columns = self.side(operand.columns, line, number)
        if len(operand.rows) + len(operand.columns) > MOST_DIMS:
            raise self.error(
                f"a transfer has at most {MOST_DIMS} dimensions, found {len(operand.rows) + len(operand.columns)}", line, number
            )
        return len(operand.rows), len(operand.columns)

    def _sides(self, operand: p.Operand, line: int, number: int) -> int:
        """Appends the records of a border; gives how many dimensions have one."""
        if not isinstance(operand, p.Dims) or not operand.rows:
            raise self.error("expected a border of the form 28@1 28@1 | 30@30 30@1", line, number)
        inside, whole = (
            [(x.value, y.value) for x, y in side if isinstance(x, p.Immediate) and isinstance(y, p.Immediate)]
            for side in (operand.rows, operand.columns)
        )
        if (len(inside), len(whole)) != (len(operand.rows), len(operand.columns)):
            raise self.error("the extents of a border are numbers", line, number)
        if len(inside) != len(whole) or len(inside) > MOST_SIDES:
            raise self.error(f"a border has as many dimensions left of the bar as right of it, and at most {MOST_SIDES}", line, number)
        stride: int | float = 1
        for (extent, before), (total, step) in zip(reversed(inside), reversed(whole), strict=True):
            if extent < 1 or before < 0 or before + extent > total:
                raise self.error(f"{extent} elements with {before} before them are not inside of {total}", line, number)
            if step != stride:
                raise self.error(f"with its border a buffer is dense: expected {total}@{stride}, found {total}@{step}", line, number)
            stride *= total
        self.side(operand.rows, line, number)
        self.side(operand.columns, line, number)
        return len(inside)

    def _label(self, operand: p.Operand, line: int, number: int) -> int:
        target = self.labels.get(operand.name) if isinstance(operand, p.Name) else None
        if target is None:
            raise self.error(f"no label {getattr(operand, 'name', operand)!r} in this function", line, number)
        return target

    def _call(self, item: p.Instruction) -> bytes:
        line = item.line
        called, *arguments = item.operands
        name = called.name if isinstance(called, p.Name) else ""
        target = self.symbols.functions.get(name)
        if target is None:
            raise self.error(f"no function {name or called!r}", line, 0)
        self.calls.append((self.function, target))
        parameters = self.symbols.parameters[target]
        wanted: list[BufferSymbol | tuple[int, str]] = [*parameters.buffers.values(), *parameters.scalars.values()]
        if len(arguments) != len(wanted):
            names = ", ".join((*parameters.buffers, *parameters.scalars)) or "none"
            raise self.error(f"{name} has {len(wanted)} parameters ({names}), found {len(arguments)} arguments", line)
        first = len(self.arguments) // ARGUMENT.size
        for number, (argument, parameter) in enumerate(zip(arguments, wanted, strict=True), 1):
            if isinstance(parameter, BufferSymbol):
                buffer = self._bound(argument, parameter, line, number)
                self.arguments += ARGUMENT.pack(buffer.number, 0, *self.index(argument, line, number))
            else:
                self.arguments += ARGUMENT.pack(NONE, 0, *self._bound_scalar(argument, parameter[1], line, number))
        predicate, negated = item.predicate or (NONE, False)
        if predicate != NONE:
            self.register(predicate, line, None)
        return INSTRUCTION.pack(
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
            *_ZERO,
            *_ZERO,
            *_ZERO,
            *_ZERO,
        )

    def _bound(self, argument: p.Operand, parameter: BufferSymbol, line: int, number: int) -> BufferSymbol:
        buffer = self.buffer(argument, line, number)
        if not same_elements(buffer.type, parameter.type):
            raise self.error(
                f"{buffer.buffer.name} is {buffer.type.token}, parameter {parameter.buffer.name} is {parameter.type.token}", line, number
            )
        if parameter.buffer.offset:
            self.writable(buffer, line, number)
        return buffer

    def _bound_scalar(self, argument: p.Operand, dtype: str, line: int, number: int) -> Value:
        if dtype == "i64":
            return self.value(argument, line, number)
        found = self.scalar(argument.name) if isinstance(argument, p.Name) else (-1, "")
        if found[1] != dtype:
            raise self.error(f"expected the name of an {dtype} scalar", line, number)
        return 0, NONE, found[0]
