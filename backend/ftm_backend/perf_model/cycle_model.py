"""The cycle model: modelled time, traffic and utilization of a program on a machine.

    from ftm_backend.perf_model import cycle_model
    print(cycle_model.model(text, machine="m7032", cores=8).table())

Nothing is measured. ``tests/isa/test_cycles_published.py`` compares the model with published
figures.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ftm_backend import assembler
from ftm_backend.assembler.image_layout import BUFFER
from ftm_backend.ir.asm.call_comments import function_names
from ftm_backend.ir.asm.parser import parse
from ftm_backend.ir.asm.program import AsmProgram
from ftm_backend.perf_model.communication import StepLog
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
"""Instructions of all cores after which a program counts as endless; about two minutes."""


_TITLE = 44
"""Characters of a kernel's title in tables."""


@dataclass(frozen=True)
class KernelProfile:
    """One function: cycles of the slowest core of each phase; bytes and operations of all cores."""

    name: str
    calls: int
    cycles: float
    compute_cycles: float
    dma_cycles: float
    scalar_cycles: float
    """Share of ``compute_cycles`` for scalar work and for issuing tile instructions."""
    gsm_cycles: float
    """Share of ``dma_cycles`` in which GSM was the bottleneck."""
    dma_bytes: int
    gsm_bytes: int
    least_bytes: int
    """Lower bound of DDR traffic: each buffer, or the part of it that is accessed, once."""
    flops: int
    utilisation: float
    """Fraction of the peak of all cores' FMA pipes."""
    roofline: float
    """Fraction of the roofline.

    The roofline is the longest of: operations at peak, least DDR bytes at DDR bandwidth, least
    bytes of buffers in GSM at GSM bandwidth.
    """
    label: str = ""
    """What it computes and for whom, if the program says so (`call_comments`)."""
    measured: float | None = None
    """Seconds on the host, if it was run there."""

    @property
    def title(self) -> str:
        """Name, and label if it has a module or a line; else it would repeat the name."""
        return f"{self.name} {self.label}" if " " in self.label else self.name

    @property
    def bound(self) -> str:
        """The bottleneck: ``compute``, ``issue``, ``DMA`` or ``GSM``."""
        if self.dma_cycles > self.compute_cycles:
            return "GSM" if self.gsm_cycles > self.dma_cycles / 2 else "DMA"
        return "issue" if self.scalar_cycles > self.compute_cycles / 2 else "compute"


