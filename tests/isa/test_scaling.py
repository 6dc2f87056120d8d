"""Communication in the cycle model: costs of collectives, overlap, and what many ranks cost."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ftm_backend.perf_model import cycle_model, data_parallel_scaling
from ftm_backend.perf_model.collective_costs import algorithms, collective_cost
from ftm_backend.target import presets
from ftm_backend.target.presets.fabric import Fabric, FabricLevel
from ftm_backend.tools import ftm_profile

FLAT = replace(
    presets.load("m7032"),
    fabric=Fabric((FabricLevel("switch", 4096, 1e-6, 1e9, 1e9),)),
    ddr_bandwidth=3e30,  # reductions take no time
)


def test_costs_are_those_of_the_formulas() -> None:
    latency, size, rate = 1e-6, 8e6, 1e9
    found = algorithms(FLAT, "ALLREDUCE", size, 8)
    assert found["ring"] == pytest.approx(2 * 7 * (latency + size / 8 / rate))
    assert found["halving"] == pytest.approx(2 * 3 * latency + 2 * 7 / 8 * size / rate)
    assert found["doubling"] == pytest.approx(3 * (latency + size / rate))
    assert found["trees"] == pytest.approx(2 * size / rate, rel=0.2)
    assert "hierarchical" not in found, "there is one level"
    gather = algorithms(FLAT, "ALLGATHER", size, 8)
    assert gather["ring"] == pytest.approx(7 * (latency + size / 8 / rate))


def test_cheapest_algorithm_depends_on_the_size() -> None:
    assert collective_cost(FLAT, "ALLREDUCE", 4, 1024).algorithm == "doubling"
    assert collective_cost(FLAT, "ALLREDUCE", 1e9, 1024).algorithm in ("ring", "halving", "trees")
    assert collective_cost(FLAT, "ALLREDUCE", 1e9, 1).seconds == 0


def test_hierarchical_algorithm_is_the_cheapest_where_links_are_shared() -> None:
    levels = FabricLevel("node", 8, 1e-6, 1e11, 1e11), FabricLevel("rack", 4096, 1e-6, 1e10, 1e10)
    machine = replace(FLAT, fabric=Fabric(levels))
    found = algorithms(machine, "ALLREDUCE", 1e7, 504)
    assert collective_cost(machine, "ALLREDUCE", 1e7, 504).algorithm == "hierarchical"
    # Between nodes, each rank moves an eighth of the data, and the ranks of a node share a link.
    assert found["hierarchical"] == pytest.approx(2 * 1e7 / 1e11 + 2 * 1e7 / 1e10, rel=0.15)


@pytest.mark.parametrize("name", presets.NAMES)
def test_fabrics_are_complete(name: str) -> None:
    machine = presets.load(name)
    levels = machine.fabric.levels
    assert levels[-1].ranks >= 4096
    for below, level in zip((None, *levels), levels, strict=False):
        assert level.latency > 0 and level.bandwidth > 0 and level.uplink > 0
        assert below is None or level.ranks % below.ranks == 0
    times = [collective_cost(machine, "ALLREDUCE", 1e7, 1 << k).seconds for k in range(13)]
    assert times == sorted(times), "more ranks take no less time"


HEAD = """
@program step, m7032
@in b0, f32, 1048576
@scalar s0, i64
@scalar s1, i64
@out o0, f32, 1048576
@out o1, f32, 1048576
"""
COMPUTE = """
@func compute
  @tile X, am, f32, 128x1024, 1, 0
    SMOV 0, r1
  BB_loop:
    @map 128 x 1024 -> X:v0
      VEXP.F32 1.0, v0
    @endmap
    SADD r1, 1, r1
    SLT r1, 20, r2
  [r2] SBR BB_loop
@ret
@func start
  @param x0, f32, out
  @scalar a0, i64
    CSTART.ALLREDUCE.ADD x0[0], 1048576, x0[0], 1048576, a0
@ret
@func wait
  @scalar a0, i64
    CWAIT a0
