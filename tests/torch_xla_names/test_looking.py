"""Inspection of a run: metrics in torch_xla's format, profiles, comparisons, program texts."""

from __future__ import annotations

import json
import re

import pytest
import torch

import ftm_lazy.torch_xla as torch_xla
import ftm_lazy.torch_xla.debug.metrics as met
import ftm_lazy.torch_xla.debug.profiler as xp
from ftm_lazy.torch_xla import _XLAC
from ftm_lazy.torch_xla.debug import metrics_compare_utils, model_comparator
from ftm_lazy.torch_xla.utils.utils import get_free_tcp_ports


@pytest.fixture
def report() -> str:
    """Of a step with an upload, two programs (one twice), an operation that falls back, and a
    read."""
    torch_xla.sync(wait=True)
    met.clear_all()
    assert met.counter_names() == [] == met.metric_names()
    for _ in range(2):
        x = (torch.ones(3, 5).to("ftm") * 3).cosh()
        torch_xla.sync(wait=True)
    torch.linalg.eigvals(torch.eye(3, device="ftm")).cpu()
    x.logsumexp(0).prod().item()
    return met.metrics_report()


def test_the_report_has_torch_xlas_names_and_format(report):
    counters = dict(re.findall(r"^Counter: (.*)\n  Value: (\d+)$", report, re.MULTILINE))
    compiled = ["CompileTime"] if "PersistentCacheMiss" in counters else []
    for name in ("ExecuteTime", "TransferToDeviceTime", "TransferFromDeviceTime", *compiled):
        assert re.search(
            rf"^Metric: {name}\n  TotalSamples: (1\n  Accumulator: [\w.]+|\d+\n  Accumulator: [\w.]+\n  ValueRate: [\w.]+ / second\n  Rate: [\w.]+ / second)\n"
            r"  Percentiles: 1%=[\w.]+; 5%=[\w.]+; .*99%=[\w.]+$",
            report,
            re.MULTILINE,
        ), report
    assert counters["MarkStep"] == "2" and int(counters["CachedCompile"]) >= 1
    found = [int(counters.get(f"PersistentCache{what}", 0)) for what in ("Hit", "Miss")]
    assert int(counters["UncachedCompile"]) == sum(found) >= 2
    assert int(counters["CreateXlaTensor"]) >= 3
    assert (counters["xla::cosh"], counters["xla::logsumexp"]) == ("2", "1")
    fallen = [name for name in counters if name.startswith("aten::")]
    assert fallen == met.executed_fallback_ops() == ["aten::_linalg_eigvals"]
    samples, total, points = met.metric_data("ExecuteTime")
    assert samples == len(points) >= 3 and total == pytest.approx(sum(value for _, value in points))
    assert (
        met.counter_value("MarkStep") == 2
        and met.counter_value("NoSuchCounter") is None
        and met.metric_data("NoSuchTime") is None
    )
    short = met.short_metrics_report()
    assert (
        "Counter: MarkStep" in short
        and "Counter: aten::_linalg_eigvals" in short
        and "CreateXlaTensor" not in short
    )
    assert "Metric: ExecuteTime" not in met.short_metrics_report(["MarkStep"], ["CompileTime"])


def test_calls_in_place_count_as_the_operation_that_computes_the_value():
    x = torch.ones(3, device="ftm")
    met.clear_counters()
    x.add_(x)
    (x + x).add(1)
    assert met.counter_value("xla::add") == 3 and met.counter_value("xla::mul") is None
    torch_xla.sync()
    assert met.counter_value("xla::add") == 3


def test_reports_are_read_and_compared(report):
    parsed = metrics_compare_utils.parse_metrics_report(report)
    assert parsed["MarkStep__Value"] == 2 and parsed["ExecuteTime__TotalSamples"] >= 3
    points = metrics_compare_utils.get_data_points_from_metrics_reports([report, report])
    config = {"base_expression": "v <= v_mean + (v_stddev * 2)"}
    assert metrics_compare_utils.compare_metrics(points, report, config) == ""


def test_the_texts_of_a_program():
    x = torch.ones(3, device="ftm") * 2
    assert "aten::mul" in _XLAC._get_xla_tensors_text(
        [x]
    ) and "func.func @main" in _XLAC._get_xla_tensors_hlo([x])
    assert (
        _XLAC._get_xla_tensors_dot([x]).startswith("digraph")
        and _XLAC._xla_get_default_device() == "ftm:0"
    )
    x = torch.ones(3, 3).to("ftm")
    torch_xla.sync()
    assert "stablehlo.dot_general" in torch_xla.core.xla_model.get_stablehlo([x @ x])
    with pytest.raises(NotImplementedError, match="torch-mlir does not convert this to StableHLO"):
        torch_xla.core.xla_model.get_stablehlo([torch.ones(3, device="ftm") * 2])


# --- profiles
# -----------------------------------------------------------------------------------------------


def names_in(profile) -> set[str]:
    return {event.get("name", "") for event in json.loads(profile)["traceEvents"]}


def test_a_profile_has_the_steps_and_their_parts(tmp_path):
    xp.start_trace(tmp_path)
    with pytest.raises(RuntimeError, match="Only one profile"):
        xp.start_trace(tmp_path)
    steps = met.counter_value("MarkStep") or 0
    for number in range(2):
        with xp.StepTrace("train", step_num=number), xp.Trace("forward"):
            torch.ones(3, device="ftm") * 2
    xp.trace_me("named")(lambda: None)()
    xp.stop_trace()
    assert met.counter_value("MarkStep") == steps + 2  # a StepTrace ends its step
    with pytest.raises(RuntimeError, match="No profile"):
        xp.stop_trace()
    (file,) = tmp_path.glob("plugins/profile/*/*.trace.json")
    names = names_in(file.read_text())
    assert {"train#step_num=0#", "train#step_num=1#", "forward", "named"} <= names
    xp.set_tracer_marked_step(False)


def test_a_profile_from_outside(tmp_path):
    (port,) = get_free_tcp_ports()
    server = xp.start_server(port)
    with pytest.raises(RuntimeError, match="cannot listen on port"):
        xp.start_server(port)
    xp.trace(f"localhost:{port}", str(tmp_path), duration_ms=50)
    (file,) = tmp_path.glob("plugins/profile/*/*.trace.json")
    assert "traceEvents" in json.loads(file.read_text())
    del server
    (other,) = get_free_tcp_ports()
    with pytest.raises(RuntimeError, match="no profiler server answers"):
        xp.trace(f"localhost:{other}", str(tmp_path), num_tracing_attempts=1)


# --- comparisons
# --------------------------------------------------------------------------------------------


def test_two_runs_of_a_model_are_compared(tmp_path):
    for name, device, off in (("first", "ftm", 0.0), ("second", "cpu", 0.0), ("third", "ftm", 0.5)):
        (tmp_path / name).mkdir()
        model_comparator.configure(str(tmp_path / name))
        for step in range(2):
            model_comparator.save("output", torch.ones(2, device=device) * (step + off), step=step)
    model_comparator.configure(None)
    assert model_comparator.compare(str(tmp_path / "first"), str(tmp_path / "second")) == ""
    assert "at step=1" in model_comparator.compare(str(tmp_path / "first"), str(tmp_path / "third"))
