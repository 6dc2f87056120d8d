"""The fusion cache: cached answers for equal statements form the same kernels."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.lru import LRUCache
from ftm_backend.midend.transforms.fusion import fusion_cache
from midend.test_outline_kernels import STEPS
from ops import capture


def attention(x: torch.Tensor, *weights: torch.Tensor) -> list[torch.Tensor]:
    """Layers of an attention, and an optimizer's step for their weights."""
    made = []
    for k, w in enumerate(weights):
        q, k_, v = (F.layer_norm(x, x.shape[-1:]) @ w).view(16, 3, 4, 8).permute(1, 2, 0, 3)
        x = x + ((q @ k_.transpose(1, 2)).softmax(-1) @ v).transpose(0, 1).reshape(16, 32)
        made.append(w - 0.1 * (x.t() @ x.repeat(1, 3)) / (w * w + k).sqrt())
    return [x, *made]


def alternating(x: torch.Tensor, *weights: torch.Tensor) -> list[torch.Tensor]:
    """Layers that differ only in the readers of their results, which decide about stores."""
    read = []
    for k, w in enumerate(weights):
        y = (x @ w).tanh()
        z = y.exp()
        x = z / z.sum(1, keepdim=True)
        read += [y, z.sum(0)][: k % 3]
    return [x, *read]


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = STEPS | {
    "attention": (attention, (torch.randn(16, 32), *(torch.randn(32, 96) for _ in range(4)))),
    "alternating": (alternating, (torch.randn(64, 64), *(torch.randn(64, 64) for _ in range(7)))),
}


def grouped(trace: str, machine: str) -> str:
    text = driver.run_from(
        "trace", trace, "defer-input-overwrites", CompileOptions(machine=machine, cores=2)
    )
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize("machine", ["host", "m7032"])
def test_known_answers_give_the_same_kernels(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    traces = {
        name: str(capture.function(step, *tensors).trace)
        for name, (step, tensors) in PROGRAMS.items()
    }
    driver.forget()
    after_others = [grouped(trace, machine) for trace in traces.values()]
    again = [grouped(trace, machine) for trace in traces.values()]
    monkeypatch.setattr(fusion_cache, "_RESULTS", LRUCache(0))
    alone = [grouped(trace, machine) for trace in traces.values()]
    assert after_others == alone
    assert again == alone


def test_equal_layers_ask_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Hashable] = []
    ask = fusion_cache.FusionCache.get_or_compute

    def noted(
        self: fusion_cache.FusionCache, question: Hashable, find: Callable[[], bool]
    ) -> tuple[bool, int]:
        return ask(self, question, lambda: found.append(question) or find())

    monkeypatch.setattr(fusion_cache.FusionCache, "get_or_compute", noted)
    step, (x, w, *_) = PROGRAMS["layers"]
    counts = []
    for layers in (3, 9):
        driver.forget()
        found.clear()
        grouped(str(capture.function(step, x, *[w] * layers).trace), "host")
        counts.append(len(found))
    assert counts[0] == counts[1]
