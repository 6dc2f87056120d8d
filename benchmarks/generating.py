"""Compiles of transformers' `generate()`, over lengths of prompts, batches and outputs.

    python benchmarks/generating.py [--only gpt2_greedy ...] [--prompts 17 40 3 2 1]
        [--new 60 5 2 1] [--batches 1 3] [--json]

Each model and search method runs all combinations in a separate process, from an empty cache. In a
batch all texts but the first are padded from the left. Printed are the compiles, the
specializations of dynamic-shape programs, and the number of results that differ from the CPU's.
Sampling is not compared, since random numbers are drawn on the device.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
from programs.generation import gpt2, llama, t5, whisper

MODELS: dict[str, Callable[[], Any]] = {"gpt2": gpt2, "llama": llama, "t5": t5, "whisper": whisper}
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sample": {"do_sample": True},
    "beam": {"do_sample": False, "num_beams": 3},
    "static": {"do_sample": False, "cache_implementation": "static"},
    "assisted": {"do_sample": False},
}
LONGEST = 62
"""Maximum number of positions of the models."""


def texts(
    speech: bool, assisted: bool, batch: int, length: int, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """Return the arguments of generate().

    For speech, the text before it is the decoder's input; with an assistant the library accepts it
    only as a prompt.
    """
    tokens = torch.randint(1, 128, (batch, length), generator=generator)
    if speech:
        before = {"prompt_ids": tokens[0]} if assisted else {"decoder_input_ids": tokens}
        return {"input_features": torch.randn(batch, 8, 40, generator=generator), **before}
    mask = torch.ones(batch, length, dtype=torch.long)
    for row in range(1, batch):
        mask[row, : min(row, length - 1)] = 0
    return {"input_ids": tokens, "attention_mask": mask}


def measure(name: str, prompts: list[int], new: list[int], batches: list[int]) -> dict[str, int]:
    """Run one model with one search method in this process, and return the counters."""
    import ftm_lazy

    kind, _, way = name.partition("_")
    torch.manual_seed(0)
    models = {"cpu": MODELS[kind]().eval()}
    given: dict[str, dict[str, Any]] = {device: dict(WAYS[way]) for device in ("cpu", "ftm")}
    if way == "assisted":
        assistant = MODELS[kind]().eval()
        given = {
            "cpu": given["cpu"] | {"assistant_model": assistant},
            "ftm": given["ftm"] | {"assistant_model": copy.deepcopy(assistant).to("ftm")},
        }
    models["ftm"] = copy.deepcopy(models["cpu"]).to("ftm")
    torch.zeros(1, device="ftm").item()  # copies the parameters
    ftm_lazy.metrics.reset()
    generator, wrong = torch.Generator().manual_seed(0), 0

    def made(device: str, inputs: dict[str, torch.Tensor], count: int) -> Any:
        there = {key: value.to(device) for key, value in inputs.items()}
        settings = {"max_new_tokens": count, "min_new_tokens": count, "pad_token_id": 0}
        return models[device].generate(**there, **settings, **given[device]).tolist()

    for batch, length, count in combinations(way, prompts, new, batches):
        inputs = texts(kind == "whisper", way == "assisted", batch, length, generator)
        found = made("ftm", inputs, min(count, LONGEST - length) if kind == "whisper" else count)
        if way != "sample":
            wrong += found != made(
                "cpu", inputs, min(count, LONGEST - length) if kind == "whisper" else count
            )
    counted = ftm_lazy.metrics.counters()
    return {key: counted[key] for key in ("compiles", "instances", "executions")} | {"wrong": wrong}


def combinations(
    way: str, prompts: list[int], new: list[int], batches: list[int]
) -> Iterator[tuple[int, int, int]]:
    """Return (batch, prompt length, new tokens); the library assists single texts only."""
    return product([batch for batch in batches if batch == 1 or way != "assisted"], prompts, new)


def main() -> None:
    """Run the benchmark."""
    names = [f"{kind}_{way}" for kind in MODELS for way in WAYS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="*", choices=names, default=names, metavar="PROGRAM", help=", ".join(names)
    )
    parser.add_argument("--prompts", nargs="*", type=int, default=[17, 40, 3, 2, 1])
    parser.add_argument("--new", nargs="*", type=int, default=[60, 5, 2, 1])
    parser.add_argument("--batches", nargs="*", type=int, default=[1, 3])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.prompts, options.new, options.batches)))
        return
    lengths = [
        word
        for key in ("prompts", "new", "batches")
        for word in (f"--{key}", *map(str, getattr(options, key)))
    ]
    heads = ("compiles", "instances", "executions", "wrong")
    if not options.json:
        print(f"{'program':20}" + "".join(f"{head:>12}" for head in heads))
    for name in options.only:
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, __file__, "--measure", name, *lengths]
            done = subprocess.run(
                command,
                env=os.environ | {"FTM_CACHE_DIR": cache},
                capture_output=True,
                text=True,
                check=False,
            )
        row = (
            json.loads(done.stdout.splitlines()[-1])
            if done.returncode == 0
            else {"failed": done.stderr.strip().splitlines()[-1]}
        )
        if options.json:
            print(json.dumps({"program": name} | row), flush=True)
        else:
            print(
                f"{name:20}" + (row.get("failed") or "".join(f"{row[head]:>12}" for head in heads)),
                flush=True,
            )


if __name__ == "__main__":
    main()
