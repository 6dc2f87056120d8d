"""Tokens from models of the transformers library by its ``generate()``: ways to search, kinds of
caches, lengths of prompts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["PROGRAMS"]

LENGTHS = (5, 9, 14)


def gpt2(layers: int = 2) -> Any:
    """A small GPT-2."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=128,
            n_positions=128,
            n_embd=64,
            n_layer=layers,
            n_head=4,
            bos_token_id=0,
            eos_token_id=None,
        )
    )


def llama() -> Any:
    """A small Llama."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=128,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=128,
            bos_token_id=0,
            eos_token_id=None,
        )
    )


def t5() -> Any:
    """A small T5."""
    from transformers import T5Config, T5ForConditionalGeneration

    return T5ForConditionalGeneration(
        T5Config(
            vocab_size=128,
            d_model=64,
            d_kv=16,
            d_ff=128,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
            eos_token_id=None,
        )
    )


def whisper() -> Any:
    """A small Whisper."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    return WhisperForConditionalGeneration(
        WhisperConfig(
            vocab_size=128,
            num_mel_bins=8,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            d_model=64,
            encoder_ffn_dim=128,
            decoder_ffn_dim=128,
            max_source_positions=20,
            max_target_positions=64,
            decoder_start_token_id=0,
            pad_token_id=0,
            bos_token_id=0,
            eos_token_id=None,
            begin_suppress_tokens=None,
        )
    )


def generated(
    make: Callable[[], Any], tokens: int = 40, assisted: bool = False, **settings: Any
) -> Callable[[str], Callable[[], Tensor]]:
    """``tokens`` new ones for a prompt of each length."""

    def program(device: str) -> Callable[[], Tensor]:
        model = make().to(device).eval()
        speech = model.config.model_type == "whisper"
        given: dict[str, Any] = {"assistant_model": gpt2(1).to(device).eval()} if assisted else {}
        prompts = [
            torch.randn(1, 8, 40) if speech else torch.randint(1, 128, (1, n)) for n in LENGTHS
        ]

        def run() -> Tensor:
            made = [
                model.generate(
                    prompt.to(device),
                    max_new_tokens=tokens,
                    min_new_tokens=tokens,
                    **given,
                    **settings,
                )
                for prompt in prompts
            ]
            # there, so that what is compiled is generate()'s
            return torch.stack([one.cpu().float().sum() for one in made])

        return run

    return program


PROGRAMS = {
    "gpt2_greedy": generated(gpt2, do_sample=False),
    "gpt2_sample": generated(gpt2, do_sample=True),
    "gpt2_beam": generated(gpt2, do_sample=False, num_beams=3),
    "gpt2_assisted": generated(gpt2, assisted=True, do_sample=False),
    "llama_greedy": generated(llama, do_sample=False),
    "llama_static": generated(llama, do_sample=False, cache_implementation="static"),
    "t5_greedy": generated(t5, do_sample=False),
    "whisper_greedy": generated(whisper, do_sample=False),
}
