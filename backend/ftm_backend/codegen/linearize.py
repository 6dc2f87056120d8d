"""Linearizes a kernel's tree into lines of assembly, and places index arithmetic.

An expression is computed in the outermost scope in which all of its operands are defined, right
before the first statement that needs it. So loop-invariant parts of sums leave their loops, and
common subexpressions are computed once. When registers run out, values are recomputed closer to
their uses instead: first within the loop that uses them, then within the single statement. The
machine has no memory for spilling, and index arithmetic is cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ftm_backend.codegen.errors import CodegenError
from ftm_backend.codegen.linear_scan import (
    OutOfRegisters,
    RegisterLine,
    VirtualRegister,
    allocate,
    is_self_move,
    text,
)
from ftm_backend.ir.tile.index_expr import Atom, Expr
from ftm_backend.ir.tile.kernel_tree import (
    Block,
    IndexUse,
    Slot,
    TileBranch,
    TileInstruction,
    TileKernel,
    TileLoop,
)
from ftm_backend.symbolic import as_integer, statically_known_equal, statically_known_nonnegative

__all__ = ["write"]

REGISTERS = 64
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


@dataclass
class _Scope:
    values: dict[object, VirtualRegister] = field(default_factory=dict)


def write(kernel: TileKernel, calls: bool) -> list[str]:
    """Return the lines of a function after its parameters and tiles, without ``@ret``.

    Args:
        kernel: With tiles placed and waits inserted.
        calls: Whether the function calls others, which share the registers.

    Raises:
        CodegenError: There are not enough registers in any placement.
    """
    registers = (
        range(REGISTERS - CALLER_REGISTERS, REGISTERS)
        if calls
        else range(REGISTERS - CALLER_REGISTERS)
    )
    for placement in PLACEMENTS[2 if calls else 0 :]:
        lines = _Writer(kernel, placement).lines
        try:
            allocate(lines, registers)
        except OutOfRegisters:
            continue
        return [text(line) for line in lines if not is_self_move(line)]
    raise CodegenError(
        kernel.name,
        f"@{kernel.name} needs more than {len(registers)} registers at one point even when every "
        "address is computed where it is used: its loops are nested too deeply, or one "
        "instruction has too many operands",
    )


class _Writer:
    def __init__(self, kernel: TileKernel, placement: str) -> None:
        self.kernel, self.indices, self.placement = kernel, kernel.indices, placement
        self.lines: list[RegisterLine] = []
        self.scopes = [_Scope()]
        self.labels = 0
        self.loops = 0
        self._needs: dict[int, list[IndexUse]] = {}
        self.block(kernel.body, 0)

    # Expressions
    # -------------------------------------------------------------------------------------------

    def find(self, key: object) -> VirtualRegister | None:
        for scope in reversed(self.scopes):
            value = scope.values.get(key)
            if value is not None:
                return value
        return None

    def define(self, key: object, parts: Sequence[str | VirtualRegister]) -> VirtualRegister:
        """Emit an instruction whose destination is a new value."""
        value = VirtualRegister()
        self.lines.append(RegisterLine([*parts, value]))
        self.scopes[-1].values[key] = value
        return value

    def atom(self, atom: Atom) -> VirtualRegister:
        value = self.find(atom)
        if value is not None:
            return value
        if atom.operation == "var":
            if atom is self.indices.core:
                return self.define(atom, ["SCID "])
            if atom is self.indices.cores:
                return self.define(atom, ["SNC "])
            raise CodegenError(
                self.kernel.name,
                f"@{self.kernel.name} uses {atom!r} outside of the scope that defines it",
            )
        args = [self.scalar(arg) for arg in atom.args]
        return self.define(atom, [f"{_BINARY[atom.operation]} ", args[0], ", ", args[1], ", "])

    def scalar(self, expr: Expr) -> VirtualRegister | str:
        """Return the expression as one operand: a number or a value."""
        return str(expr.const) if not expr.terms else self.value(expr)

    def value(self, expr: Expr) -> VirtualRegister:
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
        inner = [(a, c) for a, c in expr.terms if a.level == expr.level]
        if len(inner) == len(expr.terms):
            return inner, None
        return inner, self.indices.linear(
            expr.const, {a: c for a, c in expr.terms if a.level != expr.level}
        )

    def _sum(
        self, expr: Expr, start: VirtualRegister | None, const: int, terms: list[tuple[Atom, int]]
    ) -> VirtualRegister:
        total: VirtualRegister | None = start
        terms = sorted(terms, key=lambda term: term[1] < 0)  # a positive one first: no negation
        for position, (atom, c) in enumerate(terms):
            term = self.atom(atom)
            final = position == len(terms) - 1 and statically_known_equal(const, 0)
            if c == -1 and total is not None:
                total = self._emit(expr, final, ["SSUB ", total, ", ", term, ", "])
                continue
            if c == -1:
                total, const = (
                    self._emit(
                        expr, position == len(terms) - 1, ["SSUB ", str(const), ", ", term, ", "]
                    ),
                    0,
                )
                continue
            if not statically_known_equal(c, 1):
                term = self._emit(expr, final and total is None, ["SMUL ", term, f", {c}, "])
            total = (
                term
                if total is None
                else self._emit(expr, final, ["SADD ", total, ", ", term, ", "])
            )
        assert total is not None, "an expression without terms is a constant"
        if not statically_known_equal(const, 0):
            total = self._emit(expr, True, ["SADD ", total, f", {const}, "])
        return total

    def _emit(self, expr: Expr, final: bool, parts: list[str | VirtualRegister]) -> VirtualRegister:
        if final:
            return self.define(expr, parts)
        value = VirtualRegister()
        self.lines.append(RegisterLine([*parts, value]))
        return value

    def use(self, use: IndexUse) -> list[str | VirtualRegister]:
        """Return the text of an operand."""
        expr = use.expr
        if not use.address:
            return [self.scalar(expr)]
        if not expr.terms:
            return [str(expr.const)]
        base = self.value(self.indices.linear(0, dict(expr.terms)))
        return [base] if statically_known_equal(expr.const, 0) else [base, f"{expr.const:+d}"]

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

    def needs(self, statement: TileInstruction | TileLoop | TileBranch) -> list[IndexUse]:
        """Return all expressions that are used at or below a statement."""
        found = self._needs.get(id(statement))
        if found is None:
            if isinstance(statement, TileInstruction):
                found = [part for part in statement.parts if isinstance(part, IndexUse)]
                slots = [part for part in statement.parts if isinstance(part, Slot)]
                found += [
                    IndexUse(slot.index, address=True) for slot in slots if slot.tile.depth > 1
                ]
            elif isinstance(statement, TileLoop):
                found = [IndexUse(e) for e in (statement.lower, statement.upper)]
                found += self._below(statement.body)
            else:
                found = [
                    IndexUse(statement.condition),
                    *self._below(statement.body),
                    *self._below(statement.otherwise),
                ]
            self._needs[id(statement)] = found
        return found

    def _below(self, block: Block) -> list[IndexUse]:
        return list(dict.fromkeys(use for statement in block for use in self.needs(statement)))

    def hoist(self, uses: Iterable[IndexUse], level: int) -> None:
        """Compute the parts of ``uses`` that are defined at ``level``."""
        for use in uses:
            expr = self.indices.linear(0, dict(use.expr.terms)) if use.address else use.expr
            self._hoist(expr, level)

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
        parts: list[str | VirtualRegister] = []
        for part in statement.parts:
            if isinstance(part, IndexUse):
                parts += self.use(part)
            elif isinstance(part, Slot):
                parts += [part.tile.name]
                if part.tile.depth > 1:
                    parts += ["[", *self.use(IndexUse(part.index, address=True)), "]"]
            else:
                parts.append(part)
        if statement.result is not None:
            self.define(statement.result, parts)
        else:
            self.lines.append(RegisterLine(parts))

    def loop(self, loop: TileLoop, level: int) -> None:
        name = f"LOOP_{self.loops}"
        self.loops += 1
        distance = self.indices.sub(loop.upper, loop.lower)
        upper = self.scalar(loop.upper)
        counter = VirtualRegister()
        self.lines.append(RegisterLine(["SMOV ", self.scalar(loop.lower), ", ", counter]))
        end = ""
        if not statically_known_nonnegative(distance.low - 1):
            end = self.label()
            runs = self.temporary(["SLT ", counter, ", ", upper, ", "])
            self.lines.append(RegisterLine([f"SBR {end}"], predicate=(runs, True)))
        low = as_integer(distance.low) if statically_known_nonnegative(distance.low - 1) else 1
        high = UNBOUNDED
        if statically_known_nonnegative(low - distance.high):
            high = low
        elif statically_known_nonnegative(distance.high - low) and statically_known_nonnegative(
            UNBOUNDED - distance.high
        ):
            high = as_integer(distance.high)
        self.lines.append(RegisterLine([f"{name}: {low}, {high}"], opens=True, indent="  "))
        self.scopes.append(_Scope({loop.variable: counter}))
        self.block(loop.body, level + 1)
        self.scopes.pop()
        self.lines.append(RegisterLine(["SADD ", counter, ", 1, ", counter]))
        again = self.temporary(["SLT ", counter, ", ", upper, ", "])
        self.lines.append(RegisterLine([f"SBR {name}"], predicate=(again, False), closes=True))
        if end:
            self.lines.append(RegisterLine([f"{end}:"], indent="  "))

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

    def _guarded(self, block: Block, condition: VirtualRegister, negated: bool, level: int) -> None:
        """Emit a block under a condition: one predicated instruction, or a jump over it."""
        self.scopes.append(_Scope())
        start = len(self.lines)
        self.block(block, level)
        self.scopes.pop()
        if len(self.lines) == start + 1 and self.lines[start].predicate is None:
            self.lines[start].predicate = condition, negated
        elif len(self.lines) > start:
            end = self.label()
            self.lines.insert(
                start, RegisterLine([f"SBR {end}"], predicate=(condition, not negated))
            )
            self.lines.append(RegisterLine([f"{end}:"], indent="  "))

    def temporary(self, parts: list[str | VirtualRegister]) -> VirtualRegister:
        value = VirtualRegister()
        self.lines.append(RegisterLine([*parts, value]))
        return value

    def label(self) -> str:
        self.labels += 1
        return f"BB_{self.labels - 1}"
