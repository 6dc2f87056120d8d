"""Small programs of one op each, covering the op families that have instructions of their own."""

from __future__ import annotations

from ftm_backend.dtypes import FLOATS, INTS

_UNARY = (
    "exp",
    "log1p",
    "tanh",
    "erf",
    "sqrt",
    "rsqrt",
    "sigmoid",
    "sin",
    "cos",
    "abs",
    "neg",
    "floor",
    "relu",
    "reciprocal",
)
_BINARY = ("mul.Tensor", "div.Tensor", "maximum", "minimum", "atan2")
_INTEGER = (
    "bitwise_and.Tensor",
    "bitwise_or.Tensor",
    "bitwise_xor.Tensor",
    "maximum",
    "mul.Tensor",
)


def traces() -> dict[str, str]:
    """Return the traces by name."""
    found: dict[str, str] = {}
    for dtype in FLOATS:
        for op in _UNARY:
            found[f"{op} {dtype}"] = _call(op, [f"{dtype}[37,19]"], f"{dtype}[37,19]", "self=%0")
        for op in _BINARY:
            found[f"{op} {dtype}"] = _call(
                op, [f"{dtype}[5,33]", f"{dtype}[33]"], f"{dtype}[5,33]", "self=%0, other=%1"
            )
        found[f"mm {dtype}"] = _call(
            "mm", [f"{dtype}[65,33]", f"{dtype}[33,17]"], f"{dtype}[65,17]", "self=%0, mat2=%1"
        )
        found[f"sum {dtype}"] = _call(
            "sum.dim_IntList",
            [f"{dtype}[9,130]"],
            f"{dtype}[9]",
            "self=%0, dim=[1], keepdim=false, dtype=none",
        )
        found[f"amax {dtype}"] = _call(
            "amax", [f"{dtype}[9,130]"], f"{dtype}[130]", "self=%0, dim=[0], keepdim=false"
        )
        found[f"_softmax {dtype}"] = _call(
            "_softmax",
            [f"{dtype}[9,130]"],
            f"{dtype}[9,130]",
            "self=%0, dim=1, half_to_float=false",
        )
        found[f"transpose {dtype}"] = _call(
            "clone",
            [f"{dtype}[6,35]"],
            f"{dtype}[35,6]",
            "self=%1, memory_format=none",
            f"%1 = ftm.view(base=%0, sizes=[35,6], strides=[1,35], offset=0) : {dtype}[35,6]",
        )
    for dtype in INTS:
        for op in _INTEGER:
            found[f"{op} {dtype}"] = _call(
                op, [f"{dtype}[5,33]", f"{dtype}[33]"], f"{dtype}[5,33]", "self=%0, other=%1"
            )
    found["embedding"] = _call(
        "embedding",
        ["f32[2,8]", "i64[3,5]"],
        "f32[3,5,8]",
        "weight=%0, indices=%1, padding_idx=-1, scale_grad_by_freq=false, sparse=false",
    )
    found["cumsum"] = _call("cumsum", ["f32[7,40]"], "f32[7,40]", "self=%0, dim=1, dtype=none")
    found["convolution"] = _call(
        "convolution",
        ["f32[2,3,9,9]", "f32[4,3,3,3]", "f32[4]"],
        "f32[2,4,9,9]",
        "input=%0, weight=%1, bias=%2, stride=[1,1], padding=[1,1], dilation=[1,1], "
        "transposed=false, output_padding=[0,0], groups=1",
    )
    found["sort"] = (
        "trace\n  %0 = param f32[5,40]\n"
        "  %1, %2 = aten::sort(self=%0, dim=1, descending=false) : f32[5,40], i64[5,40]\n"
        "  return %1\n"
    )
    found["rand"] = (
        "trace\n  $0 = scalar i64\n  $1 = scalar i64\n"
        "  %0 = aten::rand(size=[40], dtype=f32, layout=none, device=none, pin_memory=none, "
        "seed=$0, offset=$1) : f32[40]\n  return %0\n"
    )
    return found


def _call(op: str, inputs: list[str], result: str, arguments: str, before: str = "") -> str:
    lines = ["trace", *(f"  %{i} = param {type_}" for i, type_ in enumerate(inputs))]
    if before:
        lines.append(f"  {before}")
    number = len(inputs) + bool(before)
    lines += [f"  %{number} = aten::{op}({arguments}) : {result}", f"  return %{number}"]
    return "\n".join(lines) + "\n"
