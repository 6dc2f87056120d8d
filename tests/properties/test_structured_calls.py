"""Ops whose results are known from functions in C++: whatever they are called with, sizes, strides
and errors are the CPU's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

SOURCE = Path(__file__).parents[2] / "csrc" / "shape_inference"
NAMED = re.findall(r"FTM_SHAPE\(\w+, (\w+)\)", (SOURCE / "shape_functions.inc").read_text())
WRITTEN = [
    name
    for path in ("shape_functions.cpp", "layer_shapes.cpp", "loss_shapes.cpp")
    for name in re.findall(
        r"add_(?:shape_function|known_calls)<at::_ops::(\w+)[,>]", (SOURCE / path).read_text()
    )
    if not name.endswith("_out")
    and not re.search(
        "batch_norm|group_norm|smooth_l1|embedding_dense_backward|select_backward|binary_cross_entropy|^normal_",
        name,
    )
]
"""But for those whose arguments must fit each other: the CPU divides by zero in some, or reads
where nothing is; and normal_, which the CPU takes of integers where there are none."""
OVERLOADS = {
    name[6:].replace(".", "_"): name[6:]
    for name in torch._C._dispatch_get_all_op_names()
    if name.startswith("aten::")
}

DTYPES = (
    torch.float32,
    torch.int64,
    torch.bool,
    torch.complex64,
    torch.float16,
    torch.bfloat16,
    torch.uint8,
)
SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((3, 3), (3, 3)),
    ((3, 3), (3, 1)),
    ((4, 3), (2,)),
    ((), ()),
    ((0, 3), (0, 3)),
)
"""Of the first tensor, and of the others; the third pair does not fit, and its numbers are out of
range."""
TYPE_OF_OTHERS, NO_FIT = 1, 2

SKIPPED = {
    "float16": "special_",  # the CPU lacks these kernels for half types, ftm has them
    "bfloat16": "special_",
    # ftm refuses the sum into bools where the CPU only does of several elements
    "bool": "cumsum_ cumprod_",
}


def _argument(kind: str, first: bool, dtype: torch.dtype, variant: int, device: str) -> Any:
    if kind == "Tensor":
        shape = torch.Size(SHAPES[variant][0 if first else 1])
        made = torch.arange(shape.numel()).reshape(shape) % 3
        return made.to(dtype if first or variant != TYPE_OF_OTHERS else torch.int64).to(device)
    if kind == "List[Tensor]":
        return [torch.ones(3, 3, dtype=dtype, device=device)] * 2
    if kind.startswith("Optional"):
        return 1 if kind == "Optional[number]" else None
    given = {
        "number": 2 if variant % 2 else 1.5,
        "int": 5 if variant == NO_FIT else 0,
        "bool": False,
        "float": 0.5,
        "str": "bogus" if variant == NO_FIT else "none",
        "List[int]": [7] if variant == NO_FIT else [1],
        "ScalarType": torch.float32,
    }
    return given[kind]


def _outcome(op: Any, dtype: torch.dtype, variant: int, device: str) -> Any:
    arguments = [a for a in op._schema.arguments if not (a.kwarg_only and a.has_default_value())]
    try:
        given = [
            _argument(str(a.type), k == 0, dtype, variant, device) for k, a in enumerate(arguments)
        ]
        made = op(*given)
    except Exception as error:
        return type(error)
    return [
        (t.dtype, t.shape, t.stride())
        for t in (made if isinstance(made, (tuple, list)) else (made,))
    ]


def test_the_table_names_ops() -> None:
    assert len(NAMED) > 300
    assert set(NAMED) <= set(OVERLOADS)
    assert set(WRITTEN) <= set(OVERLOADS)
    assert not set(NAMED) & set(WRITTEN)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_calls_return_and_raise_as_on_the_cpu(dtype: torch.dtype) -> None:
    skipped = tuple(SKIPPED.get(str(dtype).removeprefix("torch."), "-").split())
    differ, calls = [], 0
    for name in (*NAMED, *WRITTEN):
        if name.startswith(skipped):
            continue
        base, _, overload = OVERLOADS[name].partition(".")
        op = getattr(getattr(torch.ops.aten, base), overload or "default")
        for variant in range(len(SHAPES)):
            wanted, found = (_outcome(op, dtype, variant, device) for device in ("cpu", "ftm"))
            calls += 1
            if found != wanted:
                differ.append((name, variant, wanted, found))
    assert not differ
    assert calls > 1000
