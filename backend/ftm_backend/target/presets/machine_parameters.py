"""Parameters of a machine: one frozen record of numbers.

The midend's cost model and ``perf_model.cycle_model`` read the same record, so a new machine is one
more file next to ``m7032.py``. Every number in a preset is tagged with its origin: [S] sourced,
[I] inferred or computed, [M] from memory and unconfirmed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ftm_backend.dtypes import MACHINE
from ftm_backend.target.presets.fabric import Fabric

ELEMENT_BYTES = {facts.token: facts.bytes for facts in MACHINE}
"""Bytes of one element of each type token in DDR and in scratchpad."""


@dataclass(frozen=True)
class MachineParameters:
    """One machine: the cores of one cluster, their scratchpads, and all costs.

    Units: bytes, core clock cycles, and bytes per second unless stated otherwise.
    """

    name: str
    description: str

    cores: int
    """Cores of one cluster, which share GSM and the DDR port."""
    clock_hz: float

    am_bytes: int
    """Vector scratchpad of each core (space ``am``)."""
    sm_bytes: int
    """Scalar scratchpad of each core (space ``sm``); holds the A operand of matrix products."""
    gsm_bytes: int
    """Scratchpad shared by the cores of the cluster (space ``gsm``)."""

    vector_bytes: int
    """Bytes of a vector register."""
    vector_registers: int
    """Number of vector registers; values beyond them are spilled."""
    fma_units: int
    """Vector multiply-add pipes: issue slots VMAC1..n."""
    vector_memory_ports: int
    """Vector loads or stores that can start in one cycle: issue slots VLDST1..n."""

    mm_rows: int
    """Rows of C that the matrix micro-kernel holds in registers."""
    mm_vectors: int
    """Vectors of each row of C that the micro-kernel holds."""
    mm_overhead: int
    """Cycles of a micro-kernel call independent of K: pipeline fill, drain, write-back."""
    mm_wide_overhead: int
    """As ``mm_overhead``, for the wide micro-kernel, which holds one vector more per row.

    0: the machine has none.
    """
    mm_thin_overhead: int
    """As ``mm_overhead``, for thin micro-kernels, which hold fewer vectors per row.

    They compute columns that would leave most of the others unused. 0: the machine has none.
    """
    mm_broadcast_bytes: int
    """Bytes of A that can be broadcast to the vector unit per cycle, one vector per element."""
    mm_transpose_cycles: float
    """Measured cycles per element that TRANS moves; 0: cost of its expansion (``cost_rules``).

    The scheduler also charges it for each element of B that MM.TB reads; the cycle model is more
    precise there.
    """

    mm_few_rows: int
    """Most rows of a product that reads B once, where it is and in either orientation; 0: none.

    Such a product neither copies nor transposes B.
    """

    ddr_bandwidth: float
    """Sustained DDR bandwidth of the cluster."""
    core_bandwidth: float
    """Sustained DMA bandwidth of a single active core."""
    gsm_bytes_per_cycle: float
    """GSM bandwidth of the cluster, in bytes per cycle."""
    dma_latency: int
    """Cycles from issuing a DMA transfer to its first byte."""
    dma_granule: int
    """Bytes that the length of a contiguous run in DDR is rounded up to."""
    dma_element_cycles: float
    """Cycles per element of a transfer whose innermost stride is not 1."""
    dma_overlaps: bool
    """Whether DMA runs concurrently with the core; if not, the core copies synchronously."""

    issue_cycles: int
    """Cycles that a core spends on one tile instruction, or on one iteration of its loop."""

    barrier_cycles: int
    scalar_latency: int
    scalar_load_latency: int
    branch_latency: int
    vector_load_latency: int
    vector_store_latency: int
    broadcast_latency: int
    fma_latency: int
    reduce_cycles: float
    """Cycles to reduce a vector register across its lanes, amortized over independent rows."""

    fabric: Fabric
    """How machines of this kind are connected to each other."""

    choices: tuple[tuple[str, str], ...] = ()
    """Pairs of a decision and the alternative that the user wants instead of the cheapest one."""

    def choice(self, decision: str) -> str:
        """Return the alternative that the user wants; empty if the cost model decides."""
        return dict(self.choices).get(decision, "")

    @property
    def tile_buffers(self) -> int:
        """Buffers of each tile in a loop: with two, the next tile loads during computation."""
        return 2 if self.dma_overlaps else 1

    @property
    def uses_panels(self) -> bool:
        """Whether matmuls are planned as panels (``midend/schedule/gemm/panel_*``).

        Operands stream through multi-buffered tiles, so the plan balances DMA against compute.
        """
        return self.dma_overlaps

    @property
    def transposes_on_chip(self) -> bool:
        """Whether rows of few elements move in long runs and are separated in scratchpad.

        A core that executes its own transfers gains nothing by that over moving them one by one.
        Whole transposes are worth it on every machine, see ``transpose-on-chip``.
        """
        return self.dma_overlaps

    def lanes(self, dtype: str) -> int:
        """Return the number of elements of ``dtype`` (such as ``"f32"``) in a vector register."""
        return self.vector_bytes // ELEMENT_BYTES[dtype]

    def mm_columns(self, dtype: str) -> int:
        """Return the columns of C of the narrow micro-kernel that accumulates in ``dtype``."""
        return self.mm_vectors * self.lanes(dtype)

    def mm_widths(self, dtype: str) -> tuple[int, ...]:
        """Return the columns of each micro-kernel, widest first; for thin ones the widest only."""
        narrow, lanes = self.mm_columns(dtype), self.lanes(dtype)
        return (
            *((narrow + lanes,) if self.mm_wide_overhead else ()),
            narrow,
            *((narrow - lanes,) if self.mm_thin(dtype) else ()),
        )

    def mm_thin(self, dtype: str) -> bool:
        """Whether thin micro-kernels exist for ``dtype``: A must be broadcast fast enough."""
        is_fast_enough = self.mm_broadcast_cycles(dtype) < self.mm_vectors / self.fma_units
        return bool(self.mm_thin_overhead) and is_fast_enough

    def mm_broadcast_cycles(self, dtype: str) -> float:
        """Return the cycles per element of A that is broadcast."""
        return ELEMENT_BYTES[dtype] / self.mm_broadcast_bytes

    def peak_flops(self, dtype: str, cores: int = 1) -> float:
        """Return the FLOP/s of ``cores`` cores with every FMA pipe busy in every cycle."""
        return 2.0 * self.fma_units * self.lanes(dtype) * self.clock_hz * cores

    def scratchpad_bytes(self, space: str) -> int:
        """Return the capacity in bytes of space ``am``, ``sm`` or ``gsm``."""
        return {"am": self.am_bytes, "sm": self.sm_bytes, "gsm": self.gsm_bytes}[space]