@dataclass(frozen=True)
class CycleProfile:
    """The modelled profile of a whole program."""

    machine: str
    cores: int
    clock_hz: float
    cycles: float
    kernels: tuple[KernelProfile, ...]
    spans: tuple[TimelineSpan, ...] = ()
    """Activity of the cores and their DMA engines, if ``model`` recorded it (``watch``)."""
    names: tuple[str, ...] = ()
    """Names of the functions that spans refer to."""
    log: StepLog = field(default_factory=StepLog)
    """Where the program communicates; ``scaling`` models what that costs."""

    @property
    def seconds(self) -> float:
        """Modelled time in seconds."""
        return self.cycles / self.clock_hz

    @property
    def dma_bytes(self) -> int:
        """Bytes transferred between DDR and the scratchpads of all cores."""
        return sum(k.dma_bytes for k in self.kernels)

    @property
    def gsm_bytes(self) -> int:
        """Bytes transferred to and from GSM, for tiles and for buffers."""
        return sum(k.gsm_bytes for k in self.kernels)

    @property
    def least_bytes(self) -> int:
        """Sum of the kernels' lower bounds of DDR traffic."""
        return sum(k.least_bytes for k in self.kernels)

    @property
    def flops(self) -> int:
        """Floating-point operations of all cores."""
        return sum(k.flops for k in self.kernels)

    @property
    def roofline(self) -> float:
        """Fraction of the kernels' rooflines."""
        return (
            sum(k.roofline * k.cycles for k in self.kernels) / self.cycles if self.cycles else 0.0
        )

    @property
    def utilisation(self) -> float:
        """Fraction of the peak of all cores' FMA pipes."""
        if not self.cycles:
            return 0.0
        return sum(k.utilisation * k.cycles for k in self.kernels) / self.cycles

    @property
    def is_measured(self) -> bool:
        """Whether the kernels were also run on the host."""
        return any(kernel.measured is not None for kernel in self.kernels)

    def with_measured(self, seconds: Mapping[str, float]) -> CycleProfile:
        """Return the profile with the seconds that each function took on the host."""
        kernels = tuple(
            replace(kernel, measured=seconds.get(kernel.name)) for kernel in self.kernels
        )
        return replace(self, kernels=kernels)

    def _repr_html_(self) -> str:
        """Return the table as a notebook shows it."""
        return f'<pre style="overflow-x: auto">{html.escape(self.table())}</pre>'

    def table(self) -> str:
        """Return a table for people."""
        plural = "s" if self.cores > 1 else ""
        clock = f"{self.clock_hz / 1e9:g} GHz"
        lines = [
            f"modelled on {self.machine}, {self.cores} core{plural}, {clock}",
            f"{'kernel':{_TITLE}} {'calls':>6} {'cycles':>13} {'bound':>8} {'DDR bytes':>13} "
            f"{'least':>13} {'GSM bytes':>13} {'FLOPs':>15} {'of peak':>8} {'of roofline':>11}"
            + f" {'host ms':>9}"
            * self.is_measured,
        ]
        for k in sorted(self.kernels, key=lambda k: -k.cycles):
            lines.append(
                f"{k.title[:_TITLE]:{_TITLE}} {k.calls:6d} {k.cycles:13.0f} {k.bound:>8} "
                f"{k.dma_bytes:13d} {k.least_bytes:13d} {k.gsm_bytes:13d} {k.flops:15d} "
                f"{k.utilisation:8.1%} {k.roofline:11.1%}"
                + (f" {k.measured * 1e3:9.3f}" if k.measured is not None else "")
            )
        lines.append(
            f"{'all':{_TITLE}} {'':6} {self.cycles:13.0f} {'':8} {self.dma_bytes:13d} "
            f"{self.least_bytes:13d} {self.gsm_bytes:13d} {self.flops:15d} "
            f"{self.utilisation:8.1%} {self.roofline:11.1%}   {self.seconds * 1e3:.3f} ms"
        )
        if self.is_measured:
            measured = sum(k.measured or 0.0 for k in self.kernels)
            lines.append(
                f"modelled on {self.machine}: {self.seconds * 1e3:.3f} ms; "
                f"measured on this host: {measured * 1e3:.3f} ms"
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
    watch: bool = False,
    spans: int = 20_000,
) -> CycleProfile:
    """Model the execution of a program.

    Args:
        program: The program as records, text or image.
        machine: Preset or parameters; by default the preset that the program names.
        cores: Number of cores; by default all of the preset's.
        scalars: Values of i64 program scalars that steer control flow, by name; others are 1.
        loaded: Value of integers that ``SLDI`` loads.
        limit: Instructions that all cores together may execute.
        extrapolate: Skip the steady part of long loops (see ``loop_extrapolation``).
        watch: Record the timelines of all cores.
        spans: Greatest number of spans to record of each core.

    Returns:
        The profile; cycles are core clock cycles.

    Raises:
        AsmError: The program is wrong.
        UnknownPreset: There is no such preset.
        WalkError: The program does not end within ``limit``, or its cores disagree on barriers.
    """
    if isinstance(program, str):
        program = parse(program)
    image = program if isinstance(program, bytes) else assembler.assemble(program, with_text=False)
    if machine is None:
        machine = _preset_of(image)
    parameters = presets.load(machine) if isinstance(machine, str) else machine
    count = cores or parameters.cores
    decoded = DecodedImage(image, parameters, extrapolate)
    values = [
        (scalars or {}).get(decoded.string(name), 1) for name, _ in decoded.sections["scalars"]
    ]
    shared: dict[tuple[int, int], tuple[int, int]] = {}
    walks = [
        ControlFlowWalk(decoded, core, count, values, loaded, limit // count, shared)
        for core in range(count)
    ]
    recorders = [TimelineRecorder(spans, core) for core in range(count)] if watch else []
    labels = {} if isinstance(program, bytes) else function_names(program)
    return _combine(decoded, parameters, walks, recorders, labels)


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
    recorders: list[TimelineRecorder],
    labels: Mapping[str, str],
) -> CycleProfile:
    """Walk all cores from barrier to barrier; a phase takes as long as its slowest core."""
    count = len(walks)
    stacks: list[list[int]] = [[] for _ in walks]
    critical: dict[int, TimelineTotals] = {}
    everything: dict[int, TimelineTotals] = {}
    moved: dict[tuple[int, int, bool], int] = {}
    log = StepLog()
    total = 0.0
    while True:
        events = [walk.phase() for walk in walks]
        for each, stack in zip(events, stacks, strict=True):
            touched(each, stack.copy(), moved)
        for recorder in recorders:
            recorder.origin = total
        lines = _phase(machine, events, stacks, recorders)
        slowest = max(lines, key=lambda line: line.clock)
        log.note(decoded.float_inputs, total, slowest.clock, lines)
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
                labels.get(decoded.names[function], ""),
            )
        )
    spans = tuple(span for recorder in recorders for span in recorder.spans)
    return CycleProfile(
        machine.name,
        count,
        machine.clock_hz,
        total,
        tuple(kernels),
        spans,
        tuple(decoded.names),
        log,
    )


def _waiting(stacks: list[list[int]], main: int) -> int:
    """Return the function that a barrier is charged to: the one all cores are in, or ``main``."""
    inside = {stack[-1] for stack in stacks if stack}
    return inside.pop() if len(inside) == 1 else main


_BYTES = [field.name for field in BUFFER.fields].index("bytes")


def _least(
    decoded: DecodedImage, function: int, moved: Mapping[tuple[int, int, bool], int], calls: int
) -> tuple[int, int]:
    """Return the least bytes that a function must move: of buffers in DDR, and of those in GSM.

    Each buffer, or the part of it that is accessed, counts once.
    """
    buffers = decoded.sections["buffers"]
    least = [0, 0]
    for (owner, buffer, _), size in moved.items():
        if owner == function and buffer >= 0:
            least[decoded.buffer_in_gsm[buffer]] += min(size, buffers[buffer][_BYTES] * calls)
    return least[0], least[1]


def _phase(
    machine: presets.MachineParameters,
    events: list[list[Event]],
    stacks: list[list[int]],
    recorders: list[TimelineRecorder],
) -> list[Timeline]:
    """Return the cores' timelines between two barriers, with fair shares of DDR and GSM."""
    moved = [traffic(each) for each in events]
    active = [_active([m[kind] for m in moved]) for kind in (0, 1)]
    ddr = cost_rules.bytes_per_cycle(machine, active[0])
    gsm = machine.gsm_bytes_per_cycle / active[1]
    lines: list[Timeline] = []
    for core, each in enumerate(events):
        line = Timeline(machine, ddr, gsm, recorder=recorders[core] if recorders else None)
        line.run(each, stacks[core])
        lines.append(line)
    return lines


def _active(moved: list[int]) -> float:
    """Return how many cores share a resource: all traffic over that of the busiest core."""
    return sum(moved) / max(moved) if max(moved) > 0 else 1.0
