"""Pass `split-k`: which products are split, and that results stay right."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ftm_backend.ir.linalg.function import Statement
from ftm_backend.midend.schedule.gemm import panel_search
from ftm_backend.midend.transforms.tensor import split_k as cutting
from ftm_backend.midend.transforms.tensor.split_k import split_k
from ftm_backend.perf_model import cycle_model
from midend.harness import DTYPES
from midend.trace_builder import Program
from midend.trace_programs import M7032, assembly, check, convolution, linalg

TOLERANCE = {"f32": 1e-4, "f64": 1e-11, "f16": 4e-3, "bf16": 3e-2}


@pytest.fixture(autouse=True)
def _whole(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Disable split-k of kernels, so that only the pass splits sums."""
    monkeypatch.setattr(panel_search, "split_plan", lambda *_: None)
    panel_search.panel_schedule.cache_clear()
    yield
    panel_search.panel_schedule.cache_clear()


def product(m: int, n: int, k: int, layout: str = "NN") -> Program:
    """``a @ b``; T: the operand lies transposed."""
    program, operands = Program(), []
    for rows, columns, side in ((m, k, layout[0]), (k, n, layout[1])):
        flat = program.integers(rows * columns)
        steps = [1, rows] if side == "T" else [columns, 1]
        operands.append(program.view(flat, [rows, columns], steps))
    return program.returns(program.call("mm", self=operands[0], mat2=operands[1]))


def weight(
    images: int,
    channels: int,
    filters: int,
    side: int,
    window: int,
    stride: int = 1,
    dtype: str = "f32",
) -> Program:
    """The gradient of a convolution's weight."""
    sizes = (side, side), (window, window)
    where = {"stride": stride, "padding": window // 2}
    return convolution("weight", images, channels, filters, *sizes, dtype, **where)


def parts(program: Program) -> list[int]:
    """Into how many parts the pass cuts each product that it cuts."""
    function = linalg(program)
    before = [item for item in function.body if isinstance(item, Statement)]
    split_k(function, M7032)
    return [
        item.loops[0]
        for item in function.body
        if isinstance(item, Statement) and item not in before and len(item.operands) == 2
    ]


def test_small_results_of_long_sums_are_cut() -> None:
    assert parts(weight(16, 3, 64, 224, 7, 2)) == [8]
    assert parts(weight(16, 64, 64, 56, 3))[0] > 1
    assert parts(weight(16, 64, 128, 56, 1, 2))[0] > 1


def test_other_products_stay_whole() -> None:
    assert not parts(product(1024, 1024, 1024))
    assert not parts(product(4096, 64, 64))
    assert not parts(weight(16, 512, 512, 7, 3))
    assert not parts(product(64, 64, 9973, "TN")), "nothing divides the sum evenly"
    assert not parts(product(33, 90, 24576, "NT")), "DMA takes the same time either way"


PRODUCTS = {"NN": (48, 40, 16384), "TN": (31, 66, 16384), "TT": (64, 31, 16000)}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("layout", PRODUCTS)
def test_products(layout: str, cores: int) -> None:
    program = product(*PRODUCTS[layout], layout)
    assert parts(program)
    check(program, assembly(program), cores, tolerance=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cores", [1, 3, 8])
@pytest.mark.parametrize(
    "shape", [(8, 3, 20, 61, 7, 2), (8, 20, 17, 41, 3, 1), (16, 32, 64, 56, 1, 2)], ids=str
)
def test_gradients_of_weights(shape: tuple[int, ...], cores: int, dtype: str) -> None:
    program = weight(*shape, dtype)
    assert parts(program)
    check(program, assembly(program), cores, tolerance=TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("row", "share"),
    [((16, 3, 64, 224, 7, 2), 2.0), ((16, 64, 64, 56, 3), 1.05), ((16, 64, 128, 56, 1, 2), 1.2)],
)
def test_it_pays(row: tuple[int, ...], share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def modelled() -> float:
        return cycle_model.model(assembly(program), machine="m7032", cores=8).cycles

    program = weight(*row)
    cut = modelled()
    monkeypatch.setattr("ftm_backend.midend.transforms.tensor.split_k._promising", lambda *_: False)
    assert modelled() >= share * cut


@pytest.mark.parametrize(
    "row", [(16, 3, 64, 224, 7, 2), (16, 64, 64, 56, 3), (16, 64, 128, 56, 1, 2)]
)
def test_what_is_planned_is_charged(row: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts of the sum and their adding, within a twentieth."""
    planned: list[float] = []  # of the whole, and then of each cut: adding, the parts
    for name in ("estimate", "_adding"):
        made = getattr(cutting, name)
        monkeypatch.setattr(
            cutting, name, lambda *given, made=made: planned.append(made(*given)) or planned[-1]
        )
    text = assembly(weight(*row))
    cuts = [adding + parts for adding, parts in zip(planned[1::2], planned[2::2], strict=False)]
    charged = cycle_model.model(text, machine="m7032", cores=8).cycles
    assert min(cuts) == pytest.approx(charged, rel=0.05)
