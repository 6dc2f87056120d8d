"""Prints the body of a statement as operations of ``arith``, ``math``, ``tensor`` and ``ftm``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ftm_backend.dtypes import DTYPES, DTypeInfo
from ftm_backend.ir.linalg.affine import Affine, volume
from ftm_backend.ir.linalg.function import Node, Statement, Value, nodes_of, walk
from ftm_backend.ir.linalg.strided_view import Strided

if TYPE_CHECKING:
    from ftm_backend.ir.linalg.printer import FunctionPrinter


CMPF = (
    "false",
    "oeq",
    "ogt",
    "oge",
    "olt",
    "ole",
    "one",
    "ord",
    "ueq",
    "ugt",
    "uge",
    "ult",
    "ule",
    "une",
    "uno",
    "true",
)
CMPI = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
"""Predicates of ``arith.cmpf`` and ``arith.cmpi``, indexed by MLIR's number of the predicate."""

_CONVERSIONS = frozenset(
    f"arith.{name}"
    for name in (
        "extf",
        "truncf",
        "extsi",
        "extui",
        "trunci",
        "sitofp",
        "uitofp",
        "fptosi",
        "fptoui",
        "bitcast",
    )
)


def constant_text(node: Node) -> str:
    """Print a constant node with its type, such as ``1.0 : f32``."""
    value = node.payload
    if node.dtype == "i1":
        return "true" if value else "false"
    return f"{_number(value, node.dtype)} : {node.dtype}"


def _number(value: float, dtype: str) -> str:
    if "f" not in dtype:
        return str(int(value))
    value = float(value)
    if not math.isfinite(value):
        return _non_finite_bits(value, DTYPES[dtype])
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{e}{exponent}"


def _non_finite_bits(value: float, facts: DTypeInfo) -> str:
    """Print infinity or NaN as the hexadecimal bits that MLIR requires for them."""
    mantissa = facts.digits - 1
    bits = ((1 << (facts.bits - facts.digits)) - 1) << mantissa
    if math.isnan(value):
        bits |= 1 << (mantissa - 1)
    elif value < 0:
        bits |= 1 << (facts.bits - 1)
    return f"0x{bits:0{facts.bits // 4}X}"


def data_text(value: Value) -> str:
    """Print the data of a constant tensor as ``dense<...>``."""
    assert value.data is not None
    if value.dtype == "i1":
        return f"dense<[{', '.join('true' if byte else 'false' for byte in value.data)}]>"
    if value.dtype.startswith("i") and volume(value.shape) <= 64:
        return f"dense<{np.frombuffer(value.data, f'<i{int(value.dtype[1:]) // 8}').tolist()}>"
    return f'dense<"0x{value.data.hex().upper()}">'


class BodyPrinter:
    """Prints the nodes of one body, each node once.

    Args:
        function: The printer of the enclosing function.
        operands: Block argument that holds each operand of the statement, by ``id(operand)``.
        uniform: Names of the nodes that were printed outside of loops, by ``id(node)``.
    """

    def __init__(
        self, function: FunctionPrinter, operands: dict[int, str], uniform: dict[int, str]
    ) -> None:
        self._function, self._operands, self._uniform = function, operands, uniform
        self._names: dict[int, str] = {}
        self._tables: dict[Value, str] = {}

    def prepare(self, statement: Statement) -> None:
        """Print outside of the body what it uses: constants, and tensors that it gathers from."""
        nodes = nodes_of(statement.results)
        for node in nodes:
            if node.op == "constant":
                self._function.constant(node)
            elif node.op == "gather" and node.payload not in self._tables:
                count = volume(node.payload.shape)
                flat = Strided((count,), (1,))
                whole = node.payload.shape == (count,)
                self._tables[node.payload] = (
                    self._function.value(node.payload)
                    if whole
                    else self._function.view(node.payload, flat)
                )

    def node(self, root: Node) -> str:
        """Print the operations that compute ``root`` and return the name of its value."""
        for node in walk([root]):
            if id(node) not in self._names:
                self._names[id(node)] = self._print(node)
        return self._names[id(root)]

    def _print(self, node: Node) -> str:
        if node.op == "constant":
            return self._function.constant(node)
        if node.op == "scalar":
            return self._function.scalar(node.payload)
        if node.op == "in":
            return self._operands[id(node.payload)]
        if node.op == "carry":
            return f"%out{node.payload}"
        if node.op == "index":
            return self._index(node.payload)
        names = [self._names[id(n)] for n in node.operands]
        if node.op == "gather":
            element = self._function.define(f"arith.index_cast {names[0]} : i64 to index")
            kind = f"tensor<{volume(node.payload.shape)}x{node.dtype}>"
            return self._function.define(
                f"tensor.extract {self._tables[node.payload]}[{element}] : {kind}"
            )
        types = [n.dtype for n in node.operands]
        if node.op in ("arith.cmpf", "arith.cmpi"):
            predicate = (CMPF if node.op == "arith.cmpf" else CMPI)[node.payload]
            text = f"{node.op} {predicate}, {names[0]}, {names[1]} : {types[0]}"
            return self._function.define(text)
        if node.op in _CONVERSIONS:
            return self._function.define(f"{node.op} {names[0]} : {types[0]} to {node.dtype}")
        if node.op == "ftm.philox":
            return self._function.define(
                f'"ftm.philox"({", ".join(names)}) : ({", ".join(types)}) -> {node.dtype}'
            )
        if node.op == "math.fpowi":
            return self._function.define(f"math.fpowi {', '.join(names)} : {', '.join(types)}")
        if node.op == "arith.select":
            return self._function.define(f"arith.select {', '.join(names)} : {node.dtype}")
        return self._function.define(f"{node.op} {', '.join(names)} : {types[0]}")

    def _index(self, index: Affine) -> str:
        """Print a sum of multiples of loop counters, as i64."""
        define = self._function.define
        total = ""
        for loop, factor in enumerate(index.coeffs):
            if not factor:
                continue
            counter = define(f"linalg.index {loop} : index")
            term = define(f"arith.index_cast {counter} : index to i64")
            if factor != 1:
                term = define(f"arith.muli {term}, {self._local(factor)} : i64")
            total = define(f"arith.addi {total}, {term} : i64") if total else term
        if index.const or not total:
            number = self._local(index.const)
            total = define(f"arith.addi {total}, {number} : i64") if total else number
        return total

    def _local(self, number: int) -> str:
        return self._function.define(f"arith.constant {number} : i64")
