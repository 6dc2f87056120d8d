"""The examples train on `ftm` as they do on the CPU, natively, and stop compiling."""

from __future__ import annotations

import pytest
import torch

import ftm_lazy
from e2e.counting import counting_steps, fallbacks

STEPS = 50
TOLERANCE = 1e-3
"""Relative difference of the losses over the first `STEPS` steps."""


def assert_follows(actual: list[float], expected: list[float]) -> None:
    assert len(actual) >= STEPS and len(expected) >= STEPS
    worst = max(abs(a - e) / abs(e) for a, e in zip(actual[:STEPS], expected[:STEPS]))
    assert worst < TOLERANCE, f"losses differ by {worst:.2e}"


def assert_native_and_settled(counters) -> None:
    assert fallbacks(counters.snapshots[-1]) == {}
    assert counters.snapshots[-1]["compile_failures"] == 0
    training = slice(2, 20)
    compiles = [s["compiles"] + s["cache_hits_disk"] for s in counters.snapshots[training]]
    assert compiles[0] == compiles[-1], f"still compiling after the third step: {compiles}"


@pytest.mark.parametrize("model", ["mlp", "cnn"])
def test_digits(model: str) -> None:
    import digits

    options = ["--model", model, "--dropout", "0", "--epochs", "3", "--quiet"]
    expected = digits.train(digits.parse(["--device", "cpu", *options]))
    with counting_steps() as counters:
        actual = digits.train(digits.parse(["--device", "ftm", *options]))
    assert_follows(actual.losses, expected.losses)
    assert_native_and_settled(counters)
    assert counters.grown("executions", 5, 15) == 10, "one program a step"


def test_digits_reaches_its_accuracy() -> None:
    import digits

    history = digits.train(digits.parse(["--device", "ftm", "--quiet"]))
    assert history.accuracies[-1] >= 0.97
    assert fallbacks(ftm_lazy.metrics.counters()) == {}


@pytest.mark.parametrize("first, second", [("ftm", "cpu"), ("cpu", "ftm")])
def test_digits_goes_on_from_the_other_device(tmp_path, first: str, second: str) -> None:
    import digits

    options = ["--dropout", "0", "--quiet", "--checkpoint", str(tmp_path / "digits.pt")]
    digits.train(digits.parse(["--device", first, "--epochs", "1", *options]))
    went_on = digits.train(digits.parse(["--device", second, "--epochs", "2", *options]))
    assert len(went_on.losses) == len(digits.digits()[0]) // 64
    assert went_on.losses[0] < 0.5, "a restart from nothing begins near 2.3"
    assert went_on.accuracies[-1] > 0.9


def test_tiny_gpt() -> None:
    import tiny_gpt

    options = ["--steps", str(STEPS), "--batch-size", "2", "--sample", "8", "--quiet"]
    expected = tiny_gpt.train(tiny_gpt.parse(["--device", "cpu", *options]))
    with counting_steps() as counters:
        actual = tiny_gpt.train(tiny_gpt.parse(["--device", "ftm", *options]))
    assert_follows(actual.losses, expected.losses)
    assert_native_and_settled(counters)
    assert counters.grown("executions", 5, 15) == 10, "one program a step"
    assert actual.text.startswith("def ")
    assert fallbacks(ftm_lazy.metrics.counters()) == {}, "sampling is native too"


def test_xla_style() -> None:
    import digits
    import xla_style

    options = ["--dropout", "0", "--epochs", "3", "--quiet"]
    expected = digits.train(digits.parse(["--device", "cpu", *options]))
    with counting_steps() as counters:
        actual = xla_style.train(xla_style.parse(options))
    assert_follows(actual.losses, expected.losses)
    assert_native_and_settled(counters)


def test_xla_style_checkpoint_is_read_by_the_cpu(tmp_path) -> None:
    import digits
    import xla_style

    path = tmp_path / "model.pt"
    xla_style.train(xla_style.parse(["--epochs", "1", "--quiet", "--checkpoint", str(path)]))
    model = digits.CNN()
    model.load_state_dict(torch.load(path))
    assert all(p.device.type == "cpu" and p.isfinite().all() for p in model.state_dict().values())
