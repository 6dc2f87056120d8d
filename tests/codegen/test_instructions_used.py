"""Compiled programs write every instruction of the table, in every form: what no program needs is
not in the machine.

The programs are those of ``tests/golden`` and the small ones below, each compiled for the host and
for FT-m7032.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.target.instruction_table import BY_NAME, INSTRUCTIONS
from ftm_backend.target.instructions.collective import COLLECTIVE_KINDS
from ops import capture

GOLDEN = Path(__file__).parents[1] / "golden"
MACHINES = ("host", "m7032")
FUNCTIONS = (
    "exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc floor "
    "ceil round trunc neg abs isnan"
).split()

_LINE = re.compile(r"\s*(?:\[!?r\d+\] )?(@?[A-Za-z]\w*)((?:\.[A-Z]\w*)*)(?=\s|$)")


def written(assembly: str) -> set[str]:
    """What the lines of a program name: mnemonics, and mnemonics with one of their suffixes
    (``MM``, ``MM.TA``)."""
    found: set[str] = set()
    for line in assembly.splitlines():
        if (match := _LINE.match(line)) and match[1] in BY_NAME:
            found |= {match[1], *(f"{match[1]}.{suffix}" for suffix in match[2].split(".")[1:])}
    return found


def tensors(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    return [torch.randn(shape) for shape in shapes]


def functions(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    two = (
        torch.atan2, torch.pow, torch.copysign, torch.fmod, torch.minimum, torch.maximum,
        torch.fmin, torch.fmax, torch.nextafter,
    )  # fmt: skip
    order = (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge)
    return (
        *(getattr(torch, name)(x) for name in FUNCTIONS),
        *(f(x, y) for f in (*two, *order)),
        torch.where(x < y, x / y, x - y),
        torch.addcmul(x, x, y),
        F.dropout(x, 0.5, True),
    )


def integers(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return a & b, a | b, a ^ b, a << b, a >> b, a // b, a % b, a.to(torch.float32)


def scans(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.cumsum(0), x.cumprod(1), x.cummax(1)[0], x.cummin(0)[0], x.logcumsumexp(1)


def rows(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
    wide = i[:, None].expand(v.shape)
    combined = (x.scatter_reduce(0, wide, v, reduce) for reduce in ("sum", "prod", "amin", "amax"))
    return x[i], x.index_add(0, i, v), x.index_copy(0, i, v), x.gather(1, i[:, None] % 3), *combined


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], list[torch.Tensor]]]] = {
    "functions": (functions, lambda: tensors((5,), (5,))),
    "integers": (integers, lambda: [torch.arange(1, 6), torch.arange(1, 6)]),
    "scans": (scans, lambda: tensors((5, 7))),
    "long scans": (lambda x: x.cumsum(0), lambda: tensors((500, 64))),
    "sorts": (lambda x: (x.sort(1), x.topk(3, 1)), lambda: tensors((5, 70))),
    "long sorts": (lambda x: x.sort(0), lambda: tensors((200_000,))),
    "rows": (rows, lambda: [*tensors((9, 3)), torch.tensor([1, 2, 3, 5]), *tensors((4, 3))]),
    "products": (
        lambda x, y, z: (x @ y.t(), x.t() @ z, x @ x.t()),
        lambda: tensors((60, 70), (50, 70), (60, 40)),
    ),
    "products of doubles": (
        lambda x, y: x @ y.t(),
        lambda: [x.double() for x in tensors((60, 70), (50, 70))],
    ),
    "convolutions": (
        lambda x, w: F.conv2d(x, w, stride=2, padding=1),
        lambda: tensors((2, 3, 16, 16), (8, 3, 3, 3)),
    ),
    "convolutions of many channels": (
        lambda x, w: F.conv2d(x, w, padding=1),
        lambda: tensors((2, 32, 28, 28), (16, 32, 3, 3)),
    ),
    "gradients of convolutions": (
        lambda gradient, x, weight: torch.ops.aten.convolution_backward(
            gradient,
            x,
            weight,
            None,
            [2, 2],
            [1, 1],
            [1, 1],
            False,
            [0, 0],
            2,
            [True, False, False],
        )[0],
        lambda: tensors((2, 16, 14, 14), (2, 32, 28, 28), (16, 16, 3, 3)),
    ),
    "poolings": (lambda x: F.max_pool2d(x, 3, 2, 1), lambda: tensors((2, 3, 16, 16))),
}

LINALG = """
#id = affine_map<(d0) -> (d0)>
func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xi1>) {
  %0 = tensor.empty() : tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%0 : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.cbrt %a : f32
    linalg.yield %r : f32
  } -> tensor<8xf32>
  %2 = tensor.empty() : tensor<8xi1>
  %3 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
    ins(%x, %y : tensor<8xf32>, tensor<8xf32>) outs(%2 : tensor<8xi1>) {
  ^bb0(%a: f32, %b: f32, %o: i1):
    %r = arith.cmpf ult, %a, %b : f32
    linalg.yield %r : i1
  } -> tensor<8xi1>
  return %1, %3 : tensor<8xf32>, tensor<8xi1>
}
"""
"""What other front ends leave: PyTorch has no cube root, and its comparisons are ordered ones."""


COLLECTIVE = """
func.func @main(%x: tensor<8xf32>, %call: i64) -> tensor<8xf32> {{
  %0 = "ftm.collective_start"(%x, %call) {{kind = "{}", reduction = "{}"}} : (tensor<8xf32>, i64) -> tensor<8xf32>
  %1 = "ftm.collective_wait"(%0, %call) : (tensor<8xf32>, i64) -> tensor<8xf32>
  %2 = tensor.empty() : tensor<8xf32>
  %3 = linalg.copy ins(%1 : tensor<8xf32>) outs(%2 : tensor<8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}}
"""
"""What the recorder leaves of a collective of `torch.distributed`."""
KINDS = tuple(kind.lower() for kind in COLLECTIVE_KINDS)
REDUCTIONS = ("add", "mul", "min", "max", "avg")


def compiled() -> Iterator[str]:
    """The assembly of all programs."""
    torch.manual_seed(0)
    for path in GOLDEN.glob("*.stages"):
        yield path.read_text().rpartition("## emit-assembly")[2]
    for machine in MACHINES:
        options = CompileOptions(machine=machine)
        for function, arguments in PROGRAMS.values():
            yield driver.compile(str(capture.function(function, *arguments()).trace), options).asm
        collectives = [("allreduce", word) for word in REDUCTIONS] + [(kind, "") for kind in KINDS]
        for text in (LINALG, *(COLLECTIVE.format(*words) for words in collectives)):
            yield str(driver.run_from("linalg", text, "asm", options))


@pytest.fixture(scope="module")
def found() -> set[str]:
    return set().union(*(written(assembly) for assembly in compiled()))


def forms() -> list[str]:
    """Every instruction of the table, and each with each of its suffixes."""
    listed = []
    for row in INSTRUCTIONS:
        choices = [
            suffix
            for entry in row.suffixes
            for suffix in ((entry,) if isinstance(entry, str) else entry)
        ]
        listed += [row.name, *(f"{row.name}.{suffix}" for suffix in choices)]
    return listed


@pytest.mark.parametrize("form", forms())
def test_compiled_programs_write(form: str, found: set[str]) -> None:
    assert form in found


def test_what_is_read_of_a_program() -> None:
    assert written("  [!r2] MM.TA.ACC T0[r1], T1, T2\n  @tile T0, am, f32, 1x1\n    VNOT.B1 v0, v1\nLOOP_main_0: 1, 2\n@ret") == {
        "MM", "MM.TA", "MM.ACC", "VNOT", "VNOT.B1", "@ret",
    }  # fmt: skip
