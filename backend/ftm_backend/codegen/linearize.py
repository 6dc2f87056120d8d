"""Linearizes a kernel's tree into instructions of assembly, and places index arithmetic.

An expression is computed in the outermost scope in which all of its operands are defined, right
before the first statement that needs it. So loop-invariant parts of sums leave their loops, and
common subexpressions are computed once. When registers run out, values are recomputed closer to
their uses instead: first within the loop that uses them, then within the single statement. The
machine has no memory for spilling, and index arithmetic is cheap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from ftm_backend.codegen.errors import CodegenError
from ftm_backend.codegen.linear_scan import VIRTUAL, CodeItem, OutOfRegisters, allocate
from ftm_backend.ir.asm import program as p
from ftm_backend.ir.tile.index_expr import Atom, Expr
from ftm_backend.ir.tile.kernel_tree import (
    Address,
    Block,
    MapOperand,
    Slot,
    TileBranch,
    TileInstruction,
    TileKernel,
    TileLoop,
    TileOperand,
)
from ftm_backend.symbolic import as_integer, statically_known_equal, statically_known_nonnegative
from ftm_backend.target.element_types import SCALAR_REGISTERS

CALLER_REGISTERS = 8
"""The last registers are reserved for functions that call others.

All functions share the register file, and no call saves registers.
"""
UNBOUNDED = 1 << 31
"""Upper bound in the text for an unknown trip count."""
PLACEMENTS = ("scope", "loop", "statement")
"""Where index arithmetic is computed, from the fewest instructions to the fewest registers."""

_BINARY = {
    "mul": "SMUL",
    "div": "SDIV",
    "rem": "SREM",
    "min": "SMIN",
    "max": "SMAX",
    "lt": "SLT",
    "eq": "SEQ",
    "ne": "SNE",
}


class _Use(NamedTuple):
    """A use of an index expression.

    Attributes:
        expr: The expression.
        is_address: Whether the operand may be register plus constant (addresses and slots); any
            other one must be a register or a constant.
    """

    expr: Expr
    is_address: bool = False


@dataclass
class _Scope:
    values: dict[object, int] = field(default_factory=dict)


def write(kernel: TileKernel, calls: bool) -> list[CodeItem]:
    """Return the code of a function.

    Args:
        kernel: With tiles placed and waits inserted.
        calls: Whether the function calls others, which share the registers.

    Raises:
        CodegenError: There are not enough registers in any placement.
    """
    registers = (
        range(SCALAR_REGISTERS - CALLER_REGISTERS, SCALAR_REGISTERS)
        if calls
        else range(SCALAR_REGISTERS - CALLER_REGISTERS)
    )
    for placement in PLACEMENTS[2 if calls else 0 :]:
        try:
            return allocate(_Writer(kernel, placement).items, registers)
        except OutOfRegisters:
            continue
    raise CodegenError(
        kernel.name,
        f"@{kernel.name} needs more than {len(registers)} registers at one point even when every "
        "address is computed where it is used: its loops are nested too deeply, or one "
        "instruction has too many operands",
    )


class _Writer:
    """Writes a kernel's code with virtual registers: ``items``."""

    def __init__(self, kernel: TileKernel, placement: str) -> None:
        self.kernel, self.indices, self.placement = kernel, kernel.indices, placement
        self.items: list[CodeItem] = []
        self.scopes = [_Scope()]
        self.registers = count(VIRTUAL)
        self.labels = 0
        self.loops = 0
        self._needs: dict[int, list[_Use]] = {}
        self._split: dict[Expr, tuple[list[tuple[Atom, int]], Expr | None]] = {}
        self.block(kernel.body, 0)

    # Expressions
    # -------------------------------------------------------------------------------------------

    def find(self, key: object) -> int | None:
        for scope in reversed(self.scopes):
            value = scope.values.get(key)
            if value is not None:
                return value
        return None

    def compute(self, name: str, *sources: p.Operand) -> int:
        """Emit an instruction whose destination is a new value."""
        value = next(self.registers)
        self.items.append(p.AsmInstruction(name, (*sources, p.Register(value))))
        return value

    def define(self, key: object, name: str, *sources: p.Operand) -> int:
        """Emit an instruction whose destination is the value of ``key`` in this scope."""
        value = self.scopes[-1].values[key] = self.compute(name, *sources)
        return value

    def atom(self, atom: Atom) -> int:
        value = self.find(atom)
        if value is not None:
            return value
        if atom.operation == "var":
            if atom is self.indices.core:
                return self.define(atom, "SCID")
            if atom is self.indices.cores:
                return self.define(atom, "SNC")
            raise CodegenError(
                self.kernel.name,
                f"@{self.kernel.name} uses {atom!r} outside of the scope that defines it",
            )
        args = [self.scalar(arg) for arg in atom.args]
        return self.define(atom, _BINARY[atom.operation], args[0], args[1])

    def scalar(self, expr: Expr) -> p.Scalar:
        """Return the expression as one operand: a number or a value."""
        return p.Register(self.value(expr)) if expr.terms else p.Immediate(expr.const)

    def value(self, expr: Expr) -> int:
        """Return the expression in a register; its outer-level part is a value of its own."""
        if (
            statically_known_equal(expr.const, 0)
            and len(expr.terms) == 1
            and statically_known_equal(expr.terms[0][1], 1)
        ):
            return self.atom(expr.terms[0][0])
        found = self.find(expr)
        if found is not None:
            return found
        inner, outer = self._parts(expr)
        if outer is None:
            return self._sum(expr, None, expr.const, inner)
        if not outer.terms:
            return self._sum(expr, None, outer.const, inner)
        return self._sum(expr, self.value(outer), 0, inner)

    def _parts(self, expr: Expr) -> tuple[list[tuple[Atom, int]], Expr | None]:
        """Split a sum into the terms of the innermost level and the remaining sum, if any."""
        found = self._split.get(expr)
        if found is None:
            inner = [term for term in expr.terms if term[0].level == expr.level]
            outer = None
            if len(inner) < len(expr.terms):
                others = [term for term in expr.terms if term[0].level != expr.level]
                outer = self.indices.ordered(expr.const, tuple(others))
            found = self._split[expr] = inner, outer
        return found

    def _sum(self, expr: Expr, start: int | None, const: int, terms: list[tuple[Atom, int]]) -> int:
        total = start
        terms = sorted(terms, key=lambda term: term[1] < 0)  # a positive one first: no negation
        for position, (atom, c) in enumerate(terms):
            term = p.Register(self.atom(atom))
            last = position == len(terms) - 1
            final = last and statically_known_equal(const, 0)
            if c == -1 and total is None:
                total = self._emit(expr, last, "SSUB", p.Immediate(const), term)
                const = 0
                continue
            if c == -1 and total is not None:
                total = self._emit(expr, final, "SSUB", p.Register(total), term)
                continue
            if not statically_known_equal(c, 1):
                product = self._emit(expr, final and total is None, "SMUL", term, p.Immediate(c))
                term = p.Register(product)
            total = (
                term.number
                if total is None
                else self._emit(expr, final, "SADD", p.Register(total), term)
            )
        assert total is not None, "an expression without terms is a constant"
        if not statically_known_equal(const, 0):
            total = self._emit(expr, True, "SADD", p.Register(total), p.Immediate(const))
        return total

    def _emit(self, expr: Expr, final: bool, name: str, *sources: p.Operand) -> int:
        return self.define(expr, name, *sources) if final else self.compute(name, *sources)

    # Operands
    # ----------------------------------------------------------------------------------------------

    def reference(self, name: str, expr: Expr) -> p.SlotReference:
        """Return the element ``expr`` of a buffer, or that slot of a tile."""
        if not expr.terms:
            return p.SlotReference(name, -1, expr.const)
        return p.SlotReference(name, self.value(self._without_constant(expr)), expr.const)

    def slot(self, slot: Slot) -> p.SlotReference:
        if slot.tile.depth == 1:
            return p.SlotReference(slot.tile.name)
        return self.reference(slot.tile.name, slot.index)

    def operand(self, operand: TileOperand | MapOperand) -> p.Operand:
        if isinstance(operand, Expr):
            return self.scalar(operand)
        if isinstance(operand, Slot):
            return self.slot(operand)
        if isinstance(operand, Address):
            return self.reference(operand.buffer, operand.offset)
        if isinstance(operand, p.Dims):
            return self.dims(operand)
        if isinstance(operand, p.MapInput):
            return p.MapInput(self.slot(operand.tile), operand.register, operand.access)
        if isinstance(operand, p.MapOutput):
            reduced = operand.scope, operand.reduction, operand.accumulate
            return p.MapOutput(self.slot(operand.tile), operand.register, *reduced)
        if isinstance(operand, Atom):
            raise TypeError(f"{operand} is only a destination")
        return operand

    def dims(self, dims: p.Dims[Expr]) -> p.Dims[p.Scalar]:
        scalar, stride = self.scalar, dims.row_stride
        return p.Dims(
            tuple([(scalar(e), scalar(s)) for e, s in dims.rows]),
            tuple([(scalar(e), scalar(s)) for e, s in dims.columns]),
            None if stride is None else scalar(stride),
        )

    def _without_constant(self, expr: Expr) -> Expr:
        return self.indices.ordered(0, expr.terms)

    # Statements
    # --------------------------------------------------------------------------------------------

    def block(self, block: Block, level: int) -> None:
        for statement in block:
            if self.placement == "statement":
                self.scopes.append(_Scope())
            elif self.placement == "scope":
                self.hoist(self.needs(statement), level)
            if isinstance(statement, TileInstruction):
                self.instruction(statement)
            elif isinstance(statement, TileLoop):
                self.loop(statement, level)
            else:
                self.branch(statement, level)
            if self.placement == "statement":
                kept = self.scopes.pop()
                if isinstance(statement, TileInstruction) and statement.result is not None:
                    self.scopes[-1].values[statement.result] = kept.values[statement.result]

    def needs(self, statement: TileInstruction | TileLoop | TileBranch) -> list[_Use]:
        """Return all expressions that are used at or below a statement."""
        found = self._needs.get(id(statement))
        if found is None:
            if isinstance(statement, TileInstruction):
                found = _uses(statement)
            elif isinstance(statement, TileLoop):
                found = [_Use(e) for e in (statement.lower, statement.upper)]
                found += self._below(statement.body)
            else:
                found = [
                    _Use(statement.condition),
                    *self._below(statement.body),
                    *self._below(statement.otherwise),
                ]
            self._needs[id(statement)] = found
        return found

    def _below(self, block: Block) -> list[_Use]:
        return list(dict.fromkeys(use for statement in block for use in self.needs(statement)))

    def hoist(self, uses: Iterable[_Use], level: int) -> None:
        """Compute the parts of ``uses`` that are defined at ``level``."""
        for use in uses:
            self._hoist(self._without_constant(use.expr) if use.is_address else use.expr, level)

    def _hoist(self, expr: Expr, level: int) -> None:
        if expr.level <= level:
            if expr.terms:
                self.value(expr)
            return
        inner, outer = self._parts(expr)
        if outer is not None:
            self._hoist(outer, level)
        for atom, _ in inner:
            for arg in atom.args:
                self._hoist(arg, level)

    def instruction(self, statement: TileInstruction) -> None:
        operand, operands = self.operand, statement.operands
        if statement.result is not None:
            self.define(statement.result, statement.name, *map(operand, operands[:-1]))
            return
        made = p.AsmInstruction(statement.name, tuple(map(operand, operands)), statement.suffixes)
        for name, sources, suffixes in statement.body:
            known = [o if isinstance(o, p.VectorRegister) else operand(o) for o in sources]
            made.body.append(p.AsmInstruction(name, tuple(known), suffixes))
        self.items.append(made)

    def loop(self, loop: TileLoop, level: int) -> None:
        name = f"LOOP_{self.loops}"
        self.loops += 1
        distance = self.indices.sub(loop.upper, loop.lower)
        upper = self.scalar(loop.upper)
        value = self.compute("SMOV", self.scalar(loop.lower))
        counter = p.Register(value)
        end = ""
        if not statically_known_nonnegative(distance.low - 1):
            end = self.label()
            self.jump(end, (self.compute("SLT", counter, upper), True))
        low = as_integer(distance.low) if statically_known_nonnegative(distance.low - 1) else 1
        high = UNBOUNDED
        if statically_known_nonnegative(low - distance.high):
            high = low
        elif statically_known_nonnegative(distance.high - low) and statically_known_nonnegative(
            UNBOUNDED - distance.high
        ):
            high = as_integer(distance.high)
        self.items.append(p.Label(name, (low, high)))
        self.scopes.append(_Scope({loop.variable: value}))
        self.block(loop.body, level + 1)
        self.scopes.pop()
        self.items.append(p.AsmInstruction("SADD", (counter, p.Immediate(1), counter)))
        self.jump(name, (self.compute("SLT", counter, upper), False))
        if end:
            self.items.append(p.Label(end))

    def jump(self, label: str, predicate: tuple[int, bool]) -> None:
        self.items.append(_jump(label, predicate))

    def branch(self, branch: TileBranch, level: int) -> None:
        if not branch.condition.terms:
            taken = branch.body if branch.condition.const else branch.otherwise
            self.scopes.append(_Scope())
            self.block(taken, level + 1)
            self.scopes.pop()
            return
        condition = self.value(branch.condition)
        for block, negated in ((branch.body, False), (branch.otherwise, True)):
            if block:
                self._guarded(block, condition, negated, level + 1)

    def _guarded(self, block: Block, condition: int, negated: bool, level: int) -> None:
        """Emit a block under a condition: one predicated instruction, or a jump over it."""
        self.scopes.append(_Scope())
        start = len(self.items)
        self.block(block, level)
        self.scopes.pop()
        if len(self.items) == start:
            return
        only = self.items[start] if len(self.items) == start + 1 else None
        if only is not None and not isinstance(only, p.Label) and only.predicate is None:
            only.predicate = condition, negated
        else:
            end = self.label()
            self.items.insert(start, _jump(end, (condition, not negated)))
            self.items.append(p.Label(end))

    def label(self) -> str:
        self.labels += 1
        return f"BB_{self.labels - 1}"


def _jump(label: str, predicate: tuple[int, bool]) -> p.AsmInstruction:
    return p.AsmInstruction("SBR", (p.SymbolName(label),), (), predicate)


def _uses(instruction: TileInstruction) -> list[_Use]:
    """Return the expressions that an instruction uses, those of slots last."""
    uses: list[_Use] = []
    for operand in (
        *instruction.operands,
        *(o for x in instruction.body if x.name == "VIDX" for o in x.operands),
    ):
        if isinstance(operand, Expr):
            uses.append(_Use(operand))
        elif isinstance(operand, Address):
            uses.append(_Use(operand.offset, True))
        elif isinstance(operand, p.Dims):
            pairs = (*operand.rows, *operand.columns)
            uses += (_Use(e) for pair in pairs for e in pair if isinstance(e, Expr))
    slots = [_Use(s.index, True) for s in instruction.named_slots() if s.tile.depth > 1]
    return uses + slots
