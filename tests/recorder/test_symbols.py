"""Which integers of a trace the recorder makes symbols the first time that it is compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ftm_backend.ir.trace.trace import Trace
from ftm_lazy import _C, metrics
from ftm_lazy.compile.compile_client import client
from ftm_lazy.compile.disk_cache import DiskCache

pytestmark = pytest.mark.parametrize("executor", ["machine"], indirect=True)


@pytest.fixture(autouse=True)
def chosen(executor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The traces with symbols that are compiled in a test; "" for one without."""
    monkeypatch.setattr(client(), "_cache", DiskCache(tmp_path, 1 << 30))
    families, found = client()._families, list[str]()
    propose = families.propose

    def noted(trace: Trace, likely: Any = None) -> Any:
        symbols = likely is not None and likely.trace.symbols.declared
        found.append(str(likely.trace) if symbols else "")
        return propose(trace, likely)

    monkeypatch.setattr(families, "propose", noted)
    _C._reset()
    families.clear()
    return found


def launch(x: Tensor) -> Tensor:
    _C._sync(True)
    return x


@pytest.fixture
def rows(chosen: list[str]) -> Tensor:
    """Five rows of eight numbers, from a program whose number of rows is a symbol."""
    with torch.no_grad():
        words = torch.arange(5).reshape(1, 5).to("ftm")
        return launch(F.embedding(words, torch.randn(9, 8).to("ftm")))


def test_sizes_of_integers(rows: Tensor, chosen: list[str]) -> None:
    assert "%1 = param i64[1,{s0}]" in chosen[0] or "%0 = param i64[1,{s0}]" in chosen[0]
    assert "param f32[9,8]" in chosen[0]


@pytest.mark.parametrize(
    ("start", "end", "step"), [(0, 10, 2), (3, 30, 7), (-1, 2, 2), (20, 2, -3), (0.5, 9, 3)]
)
def test_sizes_of_ranges(chosen: list[str], start: float, end: int, step: int) -> None:
    """A range's end is a size and its step is none, even if they are equal."""
    before = metrics.counters()["op_by_op_runs"]
    made = torch.arange(start, end, step, device="ftm")
    assert torch.equal(launch(made).cpu(), torch.arange(start, end, step))
    assert metrics.counters()["op_by_op_runs"] == before
    assert "step={" not in chosen[0]


def test_strides_are_products_of_the_extents_of_the_memory(rows: Tensor, chosen: list[str]) -> None:
    """Two heads, each with half of a row; the program uses two numbers of each."""
    with torch.no_grad():
        launch(rows.view(1, 5, 2, 4).transpose(1, 2)[..., :2] * 2)
    assert "%0 = param f32[{8*s0-2}]" in chosen[-1]
    assert "sizes=[1,2,{s0},2], strides=[{8*s0},4,8,1]" in chosen[-1]


def test_a_cropped_cache_has_a_symbol_for_its_rows_and_one_for_those_of_the_memory(
    rows: Tensor, chosen: list[str]
) -> None:
    with torch.no_grad():
        cache = launch(torch.cat([rows.view(1, 5, 2, 4).transpose(1, 2)] * 2, 2).contiguous())
        launch(cache[:, :, :7] * 2)
    assert "%0 = param f32[{4*s0+s1}]" in chosen[-1]
    assert "sizes=[1,2,{s0},4], strides=[{2*s1},{s1},4,1]" in chosen[-1]


def test_rows_of_a_cache_from_the_cpu_to_which_others_are_appended(chosen: list[str]) -> None:
    cache, new = torch.randn(1, 2, 6, 4).to("ftm"), torch.randn(1, 2, 1, 4).to("ftm")
    with torch.no_grad():
        launch(torch.cat([cache, new], 2))
        assert "param f32[1,2,{s0},4]" in chosen[-1]
        launch(torch.cat([cache[:, :, :5], new], 2))
        assert len(chosen) == 1, "the first program serves cropped caches"
        launch(torch.cat([new, cache[:, :, :5]], 2))
    assert chosen[-1] == ""


def test_a_column_of_integers(chosen: list[str]) -> None:
    launch(torch.arange(15).reshape(3, 5).to("ftm")[:, -1] + 1)
    assert "sizes=[{s1}], strides=[{s0}]" in chosen[-1]


def test_nothing_in_floats_from_the_cpu_and_in_what_trains(chosen: list[str]) -> None:
    x = torch.randn(6, 4).to("ftm")
    launch(x * 2)
    weight = torch.randn(4, 3).to("ftm").requires_grad_()
    launch(F.cross_entropy(x @ weight, torch.arange(6).remainder(3).to("ftm"))).backward()
    assert set(chosen) == {""}


def test_parts_of_different_sizes_where_it_trains(chosen: list[str]) -> None:
    """Two experts may get equally many rows by chance, so each has its own symbol."""
    weight = torch.randn(4, 3).to("ftm").requires_grad_()
    x = launch(torch.randn(13, 4).to("ftm") * 2)
    launch(torch.cat([part @ weight for part in x.split((5, 3, 5))]))
    assert [f"f32[{{s{k}}},4]" in chosen[-1] for k in range(4)] == [True, True, True, False]


def test_sizes_of_what_is_filled_and_offsets_of_writes(chosen: list[str]) -> None:
    with torch.no_grad():
        made = torch.full((11, 9), 2.0, device="ftm")
        made[3] = 1.0
        launch(made)
    assert "aten::full(size=[{s0},{s1}]" in chosen[-1]
    assert "offset={s2}" in chosen[-1]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16])
def test_images_have_one_size(dtype: torch.dtype, chosen: list[str]) -> None:
    with torch.no_grad():
        launch(torch.ones(5, 7, dtype=dtype).to("ftm") + 1)
    assert chosen == [""]
