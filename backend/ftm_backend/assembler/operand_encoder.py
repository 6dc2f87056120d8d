"""Encodes operands: registers, slots, addresses, dimensions, labels. Each is checked on its own.

``operand_verifier`` checks the operands of an instruction against each other.
"""

from __future__ import annotations

from ftm_backend.assembler.image_layout import DIM, MOST_DIMS, MOST_SIDES, NONE
from ftm_backend.assembler.section_writer import SectionWriter
from ftm_backend.assembler.symbol_table import BufferSymbol, ParameterTable, SymbolTable, TileSymbol
from ftm_backend.ir.asm import program as p
from ftm_backend.symbolic import is_integer
from ftm_backend.target import instruction as i
from ftm_backend.target.element_types import SCALAR_REGISTERS, same_elements

Value = tuple[int, int, int]
"""Immediate, register, scalar: the fields of a Value record."""

ZERO: Value = (0, NONE, NONE)
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


class OperandEncoder:
    """Encodes operands in the scope of one function after another; collects dimension records.

    There is one method per operand kind. Errors point at ``line`` and ``operand``, the number of
    the operand or None.
    """

    def __init__(self, symbols: SymbolTable) -> None:
        self.symbols = symbols
        self.error = symbols.report.error
        self.dims = SectionWriter(DIM)
        self.tiles: dict[str, TileSymbol] = {}
        self.labels: dict[str, int] = {}
        self.function = 0
        self.parameters = ParameterTable({}, {})
        self.rows = self.columns = 0
        """Products of the extents of the last transfer's dimensions, or -1."""
        self._values: dict[p.Operand, Value] = {}

    def start(self, function: int, tiles: dict[str, TileSymbol], labels: dict[str, int]) -> None:
        """Enter the scope of another function."""
        self.function, self.tiles, self.labels = function, tiles, labels
        self.parameters = self.symbols.parameters[function]

    def register(self, number: int, line: int, operand: int | None) -> int:
        """Check the number of a scalar register and return it."""
        if not 0 <= number < SCALAR_REGISTERS:
            raise self.error(
                f"r{number} does not exist: registers are r0 to r{SCALAR_REGISTERS - 1}",
                line,
                operand,
            )
        return number

    def value(self, item: p.Operand, line: int, operand: int) -> Value:
        """Encode a scalar source."""
        cached = self._values.get(item)
        if cached is not None:
            return cached
        if isinstance(item, p.Register):
            value = (0, self.register(item.number, line, operand), NONE)
        elif isinstance(item, p.Immediate):
            if not is_integer(item.value):
                raise self.error(
                    f"scalar operands are integers, found {item.value!r}", line, operand
                )
            if not _LOWEST <= item.value <= _HIGHEST:
                raise self.error(f"{item.value} does not fit in 64 bits", line, operand)
            value = (item.value, NONE, NONE)
        elif isinstance(item, p.SymbolName):
            number, dtype = self.scalar(item.name)
            if dtype != "i64":
                reason = (
                    "is f64; only map operations read those"
                    if dtype
                    else "is no scalar of the program or the function"
                )
                raise self.error(f"{item.name!r} {reason}", line, operand)
            return 0, NONE, number  # not cached: another function may have its own scalar
        else:
            raise self.error(
                "expected a register, an integer or an i64 scalar argument", line, operand
            )
        self._values[item] = value
        return value

    def scalar(self, name: str) -> tuple[int, str]:
        """Return number and type of a scalar; (-1, "") for an unknown name."""
        found = self.parameters.scalars.get(name)
        return found if found is not None else self.symbols.scalars.get(name, (-1, ""))

    def index(self, item: p.Operand, line: int, operand: int) -> Value:
        """Encode the index in the brackets of a slot or an address."""
        assert isinstance(item, p.SlotReference)
        cached = self._values.get(item)
        if cached is None:
            register = NONE if item.index < 0 else self.register(item.index, line, operand)
            if not _LOWEST <= item.offset <= _HIGHEST:
                raise self.error(f"{item.offset} does not fit in 64 bits", line, operand)
            cached = self._values[item] = (item.offset, register, NONE)
        return cached

    def tile(self, item: p.Operand, line: int, operand: int) -> TileSymbol:
        """Return the tile of a slot."""
        found = self.tiles.get(item.name) if isinstance(item, p.SlotReference) else None
        if found is None:
            name = getattr(item, "name", item)
            tiles = ", ".join(self.tiles) or "none"
            raise self.error(
                f"{name!r} is no tile of this function; its tiles: {tiles}", line, operand
            )
        return found

    def buffer(self, item: p.Operand, line: int, operand: int) -> BufferSymbol:
        """Return the buffer of an address."""
        name = item.name if isinstance(item, p.SlotReference) else ""
        found = self.parameters.buffers.get(name) or self.symbols.buffers.get(name)
        if found is None:
            raise self.error(
                f"{getattr(item, 'name', item)!r} is no buffer of the program's header, nor a "
                "parameter",
                line,
                operand,
            )
        return found

    # --- transfers
    # ------------------------------------------------------------------------------------

    def side(self, pairs: tuple[tuple[p.Scalar, p.Scalar], ...], line: int, operand: int) -> int:
        """Append dimension records; return the product of the extents, -1 if it is not static."""
        total = 1
        for extent, stride in pairs:
            value = self.value(extent, line, operand)
            self.dims.append(*value, *self.value(stride, line, operand))
            if value[1] != NONE or value[2] != NONE:
                total = -1
            else:
                if value[0] < 0:
                    raise self.error(f"extent {value[0]} is negative", line, operand)
                if total >= 0:
                    total *= value[0]
        return total

    def fits(
        self, tile: TileSymbol, rows: int | float, columns: int | float, line: int, operand: int
    ) -> None:
        """Reject static extents above those of the tile."""
        t = tile.tile
        if rows > t.rows or columns > t.columns:
            shown = f"{rows if rows >= 0 else '?'}x{columns if columns >= 0 else '?'}"
            raise self.error(
                f"extents {shown} exceed tile {t.name}, which is {t.rows}x{t.columns}",
                line,
                operand,
            )

    def reach(
        self,
        buffer: BufferSymbol,
        address: Value,
        dims: p.Dims[p.Scalar],
        is_padded: bool,
        line: int,
        operand: int,
    ) -> None:
        """Reject a static transfer that leaves the buffer; padded buffers are not checked."""
        if (
            is_padded
            or address[1] != NONE
            or dims.row_stride is not None
            or buffer.buffer.kind == "param"
        ):
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
                f"the transfer touches elements {low} to {high} of {buffer.buffer.name}, which has "
                f"{buffer.buffer.elements}",
                line,
                operand,
            )

    def writable(self, buffer: BufferSymbol, line: int, operand: int) -> None:
        """Reject a store to an input, a constant or a read-only parameter."""
        if buffer.buffer.kind in ("in", "const"):
            kind = "an input" if buffer.buffer.kind == "in" else "a constant"
            raise self.error(
                f"{buffer.buffer.name} is {kind} and cannot be written: store to an output, which "
                "may share an input's storage",
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
        """Reject a transfer between different types."""
        if not same_elements(tile.type, buffer.type):
            raise self.error(
                f"tile {tile.tile.name} is {tile.type.token}, buffer {buffer.buffer.name} is "
                f"{buffer.type.token}: a transfer does not convert",
                line,
                operand,
            )

    def dimensions(
        self, operand: p.Operand, kind: str, values: list[Value], line: int, number: int
    ) -> tuple[int, int]:
        """Append the records of a transfer's dimensions; return how many are rows and columns."""
        if not isinstance(operand, p.Dims) or (operand.row_stride is not None) != (
            kind == i.ROW_DIMS
        ):
            form = "1024 | 64@1" if kind == i.ROW_DIMS else "16@64 | 64@1"
            raise self.error(f"expected dimensions of the form {form}", line, number)
        if operand.row_stride is not None:
            values[2] = self.value(operand.row_stride, line, number)
        self.rows = self.side(operand.rows, line, number) if operand.rows else -1
        self.columns = self.side(operand.columns, line, number)
        if len(operand.rows) + len(operand.columns) > MOST_DIMS:
            raise self.error(
                f"a transfer has at most {MOST_DIMS} dimensions, found "
                f"{len(operand.rows) + len(operand.columns)}",
                line,
                number,
            )
        return len(operand.rows), len(operand.columns)

    def border(self, operand: p.Operand, line: int, number: int) -> int:
        """Append the records of a border; return how many dimensions are padded."""
        if not isinstance(operand, p.Dims) or not operand.rows:
            raise self.error("expected a border of the form 28@1 28@1 | 30@30 30@1", line, number)
        inside, whole = (
            [
                (x.value, y.value)
                for x, y in side
                if isinstance(x, p.Immediate) and isinstance(y, p.Immediate)
            ]
            for side in (operand.rows, operand.columns)
        )
        if (len(inside), len(whole)) != (len(operand.rows), len(operand.columns)):
            raise self.error("the extents of a border are numbers", line, number)
        if len(inside) != len(whole) or len(inside) > MOST_SIDES:
            raise self.error(
                "a border has as many dimensions left of the bar as right of it, and at most "
                f"{MOST_SIDES}",
                line,
                number,
            )
        stride: int | float = 1
        for (extent, before), (total, step) in zip(reversed(inside), reversed(whole), strict=True):
            if extent < 1 or before < 0 or before + extent > total:
                raise self.error(
                    f"{extent} elements with {before} before them are not inside of {total}",
                    line,
                    number,
                )
            if step != stride:
                raise self.error(
                    f"with its border a buffer is dense: expected {total}@{stride}, found "
                    f"{total}@{step}",
                    line,
                    number,
                )
            stride *= total
        self.side(operand.rows, line, number)
        self.side(operand.columns, line, number)
        return len(inside)

    def label(self, operand: p.Operand, line: int, number: int) -> int:
        """Return the instruction that a branch jumps to."""
        target = self.labels.get(operand.name) if isinstance(operand, p.SymbolName) else None
        if target is None:
            raise self.error(
                f"no label {getattr(operand, 'name', operand)!r} in this function", line, number
            )
        return target
