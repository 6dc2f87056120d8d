"""Modulo schedules of maps: no unit is taken twice, no value is read before it is written, and
registers are counted right."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ftm_backend.assembler.image_writer import assemble
from ftm_backend.perf_model import modulo_scheduler
from ftm_backend.perf_model.image_decoder import DecodedImage
from ftm_backend.perf_model.modulo_scheduler import PipelinedLoop, ScheduledOp, fastest, schedule
from ftm_backend.target import op_costs, presets
from ftm_backend.target.element_types import BY_SUFFIX
from ftm_backend.target.instruction import SAME, InstructionDef
from ftm_backend.target.instruction_table import INSTRUCTIONS

M7032 = presets.load("m7032")
UNITS = {"VMAC": M7032.fma_units, "VIEU": 1, "VLDST": M7032.vector_memory_ports, "VMAC1": 1}
LATENCY = {"VMAC": 6, "VIEU": 1, "VLDST": 9, "VMAC1": 3}


@st.composite
def loops(draw: st.DrawFn) -> PipelinedLoop:
    count = draw(st.integers(1, 60))
    invariants = draw(st.integers(0, 30))
    steps = []
    for number in range(count):
        unit = draw(st.sampled_from(sorted(UNITS)))
        sources = (
            draw(st.lists(st.integers(-invariants, number - 1), max_size=3))
            if number + invariants
            else []
        )
        steps.append(ScheduledOp(((unit, 1),), LATENCY[unit], tuple(sources)))
    return PipelinedLoop(tuple(steps), (1,) * invariants)


@settings(max_examples=150, deadline=None)
@given(loops())
def test_a_schedule_can_run(loop: PipelinedLoop) -> None:
    interval, times = modulo_scheduler._placed(M7032, loop.steps, 1)
    taken: dict[tuple[str, int], int] = {}
    for step, issued in zip(loop.steps, times, strict=True):
        for source in step.sources:
            assert source < 0 or times[source] + loop.steps[source].latency <= issued
        for unit in {step.slots[0][0], "VMAC" if step.slots[0][0] == "VMAC1" else step.slots[0][0]}:
            taken[unit, issued % interval] = taken.get((unit, issued % interval), 0) + 1
    assert all(number <= UNITS[unit] for (unit, _), number in taken.items())
    # As many turns as are in flight at once, one by one: what is alive in the cycles of the last of
    # them.
    needed, _ = modulo_scheduler._registers(loop, interval, times)
    turns = 2 - min(times) // interval
    alive = dict.fromkeys(range(interval), 0)
    for turn in range(-turns, turns + 1):
        for number, step in enumerate(loop.steps):
            reads = [
                times[reader] for reader, other in enumerate(loop.steps) if number in other.sources
            ]
            for cycle in range(times[number] + step.latency, max(reads) + 1) if reads else ():
                if 0 <= cycle + turn * interval < interval:
                    alive[cycle + turn * interval] += 1
    assert needed == max(alive.values()) + len(loop.invariants)


@settings(max_examples=100, deadline=None)
@given(loops(), st.integers(2, 40))
def test_fewer_registers_cost_time_and_are_kept_to(loop: PipelinedLoop, registers: int) -> None:
    few = schedule(replace(M7032, vector_registers=registers), loop)
    many = schedule(replace(M7032, vector_registers=10_000), loop)
    assert few.registers <= registers
    assert many.spilled == 0
    assert few.interval >= max(1.0, fastest(M7032, loop.steps)) - 1e-9


def scheduled(
    header: str, body: str, machine: presets.MachineParameters = M7032
) -> modulo_scheduler.ModuloSchedule:
    """Of a map whose ``header`` names X0, X1, ... and whose result is v999 in Y."""
    *tokens, result = header.split()
    tiles = "".join(f"  @tile X{n}, am, {token}, 64x64, 1, 0\n" for n, token in enumerate(tokens))
    read = ", ".join(f"X{n}:v{n}" for n in range(len(tokens)))
    image = assemble(
        f"@program t, m7032\n@func main\n{tiles}  @tile Y, am, {result}, 64x64, 1, 65536\n"
        f"    @map 64 x 64, {read} -> Y:v999\n{body}    @endmap\n@ret\n"
    )
    (found,) = DecodedImage(image, machine).maps
    return found.schedule


def test_constants_beyond_the_registers_are_loaded_in_each_turn() -> None:
    body = (
        "".join(f"      VFMA.F32 v{n}, v0, {n}.5, v{n + 1}\n" for n in range(300))
        + "      VMOV.F32 v300, v999\n"
    )
    many = scheduled("f32 f32", body, replace(M7032, vector_registers=1024))
    assert (many.interval, many.spilled) == (101, 0), "301 operations on three pipes"
    few = scheduled("f32 f32", body)
    assert few.interval >= (300 - 64 + 2) / 2, (
        "of 300 constants at most 64 stay; the others are loads on two ports, as are X and Y"
    )
    assert few.interval < 300 / 2


def test_values_beyond_the_registers_are_stored_and_loaded() -> None:
    """What a chain computes is read in the other order by a second one, which begins where the
    first one ends."""
    count = 100
    body = "".join(f"      VMUL.F32 v{n}, v0, v{n + 1}\n" for n in range(count))
    body += "".join(
        f"      VADD.F32 v{count if n == 0 else 500 + n}, v{count - n}, v{501 + n}\n"
        for n in range(count)
    )
    body += f"      VMOV.F32 v{500 + count}, v999\n"
    many = scheduled("f32 f32", body, replace(M7032, vector_registers=10_000))
    few = scheduled("f32 f32", body)
    assert (many.interval, many.spilled) == (67, 0)
    assert many.registers > 300
    assert few.spilled > 60
    assert few.interval > 80, "a store and a load each"


MACROS = [
    (row, word)
    for row in INSTRUCTIONS
    if row.macro and row.macro.types
    for word in (row.macro.types if row.types else ("",))
]


@pytest.mark.parametrize(
    ("row", "word"), MACROS, ids=[f"{row.name}.{word}" for row, word in MACROS]
)
def test_what_a_macro_costs_is_what_it_takes_in_registers_that_exist(
    row: InstructionDef, word: str
) -> None:
    """``costs`` counts what a macro occupies; in a map of its own it takes hardly more, with what
    does not fit spilled."""
    kinds = [
        BY_SUFFIX[word if operand.kind == SAME else operand.kind].token
        for operand in row.operands[:-1]
    ]
    sources = ", ".join(f"v{n}" for n in range(len(kinds)))
    found = scheduled(
        " ".join([*kinds, BY_SUFFIX[word or row.result].token]),
        f"      {row.name}{'.' + word if word else ''} {sources}, v999\n",
    )
    slots = dict(op_costs.cost(row.name, word).slots)
    pipes = (slots.get("VMAC", 0) + slots.get("VMAC1", 0)) / M7032.fma_units
    least = max(
        pipes,
        slots.get("VMAC1", 0),
        slots.get("VIEU", 0),
        (len(kinds) + 1) / M7032.vector_memory_ports,
    )
    assert found.registers <= M7032.vector_registers
    assert least - 1e-9 <= found.interval <= 1.45 * least + 1
