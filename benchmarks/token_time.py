"""Time of one token in greedy generation, compared with eager PyTorch on the CPU.

    python benchmarks/token_time.py [--only llama] [--dtypes float32 bfloat16] [--tokens 32]
        [--rounds 5] [--json]

Batch 1, with a cache of keys and values. The devices take turns within one run, because timings of
one machine drift. Printed are the minimum over the rounds, in milliseconds per token; of ftm's, the
time that the device was idle; and tokens per second. Weights are random.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import torch

import ftm_lazy

PROMPT = 16


def gpt2() -> Any:
    """Create a GPT-2 of 124 million parameters."""
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(n_positions=256, bos_token_id=0, eos_token_id=None))


def llama() -> Any:
    """Create a Llama with eight layers of width 512."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {
        "hidden_size": 512,
        "intermediate_size": 1376,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "max_position_embeddings": 256,
    }
    return LlamaForCausalLM(LlamaConfig(**sizes, bos_token_id=0, eos_token_id=None))


MODELS: dict[str, Callable[[], Any]] = {"gpt2": gpt2, "llama": llama}


def generation(name: str, dtype: torch.dtype, device: str, tokens: int) -> Callable[[], object]:
    """Return a function that generates `tokens` tokens."""
    torch.manual_seed(0)
    model = MODELS[name]().eval().to(dtype).to(device)
    prompt = torch.randint(1, 1000, (1, PROMPT), generator=torch.Generator().manual_seed(0))
    settings = {"min_new_tokens": tokens, "max_new_tokens": tokens, "do_sample": False}

    def run() -> object:
        return model.generate(prompt.to(device), pad_token_id=0, **settings).tolist()

    return run


def measure(name: str, dtype: torch.dtype, tokens: int, rounds: int) -> dict[str, float]:
    """Return the milliseconds per token on each device, and of ftm's device idle."""
    runs = {device: generation(name, dtype, device, tokens) for device in ("cpu", "ftm")}
    for _ in range(2):
        runs["ftm"]()
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for device, run in runs.items():
            start = time.perf_counter()
            run()
            best[device] = min(best[device], (time.perf_counter() - start) / tokens)
    with ftm_lazy.profile() as profile:
        runs["ftm"]()
    idle = sum(step.idle for step in profile.steps) / tokens / 1e6
    return {"eager": best["cpu"] * 1e3, "ftm": best["ftm"] * 1e3, "idle": idle}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=sorted(MODELS), help="measure one model")
    parser.add_argument("--dtypes", nargs="*", default=["float32", "bfloat16"])
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.json:
        print(
            f"{'ms per token':<18}{'eager':>10}{'ftm':>10}{'idle':>8}{'ratio':>8}{'tokens/s':>10}"
        )
    for name in [options.only] if options.only else list(MODELS):
        for dtype in options.dtypes:
            row = measure(name, getattr(torch, dtype), options.tokens, options.rounds)
            if options.json:
                print(json.dumps({"model": name, "dtype": dtype} | row), flush=True)
                continue
            print(
                f"{name + ' ' + dtype:<18}{row['eager']:10.2f}{row['ftm']:10.2f}{row['idle']:8.2f}"
                f"{row['eager'] / row['ftm']:8.2f}{1e3 / row['ftm']:10.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
