"""The cycle model: modelled time, traffic and utilisation of a program on a preset.

    from ftm_backend.perf_model import cycle_model
    print(cycle_model.model(text, machine="m7032", cores=8).table())

Nothing here is measured. ``tests/isa/test_cycles_published.py`` compares the model with published
figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ftm_backend import assembler
from ftm_backend.assembler.image_layout import BUFFER
from ftm_backend.ir.asm.program import AsmProgram
from ftm_backend.perf_model.control_flow_walk import ControlFlowWalk, WalkError
from ftm_backend.perf_model.events import Event
from ftm_backend.perf_model.image_decoder import DecodedImage
from ftm_backend.perf_model.timeline import (
    Timeline,
    TimelineRecorder,
    TimelineSpan,
    TimelineTotals,
    touched,
    traffic,
)
from ftm_backend.target import cost_rules, presets

__all__ = ["WALK_LIMIT", "CycleProfile", "KernelProfile", "TimelineSpan", "WalkError", "model"]

WALK_LIMIT = 50_000_000
"""Instructions of all cores that are walked before a program counts as endless: about two
minutes."""


@dataclass(frozen=True)
class KernelProfile:
    """One function: cycles on the slowest core of each phase, bytes and operations of all cores."""

    name: str
    calls: int
    cycles: float
    compute_cycles: float
    dma_cycles: float
    scalar_cycles: float
    """The part of ``compute_cycles`` that goes to scalar work and to issuing tile instructions."""
    gsm_cycles: float
    """The part of ``dma_cycles`` in which GSM was the slowest link."""
    dma_bytes: int
    gsm_bytes: int
    least_bytes: int
    """What DDR must move at least: each buffer there that the kernel reads or writes, or the part
    that it touches, once."""
    flops: int
    utilisation: float
    """Share of the peak of all cores' FMA pipes."""
    roofline: float
    """Share of the roofline: of the time that the operations take at peak, or the least bytes at
    full bandwidth, those of buffers in GSM at
    GSM's."""

    @property
    def bound(self) -> str:
        """``compute``, ``issue``, ``DMA`` or ``GSM``: what kept the core or its DMA engine busy
        longest."""
        if self.dma_cycles > self.compute_cycles:
            return "GSM" if self.gsm_cycles > self.dma_cycles / 2 else "DMA"
        return "issue" if self.scalar_cycles > self.compute_cycles / 2 else "compute"


@dataclass(frozen=True)
class CycleProfile:
    """A whole program, modelled."""

    machine: str
    cores: int
    clock_hz: float
    cycles: float
    kernels: tuple[KernelProfile, ...]
    spans: tuple[TimelineSpan, ...] = ()
    """What one core and its DMA engine did, if ``model`` was asked to watch it."""
    names: tuple[str, ...] = ()
    """Of the functions that spans refer to."""

    @property
    def seconds(self) -> float:
        """Modelled time."""
        return self.cycles / self.clock_hz

    @property
    def dma_bytes(self) -> int:
        """Bytes between DDR and the scratchpads of all cores."""
        return sum(k.dma_bytes for k in self.kernels)

    @property
    def gsm_bytes(self) -> int:
        """Bytes that GSM takes and gives, for tiles and for buffers."""
        return sum(k.gsm_bytes for k in self.kernels)

    @property
    def least_bytes(self) -> int:
        """What the kernels must move at least, one by one."""
        return sum(k.least_bytes for k in self.kernels)

    @property
    def flops(self) -> int:
        """Floating-point operations of all cores."""
        return sum(k.flops for k in self.kernels)

    @property
    def roofline(self) -> float:
        """Share of the kernels' rooflines."""
        return (
            sum(k.roofline * k.cycles for k in self.kernels) / self.cycles if self.cycles else 0.0
        )

    @property
    def utilisation(self) -> float:
        """Share of the peak of all cores' FMA pipes."""
        if not self.cycles:
            return 0.0
        return sum(k.utilisation * k.cycles for k in self.kernels) / self.cycles

    def table(self) -> str:
        """A table for people; says that it is modelled."""
        head = f"modelled on {self.machine}, {self.cores} core{'s' if self.cores > 1 else ''}, {self.clock_hz / 1e9:g} GHz"
        lines = [
            head,
            f"{'kernel':24} {'calls':>6} {'cycles':>13} {'bound':>8} {'DDR bytes':>13} {'least':>13} {'GSM bytes':>13} {'FLOPs':>15} "
            f"{'of peak':>8} {'of roofline':>11}",
        ]
        for k in sorted(self.kernels, key=lambda k: -k.cycles):
            lines.append(
                f"{k.name[:24]:24} {k.calls:6d} {k.cycles:13.0f} {k.bound:>8} {k.dma_bytes:13d} {k.least_bytes:13d} "
                f"{k.gsm_bytes:13d} {k.flops:15d} {k.utilisation:8.1%} {k.roofline:11.1%}"
            )
        lines.append(
            f"{'all':24} {'':6} {self.cycles:13.0f} {'':8} {self.dma_bytes:13d} {self.least_bytes:13d} {self.gsm_bytes:13d} "
            f"{self.flops:15d} {self.utilisation:8.1%} {self.roofline:11.1%}   {self.seconds * 1e3:.3f} ms"
        )
        return "\n".join(lines)


