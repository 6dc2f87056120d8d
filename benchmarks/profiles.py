"""What a profile costs, and how much of the device's time it explains.

    python benchmarks/profiles.py [mlp] [resnet18] [gpt] [bert] [--rounds 40] [--table] [--json]

A row for each model:

- ``overhead``: ratio of a step with `ftm_lazy.profile` to one without. A profile covers five steps.
  Steps with and without take turns, so that they meet the same conditions; the ratio of their
  medians is computed for each turn, and the median of all turns is shown.
- ``error``: standard error of ``overhead``, from the spread of the turns. More turns reduce it.
- ``attributed``: share of the kernels' time whose module and Python line are known.
- ``kernels/run``: time of the kernels by the time in which programs ran.
- ``run/wall``: time in which programs ran by the time of a step that waits for the device.

``--table`` also prints `torch.profiler`'s operations by time on the device, grouped by stack.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from programs.images import resnet18
from programs.language import GPT
from torch import Tensor, nn

import ftm_lazy

STEPS = 5  # of a profile


def mlp_loss() -> tuple[nn.Module, Callable[[], Tensor]]:
    """Return eight wide layers, and their loss."""
    layers = [layer for _ in range(8) for layer in (nn.Linear(512, 512), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Linear(512, 10)).to("ftm")
    x, y = torch.randn(256, 512).to("ftm"), torch.randint(10, (256,)).to("ftm")
    return model, lambda: nn.functional.cross_entropy(model(x), y)


def resnet18_loss() -> tuple[nn.Module, Callable[[], Tensor]]:
    """Return ResNet-18 of Hugging Face, and its loss on 16 images of 3x32x32."""
    model: Any = resnet18().to("ftm")
    x, y = torch.randn(16, 3, 32, 32).to("ftm"), torch.randint(10, (16,)).to("ftm")
    return model, lambda: model(x, labels=y).loss


def gpt_loss() -> tuple[nn.Module, Callable[[], Tensor]]:
    """Return a GPT of 4 layers of 256, and its loss on 4x128 tokens."""
    model = GPT(4, 256, 4, 128).to("ftm")
    tokens = torch.randint(64, (4, 129)).to("ftm")
    return model, lambda: nn.functional.cross_entropy(
        model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()
    )


def bert_loss() -> tuple[nn.Module, Callable[[], Tensor]]:
    """Return a BERT of 4 layers of 256, and its loss on 8 sequences of 64 tokens."""
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4}
    model: Any = BertForSequenceClassification(BertConfig(intermediate_size=1024, **sizes))
    model.to("ftm")
    tokens, y = torch.randint(1000, (8, 64)).to("ftm"), torch.randint(2, (8,)).to("ftm")
    return model, lambda: model(tokens, labels=y).loss


MODELS = {"mlp": mlp_loss, "resnet18": resnet18_loss, "gpt": gpt_loss, "bert": bert_loss}


def trainer(name: str) -> Callable[[], None]:
    """Return a training step that waits for the device."""
    torch.manual_seed(0)
    model, loss = MODELS[name]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        ftm_lazy.sync(wait=True)

    return step


def measure(step: Callable[[], None], rounds: int) -> dict[str, float]:
    """Return the row of one model."""
    for _ in range(3):
        step()
    times: dict[bool, list[float]] = {False: [], True: []}
    profiles: list[ftm_lazy.profiler.Profile] = []
    for number in range(rounds):
        for profiled in (False, True) if number % 2 else (True, False):
            with ftm_lazy.profile() if profiled else nullcontext() as profile:
                times[profiled].append(median_time(step))
            if profile is not None:
                profiles.append(profile)
    pairs = [on / off for off, on in zip(times[False], times[True], strict=True)]
    last = profiles[-1]
    wall = sum(each.wall for profile in profiles for each in profile.steps)
    ran = sum(each.device_time for each in profiles)
    return {
        "step_ms": min(times[False]) * 1e3,
        "overhead": statistics.median(pairs),
        "error": standard_error(pairs),
        "attributed": last.attributed,
        "kernels/run": sum(each.kernel_time for each in profiles) / ran,
        "run/wall": ran / wall,
        "kernels": len(last.events.kernels) / STEPS,
    }


def standard_error(ratios: list[float]) -> float:
    """Return the standard error of the median, which outliers do not change."""
    low, _, high = statistics.quantiles(ratios, n=4)
    deviation = (high - low) / 1.349  # of a normal distribution with these quartiles
    return 1.253 * deviation / len(ratios) ** 0.5


def median_time(step: Callable[[], None]) -> float:
    """Return the median time of several steps, in seconds."""
    times = []
    for _ in range(STEPS):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def operations(step: Callable[[], None]) -> str:
    """Return `torch.profiler`'s table of one step."""
    with torch.profiler.profile(with_stack=True) as profile:
        step()
    averages = profile.key_averages(group_by_stack_n=5)
    return averages.table(sort_by="self_device_time_total", row_limit=10, max_src_column_width=60)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help=", ".join(MODELS))
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    unknown = set(given.models) - MODELS.keys()
    if unknown:
        parser.error(f"there is no model {min(unknown)!r}; the models are {', '.join(MODELS)}")
    for name in given.models or MODELS:
        step = trainer(name)
        row = measure(step, given.rounds)
        if given.json:
            print(json.dumps({"model": name, **row}))
        else:
            print(f"{name:9}", *(f"{key} {value:.4g} " for key, value in row.items()), flush=True)
        if given.table:
            print(operations(step))


if __name__ == "__main__":
    main()
