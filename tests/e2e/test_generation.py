"""Transformers' generation: a token is recorded while the device computes the one before."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from ftm_lazy import _C

PROMPT = torch.tensor([[5, 9, 2], [7, 1, 3]])


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    # Not above: each process of a test run imports this file.
    transformers = pytest.importorskip("transformers")
    utils = pytest.importorskip("transformers.generation.utils")
    if not hasattr(utils, "DeferredStopCheck"):
        pytest.skip("this version cannot defer the decision to stop")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=40, n_positions=64, n_embd=32, n_layer=1, n_head=2, eos_token_id=None
    )
    state = transformers.GPT2LMHeadModel(config).eval().state_dict()
    found = {}
    for device in ("cpu", "ftm"):
        found[device] = transformers.GPT2LMHeadModel(config).eval()
        found[device].load_state_dict(state)
        found[device].to(device)
    return found


def generate(model: Any, **settings: Any) -> Any:
    defaults: dict[str, Any] = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
    return model.generate(PROMPT.to(model.device), **defaults | settings)


@pytest.fixture
def end(models: dict[str, Any]) -> int:
    """A token that ends a text of the CPU's early."""
    return int(generate(models["cpu"], num_return_sequences=1)[0, 6])


class Streamer:
    """Keeps the tokens, and the number of launches before each."""

    def __init__(self) -> None:
        self.tokens: list[Tensor] = []
        self.launches: list[int] = []
        self.ended = False

    def put(self, value: Tensor) -> None:
        assert value.is_cpu
        self.tokens.append(value.clone())
        self.launches.append(_C._counters().get("syncs", 0))

    def end(self) -> None:
        self.ended = True


def test_texts_that_end_are_the_cpus(models: dict[str, Any], end: int) -> None:
    settings = {
        "eos_token_id": end,
        "return_dict_in_generate": True,
        "output_scores": True,
    }
    expected, found = (generate(models[device], **settings) for device in ("cpu", "ftm"))
    assert torch.equal(found.sequences.cpu(), expected.sequences)
    assert len(found.scores) == len(expected.scores)
    for mine, theirs in zip(found.scores, expected.scores, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs, atol=1e-4, rtol=1e-4)
    cache, expected_cache = found.past_key_values, expected.past_key_values
    assert cache.get_seq_length() == expected_cache.get_seq_length(), "the excess is dropped"


def test_a_streamer_gets_each_token_while_the_next_one_runs(
    models: dict[str, Any], end: int
) -> None:
    streamers = {"cpu": Streamer(), "ftm": Streamer()}
    for device, streamer in streamers.items():
        model = models[device]
        model.generate(
            PROMPT[:1].to(device),
            max_new_tokens=12,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=end,
            streamer=streamer,
        )
    mine, theirs = streamers["ftm"], streamers["cpu"]
    assert mine.ended
    assert [t.tolist() for t in mine.tokens] == [t.tolist() for t in theirs.tokens]
    before, *after = mine.launches
    assert after[0] - before >= 2, "the second token was launched before the first one was read"


def test_drawn_texts_and_later_numbers_are_those_of_reading_at_once(
    models: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(eos: int | None) -> tuple[list[list[int]], list[float]]:
        torch.manual_seed(3)
        texts = generate(models["ftm"], do_sample=True, eos_token_id=eos).tolist()
        return texts, torch.rand(3, device="ftm").tolist()

    ended = draw(None)[0][0][5]
    deferred = draw(ended), draw(None)
    stop_check = "transformers.generation.utils.DeferredStopCheck"
    monkeypatch.setattr(f"{stop_check}.is_supported", lambda *_, **__: False)
    assert (draw(ended), draw(None)) == deferred
