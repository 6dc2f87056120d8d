"""The cost model: its plans fit, explain themselves, and follow the machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ftm_backend.midend.schedule.gemm.schedule import Schedule
from ftm_backend.midend.schedule.gemm.synchronous_search import synchronous_schedule
from ftm_backend.midend.schedule.gemm.tiling_problem import OperandTraffic, TilingProblem, cuts
from ftm_backend.target import presets
from ftm_backend.target.presets import ELEMENT_BYTES, MachineParameters

SHAPES = [
    (1, 1, 1), (7, 5, 3), (64, 10, 128), (64, 128, 784), (256, 256, 256), (1024, 1024, 1024),
    (1, 1000, 1000), (1000, 1, 1000), (65536, 16, 16), (16, 9, 4096),
]  # fmt: skip


def matmul(
    m: int,
    n: int,
    k: int,
    batch: tuple[int, ...] = (),
    trans_a: bool = False,
    trans_b: bool = False,
    dtype: str = "f32",
) -> TilingProblem:
    """A product of row-major matrices."""
    return TilingProblem(
        batch,
        (m,),
        (n,),
        (k,),
        OperandTraffic(dtype, (m, 0) if trans_a else (0, k)),
        OperandTraffic(dtype, (k, 0) if trans_b else (0, n)),
        OperandTraffic(dtype, (0, n)),
        dtype,
    )


def used(chosen: Schedule, problem: TilingProblem) -> tuple[int, int]:
    """Bytes of SM and AM that a plan's tiles take."""
    item = ELEMENT_BYTES[problem.a.dtype]
    k_tiles = chosen.k.blocks
    a, b = (
        chosen.m.elements * chosen.k.elements * item,
        chosen.k.elements * chosen.n.elements * item,
    )
    c = chosen.m.elements * chosen.n.elements * item * (1 + problem.epilogue.tiles)
    outer = k_tiles if chosen.keep_outer else 1
    inner = k_tiles * (chosen.n if chosen.m_outer else chosen.m).blocks if chosen.keep_inner else 1
    return (a * outer, b * inner + c) if chosen.m_outer else (a * inner, b * outer + c)


def plan(problem: TilingProblem, machine: MachineParameters) -> Schedule:
    found = synchronous_schedule(problem, machine)
    assert found is not None
    return found


@pytest.mark.parametrize("preset", presets.NAMES)
@pytest.mark.parametrize("shape", SHAPES)
def test_plans_fit_the_scratchpads(shape: tuple[int, int, int], preset: str) -> None:
    machine = presets.load(preset)
    for problem in (matmul(*shape), matmul(*shape, trans_a=True, trans_b=True, dtype="f64")):
        chosen = plan(problem, machine)
        sm, am = used(chosen, problem)
        assert sm <= machine.sm_bytes and am <= machine.am_bytes
        for cut, extent in zip((chosen.m, chosen.n, chosen.k), shape, strict=True):
            assert cut.size <= extent and cut.blocks == -(-extent // cut.size)


def test_cuts_cover_groups_of_several_dimensions() -> None:
    found = cuts((64, 8, 8), 16, 1024)
    assert {8, 64, 128} <= {cut.elements for cut in found}
    for cut in found:
        inside = 64 if cut.dim == 0 else 8 if cut.dim == 1 else 1
        assert cut.elements == cut.size * inside <= 1024
        assert cut.blocks * cut.elements >= 4096
    assert cuts((), 16, 1024)[0].elements == 1


def test_more_scratchpad_is_never_slower() -> None:
    machine = presets.load("host")
    times = []
    for scale in (1, 2, 4, 8):
        bigger = replace(machine, am_bytes=64 * 1024 * scale, sm_bytes=16 * 1024 * scale)
        times.append(plan(matmul(512, 512, 512), bigger).cycles)
    assert times == sorted(times, reverse=True)


def test_large_products_use_most_of_the_machine() -> None:
    machine = presets.load("host")
    chosen = plan(matmul(1024, 1024, 1024), machine)
    peak = machine.peak_flops("f32", machine.cores) / machine.clock_hz
    assert 2 * 1024**3 / chosen.cycles > 0.8 * peak


def test_small_products_stay_on_one_core() -> None:
    assert plan(matmul(4, 4, 4), presets.load("host")).cores == 1
    assert plan(matmul(1024, 1024, 1024), presets.load("host")).cores > 1


def test_many_batch_entries_are_shared_by_entry() -> None:
    assert plan(matmul(128, 128, 64, batch=(32,)), presets.load("host")).batch_groups > 1


def test_reads_transposed_operands_as_they_lie_when_turning_by_dma_is_dear() -> None:
    machine = replace(presets.load("host"), dma_element_cycles=50.0)
    chosen = plan(matmul(512, 512, 512, trans_a=True, trans_b=True), machine)
    assert chosen.trans_a and chosen.b_layout == "dot"
    assert plan(matmul(512, 512, 512), machine).b_layout == "plain"


def test_few_rows_multiply_a_transposed_operand_as_it_lies() -> None:
    host = presets.load("host")
    few = matmul(host.mm_few_rows, 768, 768, trans_b=True)
    assert plan(few, host).b_layout == "dot"
    assert plan(matmul(256, 768, 768, trans_b=True), host).b_layout == "plain"
    assert plan(few, replace(host, mm_few_rows=0)).b_layout == "plain"


def test_refuses_a_machine_without_room() -> None:
    machine: MachineParameters = replace(presets.load("host"), am_bytes=64, sm_bytes=64)
    assert synchronous_schedule(matmul(64, 64, 64), machine) is None
