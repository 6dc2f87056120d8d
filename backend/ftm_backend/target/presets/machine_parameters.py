"""What the compiler and the cycle model know about a machine: one frozen record of numbers.

The midend's tiling cost model and ``perf_model.cycle_model`` read the same record, so a machine of
your own is one more file beside ``m7032.py``. Every number in a preset carries a note on where it
comes from: [S] sourced, [I] inferred or computed, [M] from memory and unconfirmed.
"""

from __future__ import annotations

from dataclasses import dataclass

from ftm_backend.dtypes import MACHINE

ELEMENT_BYTES = {facts.token: facts.bytes for facts in MACHINE}
"""Bytes of one element of each type token in DDR and in scratchpad."""


@dataclass(frozen=True)
class MachineParameters:
    """One machine: ``cores`` cores of one cluster, their scratchpads, and what everything costs.

    Bytes are bytes, times are core clock cycles, bandwidths are bytes per second unless said
    otherwise.
    """

    name: str
    description: str

    cores: int
    """Cores of one cluster: they share GSM and the DDR port."""
    clock_hz: float

    am_bytes: int
    """Vector scratchpad of each core (space ``am``)."""
    sm_bytes: int
    """Scalar scratchpad of each core (space ``sm``): the A operand of matrix products lives
    here."""
    gsm_bytes: int
    """Scratchpad shared by the cores of the cluster (space ``gsm``)."""

    vector_bytes: int
    """Width of a vector register."""
    vector_registers: int
    """Vector registers: what a loop over vectors keeps beyond them is stored and loaded."""
    fma_units: int
    """Vector multiply-add pipes: slots VMAC1..n."""
    vector_memory_ports: int
    """Vector loads or stores that can start in a cycle: slots VLDST1..n."""

    mm_rows: int
    """Rows of C that the matrix micro-kernel holds in registers."""
    mm_vectors: int
    """Vectors of each row of C that the micro-kernel holds."""
    mm_overhead: int
    """Cycles of a micro-kernel call that do not depend on K (fill, drain, write back)."""
    mm_wide_overhead: int
    """As ``mm_overhead``, of a second micro-kernel that holds one vector more of each row; 0: there
    is none."""
    mm_thin_overhead: int
    """As ``mm_overhead``, of micro-kernels that hold fewer vectors of each row, for columns that
    leave most of the others' empty; 0: there are none."""
    mm_broadcast_bytes: int
    """Bytes of elements of A that can be broadcast to the vector unit in a cycle, each element to a
    vector of its own."""
    mm_transpose_cycles: float
    """Cycles for each element that TRANS moves, where that was measured; 0: what its expansion
    takes, by the type (``rules``). Tiling also takes it for each element of B that MM.TB reads,
    which the cycle model knows better."""

    ddr_bandwidth: float
    """Sustained DDR bandwidth of the cluster."""
    core_bandwidth: float
    """Sustained DMA bandwidth of one core by itself."""
    gsm_bytes_per_cycle: float
    """GSM bandwidth of the cluster, in bytes per cycle."""
    dma_latency: int
    """Cycles from the start of a DMA transfer to its first byte, launch included."""
    dma_granule: int
    """A contiguous run in DDR costs a multiple of this many bytes."""
    dma_element_cycles: float
    """Cycles for each element of a transfer whose innermost stride is not 1."""
    dma_overlaps: bool
    """Whether transfers run beside the core; if not, the core executes them itself."""

    issue_cycles: int
    """Cycles that one tile instruction, or one step of a loop around it, costs its core."""

    barrier_cycles: int
    scalar_latency: int
    scalar_load_latency: int
    branch_latency: int
    vector_load_latency: int
    vector_store_latency: int
    broadcast_latency: int
    fma_latency: int
    reduce_cycles: float
    """Cycles to reduce one vector register across its lanes, amortised over independent rows."""

    @property
    def tile_buffers(self) -> int:
        """Buffers of each tile in a loop: with two, the next tile loads during computation."""
        return 2 if self.dma_overlaps else 1

    @property
    def uses_panels(self) -> bool:
        """Whether matmuls are planned as panels (``midend/schedule/gemm/panel_*``): operands stream
        through multi-buffered tiles, so the plan balances DMA against compute."""
        return self.dma_overlaps

    @property
    def transposes_on_chip(self) -> bool:
        """Whether data moves in long runs and is reordered in scratchpad, instead of element by
        element. A core that executes its own transfers gains nothing by that."""
        return self.dma_overlaps

    def lanes(self, dtype: str) -> int:
        """Elements of ``dtype`` (a token such as ``"f32"``) in one vector register."""
        return self.vector_bytes // ELEMENT_BYTES[dtype]

    def mm_columns(self, dtype: str) -> int:
        """Columns of C that the matrix micro-kernel, the narrower one, computes at once,
        accumulating in ``dtype``."""
        return self.mm_vectors * self.lanes(dtype)

    def mm_widths(self, dtype: str) -> tuple[int, ...]:
        """Columns of each of the micro-kernels, the widest first; of thin ones those of the one
        that keeps the pipes busy."""
        narrow, lanes = self.mm_columns(dtype), self.lanes(dtype)
        return (
            *((narrow + lanes,) if self.mm_wide_overhead else ()),
            narrow,
            *((narrow - lanes,) if self.mm_thin(dtype) else ()),
        )

    def mm_thin(self, dtype: str) -> bool:
        """Whether there are thin micro-kernels for sums of ``dtype``: one with a vector less must
        get its elements of A in less time."""
        return (
            bool(self.mm_thin_overhead)
            and self.mm_broadcast_cycles(dtype) < self.mm_vectors / self.fma_units
        )

    def mm_broadcast_cycles(self, dtype: str) -> float:
        """Cycles between two elements of A that are broadcast."""
        return ELEMENT_BYTES[dtype] / self.mm_broadcast_bytes

    def peak_flops(self, dtype: str, cores: int = 1) -> float:
        """Floating-point operations per second of ``cores`` cores when every FMA pipe is busy."""
        return 2.0 * self.fma_units * self.lanes(dtype) * self.clock_hz * cores

    def scratchpad_bytes(self, space: str) -> int:
        """Capacity of space ``am``, ``sm`` or ``gsm``."""
        return {"am": self.am_bytes, "sm": self.sm_bytes, "gsm": self.gsm_bytes}[space]
