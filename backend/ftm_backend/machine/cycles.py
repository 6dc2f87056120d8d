"""The cycle model: modelled time, traffic and utilisation of a program on a preset.

    from ftm_backend.machine import cycles
    print(cycles.model(text, machine="m7032", cores=8).table())

Nothing here is measured.  ``tests/isa/test_cycles_published.py`` compares the model with published figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ftm_backend import isa
from ftm_backend.isa.program import Program
from ftm_backend.machine import presets, rules
from ftm_backend.machine.cycles_events import Event
from ftm_backend.machine.cycles_timeline import Timeline, Totals, traffic
from ftm_backend.machine.cycles_walk import Decoded, Walk, WalkError

__all__ = ["KernelProfile", "Profile", "WalkError", "model"]


@dataclass(frozen=True)
class KernelProfile:
    """One function: cycles on the slowest core of each phase, bytes and operations of all cores."""

    name: str
    calls: int
    cycles: float
    compute_cycles: float
    dma_cycles: float
    dma_bytes: int
    flops: int
    utilisation: float
    """Share of the peak of all cores' FMA pipes."""

    @property
    def bound(self) -> str:
        """``compute`` or ``DMA``: which of the two was busy longer."""
        return "DMA" if self.dma_cycles > self.compute_cycles else "compute"


@dataclass(frozen=True)
class Profile:
    """A whole program, modelled."""

    machine: str
    cores: int
    clock_hz: float
    cycles: float
    kernels: tuple[KernelProfile, ...]

    @property
    def seconds(self) -> float:
        """Modelled time."""
        return self.cycles / self.clock_hz

    @property
    def dma_bytes(self) -> int:
        """Bytes between DDR and the scratchpads of all cores."""
        return sum(k.dma_bytes for k in self.kernels)

    @property
    def flops(self) -> int:
        """Floating-point operations of all cores."""
        return sum(k.flops for k in self.kernels)

    @property
    def utilisation(self) -> float:
        """Share of the peak of all cores' FMA pipes."""
        if not self.cycles:
            return 0.0
        return sum(k.utilisation * k.cycles for k in self.kernels) / self.cycles

    def table(self) -> str:
        """A table for people; says that it is modelled."""
        head = f"modelled on {self.machine}, {self.cores} core{'s' if self.cores > 1 else ''}, {self.clock_hz / 1e9:g} GHz"
        lines = [head, f"{'kernel':32} {'calls':>6} {'cycles':>13} {'DMA bytes':>13} {'FLOPs':>15} {'bound':>8} {'of peak':>8}"]
        for k in sorted(self.kernels, key=lambda k: -k.cycles):
            lines.append(f"{k.name[:32]:32} {k.calls:6d} {k.cycles:13.0f} {k.dma_bytes:13d} {k.flops:15d} {k.bound:>8} "
                         f"{k.utilisation:8.1%}")
        lines.append(f"{'all':32} {'':6} {self.cycles:13.0f} {self.dma_bytes:13d} {self.flops:15d} {'':8} "
                     f"{self.utilisation:8.1%}   {self.seconds * 1e3:.3f} ms")
        return "\n".join(lines)


def model(
    program: Program | str | bytes, *, machine: str | presets.MachineParameters | None = None, cores: int | None = None,
    scalars: Mapping[str, int] | None = None, loaded: int = 0, limit: int = 50_000_000,
    extrapolate: bool = True,
) -> Profile:
    """The modelled profile of a program (data, text or image).

    machine: preset or parameters; default: the preset that the program names.  cores: default: all of the preset's.
    scalars: values of i64 program scalars that steer control flow, by name; others are 1.  loaded: what ``SLDI`` is
    taken to load.  limit: instructions that a core may execute.  extrapolate: jump over the steady part of long
    loops (see ``cycles_jump``) instead of walking every iteration.

    Raises:
        AsmError, UnknownPreset: the program or the name is wrong.
        WalkError: the program does not end within ``limit``, or its cores disagree on barriers.
    """
    image = program if isinstance(program, bytes) else isa.assemble(program, with_text=False)
    if machine is None:
        machine = _preset_of(image)
    parameters = presets.load(machine) if isinstance(machine, str) else machine
    count = cores or parameters.cores
    decoded = Decoded(image, parameters, extrapolate)
    values = [(scalars or {}).get(decoded.string(name), 1) for name, _ in decoded.sections["scalars"]]
    shared: dict = {}
    walks = [Walk(decoded, core, count, values, loaded, limit, shared) for core in range(count)]
    return _combine(decoded, parameters, walks)


def _preset_of(image: bytes) -> str:
    from ftm_backend.isa.image import read_sections
    from ftm_backend.isa.layout import HEADER

    strings = read_sections(image)["strings"]
    start = HEADER.struct.unpack_from(image)[6]
    return strings[start : strings.index(b"\0", start)].decode()


def _combine(decoded: Decoded, machine: presets.MachineParameters, walks: list[Walk]) -> Profile:
    """Walks all cores from barrier to barrier; a phase takes as long as its slowest core."""
    count = len(walks)
    stacks: list[list[int]] = [[] for _ in walks]
    critical: dict[int, Totals] = {}
    everything: dict[int, Totals] = {}
    total = 0.0
    while True:
        lines = _phase(machine, [walk.phase() for walk in walks], stacks)
        slowest = max(lines, key=lambda line: line.clock)
        total += slowest.clock
        for function, totals in slowest.functions.items():
            critical.setdefault(function, Totals()).add(totals)
        for line in lines:
            for function, totals in line.functions.items():
                everything.setdefault(function, Totals()).add(totals)
        ended = sum(walk.done for walk in walks)
        if ended == count:
            break
        if ended:
            raise WalkError(f"{ended} of {count} cores ended while the others wait at a barrier")
        total += machine.barrier_cycles
        critical.setdefault(decoded.main, Totals()).cycles += machine.barrier_cycles
    kernels = []
    for function, sums in everything.items():
        own = critical.get(function, Totals())
        ideal = sums.ideal / count
        kernels.append(KernelProfile(
            decoded.names[function], max(own.calls, 1), own.cycles, own.compute, own.dma, sums.ddr_bytes, sums.flops,
            ideal / own.cycles if own.cycles else 0.0,
        ))
    return Profile(machine.name, count, machine.clock_hz, total, tuple(kernels))


def _phase(machine: presets.MachineParameters, events: list[list[Event]], stacks: list[list[int]]) -> list[Timeline]:
    """The cores' timelines between two barriers, with fair shares of DDR and GSM."""
    moved = [traffic(each) for each in events]
    active = [_active([m[kind] for m in moved]) for kind in (0, 1)]
    ddr = rules.bytes_per_cycle(machine, active[0])
    gsm = machine.gsm_bytes_per_cycle / active[1]
    lines: list[Timeline] = []
    for core, each in enumerate(events):
        line = Timeline(machine, ddr, gsm)
        line.run(each, stacks[core])
        lines.append(line)
    return lines


def _active(moved: list[int]) -> float:
    """How many cores share a server: all traffic over that of the busiest core."""
    return sum(moved) / max(moved) if max(moved) > 0 else 1.0
