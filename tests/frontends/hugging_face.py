"""Models of the transformers library, small and from their configurations, through every door,
compared with eager PyTorch.

    python tests/frontends/hugging_face.py [--model bert ...] [--publish]

For each: `torch.compile` as one graph, its result and its gradients; `torch.export` to a package,
which a process without PyTorch runs; `FTMCompiler.validate`, boundary by boundary; TOSA, which
upstream's own path from there computes; text of StableHLO; of both, or the op that stops upstream's
conversion. ``--publish`` writes what docs/frontends.md shows (tests/frontends/hugging_face.json).
The exit code is 1 if a result is wrong, a graph falls back, or a conversion is not as the published
file says.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from torch import nn

from ftm_backend.torch_mlir import execution_engine, export_dialects
from ftm_lazy import FTMCompiler, TorchCompileBackend, metrics, package
from ftm_lazy.frontends.captured_model import capture_model
from ftm_lazy.frontends.numpy_program import NumpyProgram

PUBLISHED = Path(__file__).with_suffix(".json")
RTOL, ATOL = 1e-4, 1e-5
"""Of float32 results, as `FTMCompiler.validate` has them."""

Outcome = dict[str, str]
"""By door: ``right``, or what is not."""


class OneResult(nn.Module):
    """A model of the library called with tensors by position, which gives one tensor."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], result: str) -> None:
        super().__init__()
        self.model, self._names, self._result = model, names, result

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return getattr(self.model(**dict(zip(self._names, tensors, strict=True))), self._result)


def tokens(rows: int = 2, length: int = 12, most: int = 100) -> torch.Tensor:
    """Random rows of a vocabulary."""
    return torch.randint(most, (rows, length))


def bert() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """With a mask that leaves out the end of a row."""
    config = hf.BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=32,
    )
    mask = torch.ones(2, 12, dtype=torch.int64)
    mask[1, 8:] = 0
    return OneResult(hf.BertModel(config), ("input_ids", "attention_mask"), "last_hidden_state"), (
        tokens(),
        mask,
    )


def gpt2() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Language model."""
    config = hf.GPT2Config(
        vocab_size=100, n_positions=32, n_embd=32, n_layer=2, n_head=4, use_cache=False
    )
    return OneResult(hf.GPT2LMHeadModel(config), ("input_ids",), "logits"), (tokens(),)


def llama() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Language model; two heads of keys for four of queries."""
    config = hf.LlamaConfig(
        vocab_size=100,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
        use_cache=False,
    )
    return OneResult(hf.LlamaForCausalLM(config), ("input_ids",), "logits"), (tokens(),)


def vit() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Classifier of images."""
    config = hf.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
        num_labels=5,
    )
    return OneResult(hf.ViTForImageClassification(config), ("pixel_values",), "logits"), (
        torch.randn(2, 3, 32, 32),
    )


def whisper() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Encoder of sound, decoder of tokens."""
    config = hf.WhisperConfig(
        vocab_size=100,
        num_mel_bins=16,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=20,
        max_target_positions=20,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    model = hf.WhisperForConditionalGeneration(config)
    return OneResult(model, ("input_features", "decoder_input_ids"), "logits"), (
        torch.randn(2, 16, 40),
        tokens(),
    )


def t5() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Encoder and decoder of tokens, with relative positions."""
    config = hf.T5Config(
        vocab_size=100,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        use_cache=False,
        decoder_start_token_id=0,
    )
    return OneResult(
        hf.T5ForConditionalGeneration(config), ("input_ids", "decoder_input_ids"), "logits"
    ), (tokens(), tokens(length=7))


def resnet() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Classifier of images, of bottleneck blocks."""
    config = hf.ResNetConfig(embedding_size=8, hidden_sizes=[16, 32], depths=[1, 2], num_labels=5)
    return OneResult(hf.ResNetForImageClassification(config), ("pixel_values",), "logits"), (
        torch.randn(2, 3, 32, 32),
    )


DOORS = ("torch.compile", "package", "validate", "tosa", "stablehlo")
MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    "BERT": bert, "GPT-2": gpt2, "Llama": llama, "ViT": vit, "Whisper": whisper, "T5": t5, "ResNet": resnet}  # fmt: skip


def check(name: str) -> Outcome:
    """Takes one model through all doors."""
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    model = model.eval()
    with torch.no_grad():
        expected = model(*inputs)
    return {
        "torch.compile": said(lambda: by_compile(model, inputs)),
        "package": said(lambda: by_package(model, inputs, expected)),
        "validate": said(lambda: by_validate(model, inputs)),
        "tosa": said(lambda: by_tosa(model, inputs, expected)),
        "stablehlo": said(
            lambda: FTMCompiler().compile_to_mlir(model, *inputs, dialect="stablehlo")
        ),
    }


def said(door: Callable[[], Any]) -> str:
    """``right``, or the first line of what went wrong."""
    try:
        door()
    except (AssertionError, RuntimeError, ValueError) as error:
        return str(error).strip().splitlines()[0]
    return "right"