def model(
    program: AsmProgram | str | bytes,
    *,
    machine: str | presets.MachineParameters | None = None,
    cores: int | None = None,
    scalars: Mapping[str, int] | None = None,
    loaded: int = 0,
    limit: int = WALK_LIMIT,
    extrapolate: bool = True,
    watch: int | None = None,
    spans: int = 20_000,
) -> CycleProfile:
    """The modelled profile of a program (data, text or image).

    machine: preset or parameters; default: the preset that the program names. cores: default: all
    of the preset's. scalars: values of i64 program scalars that steer control flow, by name; others
    are 1. loaded: what ``SLDI`` is taken to load. limit: instructions that all cores together may
    execute. extrapolate: jump over the steady part of long loops (see ``cycles_jump``) instead of
    walking every iteration. watch: a core whose timeline is kept, up to so many ``spans``.

    Raises:
        AsmError, UnknownPreset: the program or the name is wrong.
        WalkError: the program does not end within ``limit``, or its cores disagree on barriers.
    """
    image = program if isinstance(program, bytes) else assembler.assemble(program, with_text=False)
    if machine is None:
        machine = _preset_of(image)
    parameters = presets.load(machine) if isinstance(machine, str) else machine
    count = cores or parameters.cores
    decoded = DecodedImage(image, parameters, extrapolate)
    values = [
        (scalars or {}).get(decoded.string(name), 1) for name, _ in decoded.sections["scalars"]
    ]
    shared: dict[Any, Any] = {}
    walks = [
        ControlFlowWalk(decoded, core, count, values, loaded, limit // count, shared)
        for core in range(count)
    ]
    recorder = TimelineRecorder(spans) if watch is not None else None
    return _combine(decoded, parameters, walks, recorder, watch)


def _preset_of(image: bytes) -> str:
    from ftm_backend.assembler.image_layout import HEADER
    from ftm_backend.assembler.image_writer import read_sections

    strings = read_sections(image)["strings"]
    start = HEADER.struct.unpack_from(image)[6]
    return strings[start : strings.index(b"\0", start)].decode()


def _combine(
    decoded: DecodedImage,
    machine: presets.MachineParameters,
    walks: list[ControlFlowWalk],
    recorder: TimelineRecorder | None,
    watch: int | None,
) -> CycleProfile:
    """Walks all cores from barrier to barrier; a phase takes as long as its slowest core."""
    count = len(walks)
    stacks: list[list[int]] = [[] for _ in walks]
    critical: dict[int, TimelineTotals] = {}
    everything: dict[int, TimelineTotals] = {}
    moved: dict[tuple[int, int, bool], int] = {}
    total = 0.0
    while True:
        events = [walk.phase() for walk in walks]
        for each, stack in zip(events, stacks, strict=True):
            touched(each, stack.copy(), moved)
        if recorder is not None:
            recorder.origin = total
        lines = _phase(machine, events, stacks, recorder, watch)
        slowest = max(lines, key=lambda line: line.clock)
        total += slowest.clock
        for function, totals in slowest.functions.items():
            critical.setdefault(function, TimelineTotals()).add(totals)
        for line in lines:
            for function, totals in line.functions.items():
                everything.setdefault(function, TimelineTotals()).add(totals)
        ended = sum(walk.done for walk in walks)
        if ended == count:
            break
        if ended:
            raise WalkError(f"{ended} of {count} cores ended while the others wait at a barrier")
        total += machine.barrier_cycles
        critical.setdefault(
            _waiting(stacks, decoded.main), TimelineTotals()
        ).cycles += machine.barrier_cycles
    kernels = []
    for function, sums in everything.items():
        own = critical.get(function, TimelineTotals())
        ideal = sums.ideal / count
        least, near = _least(decoded, function, moved, max(own.calls, 1))
        bound = max(
            ideal,
            least / cost_rules.bytes_per_cycle(machine, count) / count,
            near / machine.gsm_bytes_per_cycle,
        )
        kernels.append(
            KernelProfile(
                decoded.names[function],
                max(own.calls, 1),
                own.cycles,
                own.compute,
                own.dma,
                own.scalar,
                own.gsm_bound,
                sums.ddr_bytes,
                sums.gsm_bytes,
                least,
                sums.flops,
                ideal / own.cycles if own.cycles else 0.0,
                bound / own.cycles if own.cycles else 0.0,
            )
        )
    spans = tuple(recorder.spans) if recorder is not None else ()
    return CycleProfile(
        machine.name, count, machine.clock_hz, total, tuple(kernels), spans, tuple(decoded.names)
    )


def _waiting(stacks: list[list[int]], main: int) -> int:
    """Whose barrier it is: that of the function which all cores are in, or else the caller's."""
    inside = {stack[-1] for stack in stacks if stack}
    return inside.pop() if len(inside) == 1 else main


_BYTES = [field.name for field in BUFFER.fields].index("bytes")


def _least(
    decoded: DecodedImage, function: int, moved: Mapping[tuple[int, int, bool], int], calls: int
) -> tuple[int, int]:
    """Bytes that a function must move from and to DDR, and buffers in GSM: each buffer once, or
    less where it touches less."""
    buffers = decoded.sections["buffers"]
    least = [0, 0]
    for (owner, buffer, _), size in moved.items():
        if owner == function and buffer >= 0:
            least[decoded.kept[buffer]] += min(size, buffers[buffer][_BYTES] * calls)
    return least[0], least[1]


def _phase(
    machine: presets.MachineParameters,
    events: list[list[Event]],
    stacks: list[list[int]],
    recorder: TimelineRecorder | None,
    watch: int | None,
) -> list[Timeline]:
    """The cores' timelines between two barriers, with fair shares of DDR and GSM."""
    moved = [traffic(each) for each in events]
    active = [_active([m[kind] for m in moved]) for kind in (0, 1)]
    ddr = cost_rules.bytes_per_cycle(machine, active[0])
    gsm = machine.gsm_bytes_per_cycle / active[1]
    lines: list[Timeline] = []
    for core, each in enumerate(events):
        line = Timeline(machine, ddr, gsm, recorder=recorder if core == watch else None)
        line.run(each, stacks[core])
        lines.append(line)
    return lines


def _active(moved: list[int]) -> float:
    """How many cores share a server: all traffic over that of the busiest core."""
    return sum(moved) / max(moved) if max(moved) > 0 else 1.0
