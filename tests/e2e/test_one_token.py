"""Texts of one token among longer ones: they run the programs of these, and give what the CPU
gives."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import ftm_lazy

pytestmark = pytest.mark.usefixtures("empty_caches")

WIDTH, HEADS, WORDS, LONGEST = 32, 4, 50, 32


class _Attention(nn.Module):
    """Self-attention with a cache that is written by hand; ``way``: how."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.outside = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, cache: list[Tensor], at: int, way: str) -> Tensor:
        b, t, _ = x.shape
        q, k, v = (
            part.view(b, t, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.inside(x).chunk(3, -1)
        )
        if way == "cat":
            cache[:] = (
                [torch.cat(pair, 2) for pair in zip(cache, (k, v), strict=True)]
                if cache
                else [k, v]
            )
            k, v = cache
        else:
            if not cache:
                cache[:] = (
                    torch.zeros(b, HEADS, LONGEST, WIDTH // HEADS, device=x.device) for _ in "kv"
                )
            for whole, new in zip(cache, (k, v), strict=True):
                if way == "index":
                    whole[:, :, at : at + t] = new
                else:
                    whole.index_copy_(2, torch.arange(at, at + t, device=x.device), new)
            k, v = (whole[:, :, : at + t] for whole in cache)
        later = torch.ones(t, at + t, dtype=torch.bool, device=x.device).triu(at + 1)
        scores = (q @ k.transpose(-1, -2)).masked_fill(later, -torch.inf)
        return self.outside((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, WIDTH))


class _Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.head = (
            nn.Embedding(WORDS, WIDTH),
            nn.Embedding(LONGEST, WIDTH),
            nn.Linear(WIDTH, WORDS),
        )
        self.layers = nn.ModuleList(_Attention() for _ in range(2))

    @torch.no_grad()
    def generate(self, text: Tensor, count: int, way: str) -> list[int]:
        caches: list[list[Tensor]] = [[] for _ in self.layers]
        made, at = [], 0
        for _ in range(count):
            x = self.words(text) + self.places(
                torch.arange(at, at + text.shape[1], device=text.device)
            )
            for layer, cache in zip(self.layers, caches, strict=True):
                x = x + layer(F.layer_norm(x, (WIDTH,)), cache, at, way)
            at += text.shape[1]
            text = self.head(x[:, -1]).argmax(-1, keepdim=True)
            made.append(int(text.item()))
        return made


@pytest.mark.parametrize("way", ["cat", "index", "index_copy_"])
def test_caches_by_hand_need_three_programs(way: str) -> None:
    """For texts, for the first step behind one where caches are views of a layer's product, and for
    later ones."""
    torch.manual_seed(0)
    model = _Model().eval()
    on_device = copy.deepcopy(model).to("ftm")
    before = ftm_lazy.metrics.counters()["compiles"]
    for length in (5, 9, 3, 1, 2, 12):
        text = torch.randint(0, WORDS, (1, length))
        assert on_device.generate(text.to("ftm"), 6, way) == model.generate(text, 6, way), length
    assert ftm_lazy.metrics.counters()["compiles"] - before <= 3


@pytest.mark.parametrize("kind", ["T5", "GPT2"])
def test_generated_texts_need_three_programs(kind: str) -> None:
    """T5: its encoder, the first step and later ones. GPT-2: texts, texts of one token, which it
    gives no mask, and steps."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if kind == "T5":
        sizes = {
            "d_model": 48, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 3,
            "decoder_start_token_id": 0,
        }  # fmt: skip
        model = transformers.T5ForConditionalGeneration(
            transformers.T5Config(vocab_size=96, eos_token_id=None, **sizes)
        ).eval()
    else:
        sizes = {"n_positions": 64, "n_embd": 48, "n_layer": 1, "n_head": 3, "bos_token_id": 0}
        model = transformers.GPT2LMHeadModel(
            transformers.GPT2Config(vocab_size=96, eos_token_id=None, **sizes)
        ).eval()
    on_device = copy.deepcopy(model).to("ftm")
    before = ftm_lazy.metrics.counters()["compiles"]
    for length, tokens in ((9, 6), (1, 8), (4, 1), (1, 2), (2, 5)):
        text = torch.randint(1, 96, (1, length))
        settings = {
            "max_new_tokens": tokens,
            "min_new_tokens": tokens,
            "do_sample": False,
            "pad_token_id": 0,
        }
        assert (
            on_device.generate(text.to("ftm"), **settings).tolist()
            == model.generate(text, **settings).tolist()
        ), length
    assert ftm_lazy.metrics.counters()["compiles"] - before <= 3