def by_compile(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    """Result and gradients, from one graph each without a call on the CPU."""

    def results(call: Callable[..., torch.Tensor]) -> dict[str, torch.Tensor]:
        model.zero_grad()
        result = call(*inputs)
        (result * torch.linspace(-1, 1, result.numel()).reshape(result.shape)).sum().backward()
        return {
            "result": result.detach(),
            **{n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None},
        }

    torch._dynamo.reset()
    backend, before = TorchCompileBackend(), metrics.counters()
    expected, found = results(model), results(torch.compile(model, backend=backend, fullgraph=True))
    assert expected.keys() == found.keys(), (
        f"gradients of {sorted(expected.keys() ^ found.keys())} are there once only"
    )
    for name, reference in expected.items():
        # a gradient is a sum of many: its error goes with the largest
        scale = float(reference.abs().max())
        torch.testing.assert_close(
            found[name],
            reference,
            rtol=RTOL,
            atol=max(ATOL, RTOL * scale),
            msg=lambda m, n=name: f"{n}: {m}",
        )
    counted = {
        n: c - before.get(n, 0) for n, c in metrics.counters().items() if n.startswith("fallback::")
    }
    assert not any(counted.values()), f"falls back: {sorted(n for n, c in counted.items() if c)}"
    assert [len(graph.programs) for graph in backend.graphs] == [1, 1], (
        "more than one program for a graph"
    )


_ALONE = """
import sys
import numpy as np
from ftm_backend import runtime
model = runtime.load("model.ftm")
np.save("found.npy", model(*(np.load(f"{i}.npy") for i in range(int(sys.argv[1])))))
assert not {"torch", "torch_mlir", "ftm_lazy"} & set(sys.modules), "the process has PyTorch"
"""


def by_package(model: nn.Module, inputs: tuple[torch.Tensor, ...], expected: torch.Tensor) -> None:
    """In a process that has no PyTorch."""
    with tempfile.TemporaryDirectory() as folder:
        package(torch.export.export(model, inputs), Path(folder) / "model.ftm")
        for i, tensor in enumerate(inputs):
            np.save(Path(folder) / f"{i}.npy", tensor.numpy())
        done = subprocess.run(
            [sys.executable, "-c", _ALONE, str(len(inputs))],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr.strip().splitlines()[-1]
        torch.testing.assert_close(
            torch.from_numpy(np.load(Path(folder) / "found.npy")), expected, rtol=RTOL, atol=ATOL
        )


def by_validate(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    """Every boundary; the torch dialect only where upstream takes it."""
    report = FTMCompiler().validate(model, *inputs, rtol=RTOL, atol=ATOL)
    assert report.agrees, str(report)
    missed = [f"{b.name} not run: {b.why}" for b in report.boundaries if b.agrees is None]
    assert not missed, missed[0]


def by_tosa(model: nn.Module, inputs: tuple[torch.Tensor, ...], expected: torch.Tensor) -> None:
    """By upstream's own path from TOSA to something that runs."""
    program = NumpyProgram(capture_model(model, inputs))
    text = export_dialects.tosa_to_linalg(export_dialects.emit(program.trace, "tosa"))
    torch.testing.assert_close(
        program.nested(execution_engine.run_text(text, program.arrays(inputs)), inputs),
        expected,
        rtol=RTOL,
        atol=ATOL,
    )


def unexpected(name: str, found: Outcome) -> list[str]:
    """Where a model's outcome is not what is published of it."""
    published = json.loads(PUBLISHED.read_text())[name]
    return [
        f"{name}, {door}: {outcome} (published: {published[door]})"
        for door, outcome in found.items()
        if outcome != published[door]
    ]


def table() -> str:
    """What docs/frontends.md shows."""
    published = json.loads(PUBLISHED.read_text())
    rows = [f"| model | {' | '.join(DOORS)} |", "|---" * (1 + len(DOORS)) + "|"]
    rows += [
        f"| {name} | {' | '.join(published[name][door] for door in DOORS)} |" for name in MODELS
    ]
    return "\n".join(rows) + "\n"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, action="append", help="only this one; repeat")
    parser.add_argument("--publish", action="store_true", help=f"write {PUBLISHED.name}")
    given = parser.parse_args()
    outcomes = {}
    for name in given.model or MODELS:
        start = time.perf_counter()
        outcomes[name] = check(name)
        print(f"{name} ({time.perf_counter() - start:.0f} s): {outcomes[name]}", flush=True)
    if given.publish:
        known = json.loads(PUBLISHED.read_text()) if PUBLISHED.exists() else {}
        merged = {**known, **outcomes}
        PUBLISHED.write_text(
            json.dumps({name: merged[name] for name in MODELS if name in merged}, indent=1) + "\n"
        )
    different = [line for name, found in outcomes.items() for line in unexpected(name, found)]
    print("\n".join(different))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
