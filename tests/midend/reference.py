"""A second opinion: evaluates a linalg module with numpy, operation by operation, straight from the
IR.

It shares nothing with the midend. Reductions run point by point in loop order, so keep reduced
extents small.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftm_backend.mlir import ir

_TYPES = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32,
    "i16": np.int16, "i8": np.int8, "i1": np.bool_, "index": np.int64,
}  # fmt: skip


def _dtype(kind: Any) -> Any:
    return _TYPES[str(kind)]


def evaluate(module: Any, arguments: Sequence[Any]) -> list[np.ndarray]:
    """Runs ``@main`` on numpy arrays and Python numbers."""
    block = module.body.operations[0].regions[0].blocks[0]
    env: dict[Any, Any] = dict(zip(block.arguments, arguments, strict=True))
    for op in block.operations:
        name = op.operation.name
        if name == "func.return":
            return [np.array(env[o]) for o in op.operands]
        results = _OPS[name](op, env) if name in _OPS else _scalar_or_structured(op, env)
        env.update(zip(op.results, results, strict=True))
    raise AssertionError("no return")


def _scalar_or_structured(op: Any, env: dict) -> list[Any]:
    name = op.operation.name
    if name.startswith(("arith.", "math.")):
        return [_element(op, [np.asarray(env[o]) for o in op.operands])]
    return _structured(op, env)


def _shape(ssa: Any) -> tuple[int, ...]:
    return tuple(ir.RankedTensorType(ssa.type).shape)


def _empty(op: Any, env: dict) -> list[Any]:
    return [
        np.zeros(
            _shape(op.results[0]), _dtype(ir.RankedTensorType(op.results[0].type).element_type)
        )
    ]


def _constant(op: Any, env: dict) -> list[Any]:
    value, kind = op.attributes["value"], op.results[0].type
    if not isinstance(kind, ir.RankedTensorType):
        return [_dtype(kind)(value.value)]
    dtype = _dtype(ir.RankedTensorType(kind).element_type)
    if value.is_splat:
        return [np.full(_shape(op.results[0]), value.get_splat_value().value, dtype)]
    return [np.array([value[k] for k in range(len(value))], dtype).reshape(_shape(op.results[0]))]


def _flat_view(shape: Sequence[int], offset: int, strides: Sequence[int]) -> np.ndarray:
    index = np.full(shape, offset, np.int64)
    for k, step in enumerate(strides):
        index += (
            np.arange(shape[k]).reshape([-1 if d == k else 1 for d in range(len(shape))]) * step
        )
    return index


def _view(op: Any, env: dict) -> list[Any]:
    base = np.ascontiguousarray(env[op.operands[0]]).reshape(-1)
    index = _flat_view(
        _shape(op.results[0]), op.attributes["offset"].value, list(op.attributes["strides"])
    )
    return [base[index]]


def _update(op: Any, env: dict) -> list[Any]:
    base = np.array(env[op.operands[0]])
    index = _flat_view(
        _shape(op.operands[1]), op.attributes["offset"].value, list(op.attributes["strides"])
    )
    flat = base.reshape(-1)
    flat[index.reshape(-1)] = np.asarray(env[op.operands[1]]).reshape(-1)
    return [flat.reshape(base.shape)]


def _scatter(op: Any, env: dict) -> list[Any]:
    dest = np.array(env[op.operands[0]])
    combine = {
        "set": lambda a, b: b,
        "add": np.add,
        "mul": np.multiply,
        "min": np.minimum,
        "max": np.maximum,
    }
    for k, row in enumerate(env[op.operands[1]]):
        dest[row] = combine[op.attributes["reduce"].value](dest[row], env[op.operands[2]][k])
    return [dest]


def _slice_index(op: Any) -> tuple[slice, ...]:
    parts = zip(
        op.attributes["static_offsets"],
        op.attributes["static_sizes"],
        op.attributes["static_strides"],
        strict=True,
    )
    return tuple(slice(o, o + n * s if n else o, s) for o, n, s in parts)


def _insert_slice(op: Any, env: dict) -> list[Any]:
    dest = np.array(env[op.operands[1]])
    part = dest[_slice_index(op)]
    part[...] = np.asarray(env[op.operands[0]]).reshape(part.shape)
    return [dest]


def _pad(op: Any, env: dict) -> list[Any]:
    inner = op.regions[0].blocks[0].operations
    value = env[inner[len(inner) - 1].operands[0]]
    width = list(zip(op.attributes["static_low"], op.attributes["static_high"], strict=True))
    return [np.pad(env[op.operands[0]], width, constant_values=value)]


def _broadcast(op: Any, env: dict) -> list[Any]:
    value = env[op.operands[0]]
    for k in sorted(op.attributes["dimensions"]):
        value = np.expand_dims(value, k)
    return [np.broadcast_to(value, _shape(op.results[0]))]


_OPS: dict[str, Callable[[Any, dict], list[Any]]] = {
    "tensor.empty": _empty,
    "arith.constant": _constant,
    "ftm.view": _view,
    "ftm.update": _update,
    "ftm.scatter": _scatter,
    "tensor.extract_slice": lambda op, env: [
        np.asarray(env[op.operands[0]])[_slice_index(op)].reshape(_shape(op.results[0]))
    ],
    "tensor.insert_slice": _insert_slice,
    "tensor.pad": _pad,
    "linalg.broadcast": _broadcast,
    "tensor.expand_shape": lambda op, env: [np.reshape(env[op.operands[0]], _shape(op.results[0]))],
    "tensor.collapse_shape": lambda op, env: [
        np.reshape(env[op.operands[0]], _shape(op.results[0]))
    ],
    "linalg.transpose": lambda op, env: [
        np.transpose(env[op.operands[0]], list(op.attributes["permutation"]))
    ],
    "linalg.fill": lambda op, env: [
        np.full(
            _shape(op.results[0]),
            env[op.operands[0]],
            _dtype(ir.RankedTensorType(op.results[0].type).element_type),
        )
    ],
    "linalg.matmul": lambda op, env: [
        env[op.operands[2]] + env[op.operands[0]] @ env[op.operands[1]]
    ],
    "linalg.batch_matmul": lambda op, env: [
        env[op.operands[2]] + env[op.operands[0]] @ env[op.operands[1]]
    ],
}


# --- linalg.generic
# -----------------------------------------------------------------------------------


def _expression(expr: Any, loops: Sequence[Any]) -> Any:
    if isinstance(expr, ir.AffineDimExpr):
        return loops[expr.position]
    if isinstance(expr, ir.AffineConstantExpr):
        return expr.value
    left, right = _expression(expr.lhs, loops), _expression(expr.rhs, loops)
    return left + right if isinstance(expr, ir.AffineAddExpr) else left * right


def _structured(op: Any, env: dict) -> list[Any]:
    maps = [a.value for a in op.attributes["indexing_maps"]]
    reduced = ["reduction" in str(k) for k in op.attributes["iterator_types"]]
    operands = [np.asarray(env[o]) for o in op.operands]
    extents = [0] * len(reduced)
    for m, value in zip(maps, operands, strict=True):
        for expr, n in zip(m.results, value.shape, strict=True):
            if isinstance(expr, ir.AffineDimExpr):
                extents[expr.position] = n
    block = op.regions[0].blocks[0]
    count = len(op.results)
    outs = [np.array(v) for v in operands[-count:]]
    parallel = [k for k, r in enumerate(reduced) if not r]
    grids = dict(
        zip(
            parallel,
            np.meshgrid(*[np.arange(extents[k]) for k in parallel], indexing="ij")
            if parallel
            else [],
            strict=True,
        )
    )
    shape = tuple(extents[k] for k in parallel)
    if 0 in shape:
        return outs
    for point in itertools.product(*[range(extents[k]) for k, r in enumerate(reduced) if r]):
        fixed = dict(zip([k for k, r in enumerate(reduced) if r], point, strict=True))
        loops = [grids[k] if k in grids else fixed[k] for k in range(len(reduced))]
        places = [
            tuple(np.broadcast_to(_expression(e, loops), shape) for e in m.results) for m in maps
        ]
        arguments = [v[p] for v, p in zip(operands[:-count] + outs, places, strict=True)]
        for out, place, value in zip(
            outs, places[-count:], _body(block, arguments, loops, env), strict=True
        ):
            out[place] = value
    return outs


def _body(block: Any, arguments: Sequence[Any], loops: Sequence[Any], env: dict) -> list[Any]:
    local: dict[Any, Any] = {}

    def get(ssa: Any) -> Any:
        return local[ssa] if ssa in local else env[ssa]

    local.update(zip(block.arguments, arguments, strict=True))
    for op in block.operations:
        name = op.operation.name
        if name == "linalg.yield":
            return [get(o) for o in op.operands]
        if name == "linalg.index":
            value = np.asarray(loops[op.attributes["dim"].value], np.int64)
        elif name == "tensor.extract":
            value = np.asarray(get(op.operands[0]))[
                tuple(np.asarray(get(o)) for o in list(op.operands)[1:])
            ]
        else:
            value = _element(op, [np.asarray(get(o)) for o in op.operands])
        local[op.results[0]] = value
    raise AssertionError("no yield")


_FLOAT = [
    "false", "eq", "gt", "ge", "lt", "le", "ne", "ord", "ueq", "ugt", "uge", "ult", "ule", "une",
    "uno", "true",
]  # fmt: skip
_INT = ["eq", "ne", "lt", "le", "gt", "ge", "ult", "ule", "ugt", "uge"]
_COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "une": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_ARITH: dict[str, Callable[..., Any]] = {
    "arith.addf": np.add,
    "arith.addi": np.add,
    "arith.subf": np.subtract,
    "arith.subi": np.subtract,
    "arith.mulf": np.multiply,
    "arith.muli": np.multiply,
    "arith.divf": np.divide,
    "arith.negf": np.negative,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.select": np.where,
    "math.exp": np.exp,
    "math.sqrt": np.sqrt,
    "math.log": np.log,
    "math.tanh": np.tanh,
    "math.absf": np.abs,
    "math.rsqrt": lambda x: (1 / np.sqrt(x)).astype(x.dtype),
    "math.erf": np.vectorize(math.erf, otypes=[np.float64]),
}


def _element(op: Any, values: Sequence[Any]) -> Any:
    name = op.operation.name
    kind = _dtype(op.results[0].type)
    with np.errstate(all="ignore"):
        if name == "arith.constant":
            return kind(op.attributes["value"].value)
        if name == "arith.cmpf":
            return _COMPARE[_FLOAT[op.attributes["predicate"].value]](*values)
        if name == "arith.cmpi":
            return _COMPARE[_INT[op.attributes["predicate"].value]](*values)
        if name in _ARITH:
            return np.asarray(_ARITH[name](*values)).astype(kind)
        if name in (
            "arith.truncf",
            "arith.extf",
            "arith.sitofp",
            "arith.fptosi",
            "arith.extsi",
            "arith.extui",
            "arith.trunci",
            "arith.index_cast",
            "arith.uitofp",
        ):
            return values[0].astype(kind)
    raise NotImplementedError(f"{name} in the reference: add it to _ARITH")