@ret
"""


def step(body: str) -> cycle_model.CycleProfile:
    return cycle_model.model(HEAD + COMPUTE + "@func main\n" + body + "@ret\n", cores=1)


def times(profile: cycle_model.CycleProfile, rate: float) -> data_parallel_scaling.ScalingRow:
    """Return the row of DDP on two ranks whose link has ``rate`` bytes per second."""
    machine = replace(FLAT, fabric=Fabric((FabricLevel("switch", 2, 1e-9, rate, rate),)))
    return data_parallel_scaling.scaling(profile, machine, [2])[0].rows[0]


def test_communication_overlaps_as_the_program_starts_and_waits() -> None:
    start, wait, compute = "@call start, o0[0], s0\n", "@call wait, s0\n", "@call compute\n"
    overlapped = step(start + compute + wait)
    waiting = step(start + wait + compute)
    seconds = 4 * 1048576 / 1e9
    assert overlapped.seconds == pytest.approx(waiting.seconds)
    fast = 1e9 * 10 * seconds / overlapped.seconds  # takes a tenth of the computation
    hidden, exposed = times(overlapped, fast), times(waiting, fast)
    assert hidden.hidden == 1.0 and hidden.efficiency == pytest.approx(1.0)
    assert exposed.hidden == pytest.approx(0.0, abs=1e-3)
    assert exposed.efficiency == pytest.approx(1 / 1.1, rel=1e-3)
    slow = times(overlapped, fast / 20)  # takes twice the computation
    assert slow.hidden == pytest.approx(0.5, rel=1e-3)


def test_collectives_run_one_after_the_other() -> None:
    both = "@call start, o0[0], s0\n@call start, o1[0], s1\n"
    last = times(step(both + "@call wait, s1\n"), 1e9)
    first = times(step(both + "@call wait, s0\n"), 1e9)
    assert last.communication == pytest.approx(2 * 4 * 1048576 / 1e9, rel=1e-3)
    # A program ends when its collectives have ended.
    assert first.seconds == pytest.approx(last.seconds)


def test_waits_delay_all_cores_by_what_is_left_at_the_barrier() -> None:
    """The other core computes meanwhile, so only the rest of the wait makes the step longer."""
    core_0 = "    SCID r9\n  [r9] SBR BB_1\n@call start, o0[0], s0\n@call wait, s0\n  BB_1:\n"
    other = "    SCID r9\n    SEQ r9, 0, r9\n  [r9] SBR BB_2\n@call compute\n  BB_2:\n    BARRIER\n"
    text = HEAD + COMPUTE + "@func main\n" + core_0 + other + "@ret\n"
    profile = cycle_model.model(text, cores=2)
    assert times(profile, 1e9 * 100).hidden == 1.0
    assert 0 < times(profile, 1e9).hidden < 1


TRACE = """trace
  %0 = param f32[64,512]
  %1 = param f32[512,512]
  %2 = param f32[512,512]
  %3 = param u8[1]
  $0 = scalar i64
  $1 = scalar i64
  $2 = scalar i64
  $3 = scalar i64
  %4 = aten::mm(self=%0, mat2=%1) : f32[64,512]
  %5 = aten::mm(self=%4, mat2=%2) : f32[64,512]
  %6 = ftm.view(base=%4, sizes=[512,64], strides=[1,512], offset=0) : f32[512,64]
  %7 = aten::mm(self=%6, mat2=%5) : f32[512,512]
  %8, %9 = ftm::collective(self=%7, token=%3, kind="allreduce", reduction="add", size=[512,512], call=$0) : f32[512,512], u8[1]
  %10 = ftm.view(base=%2, sizes=[512,512], strides=[1,512], offset=0) : f32[512,512]
  %11 = aten::mm(self=%5, mat2=%10) : f32[64,512]
  %12 = ftm.view(base=%0, sizes=[512,64], strides=[1,512], offset=0) : f32[512,64]
  %13 = aten::mm(self=%12, mat2=%11) : f32[512,512]
  %14, %15 = ftm::collective(self=%13, token=%9, kind="allreduce", reduction="add", size=[512,512], call=$1) : f32[512,512], u8[1]
  %16 = aten::add.Tensor(self=%2, other=%8, alpha=$2) : f32[512,512]
  %17 = aten::add.Tensor(self=%1, other=%14, alpha=$3) : f32[512,512]
  return %16, %17, %15
"""
"""Two layers: forward, the gradients from the last to the first, and their update."""


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "step.trace"
    path.write_text(TRACE)
    return path


def test_tool_models_ddp_and_fsdp2(trace, capsys) -> None:
    assert ftm_profile.main([str(trace), "--machine", "m7032", "--ranks", "100", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["modelled"] is True
    size = 4 * 512 * 512
    assert found["collectives"] == [{"kind": "ALLREDUCE", "bytes": size}] * 2
    ddp, fsdp = found["strategies"]
    assert [row["ranks"] for row in ddp["rows"]] == [2, 4, 8, 16, 32, 64, 100]
    machine = presets.load("m7032")
    for row, sharded in zip(ddp["rows"], fsdp["rows"], strict=True):
        cost = {
            kind: collective_cost(machine, kind, size, row["ranks"]).seconds
            for kind in ("ALLREDUCE", "ALLGATHER", "REDUCESCATTER")
        }
        assert row["communication"] == pytest.approx(2 * cost["ALLREDUCE"])
        # The last layer's parameter is still there in the backward pass, and the first one's is
        # not read: its input needs no gradient.
        assert sharded["communication"] == pytest.approx(
            2 * cost["ALLGATHER"] + 2 * cost["REDUCESCATTER"]
        )
        assert 0 < row["efficiency"] < 1 and 0 <= row["hidden"] < 1
    assert ftm_profile.main([str(trace), "--machine", "m7032", "--ranks", "4096"]) == 0
    shown = capsys.readouterr().out
    assert "modelled on m7032, 8 cores a rank" in shown and "FSDP2:" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ranks", "1"], "--ranks 1: expected a whole number from 2 to"),
        (["--ranks", "4", "--compare-machine", "mt3000"], "--ranks cannot be combined"),
    ],
)
def test_wrong_usage_is_named(trace, arguments, message, capsys) -> None:
    assert ftm_profile.main([str(trace), "--machine", "m7032", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_program_without_collectives_is_refused(tmp_path, capsys) -> None:
    path = tmp_path / "a.lan"
    path.write_text(HEAD + "@func main\n@ret\n")
    assert ftm_profile.main([str(path), "--ranks", "8"]) == 2
    assert "the program has no collectives" in capsys.readouterr().err


def test_where_scaling_stops() -> None:
    def strategy(*efficiencies: float) -> data_parallel_scaling.StrategyScaling:
        rows = [
            data_parallel_scaling.ScalingRow(2 << k, 1.0, 0.0, 1.0, efficiency, "ring")
            for k, efficiency in enumerate(efficiencies)
        ]
        return data_parallel_scaling.StrategyScaling("DDP", tuple(rows))

    good = strategy(0.99, 0.95, 0.91)
    assert (good.efficient_ranks, good.stops_at) == (8, None)
    bad = strategy(0.99, 0.8, 0.5)
    assert (bad.efficient_ranks, bad.stops_at) == (2, 4)
