"""Preset of the host: an x86 core seen as a tile machine; the default.

The scratchpads stand for cache capacity of a current x86 core: AM and SM (the packed operand of
matrix products) within the L2 cache, GSM within one core's share of the last-level cache. Costs are
rough figures of such cores [I] or measured with the emulator; they guide tiling only.
"""

from ftm_backend.target.presets.fabric import Fabric, FabricLevel
from ftm_backend.target.presets.machine_parameters import MachineParameters

PARAMETERS = MachineParameters(
    name="host",
    description="x86 host core seen as a tile machine: tiles sized to its caches",
    cores=2,  # [I] what a small machine has; FTM_CORES overrides it
    clock_hz=3.5e9,  # measured
    am_bytes=640 * 1024,  # [I] with SM within an L2 of 1 MB
    sm_bytes=256 * 1024,  # [I]
    gsm_bytes=4 * 1024 * 1024,  # [I] a share of the last-level cache
    vector_bytes=64,  # AVX-512; on AVX2 the same tiles run in smaller blocks
    vector_registers=32,  # AVX-512
    fma_units=1,  # one 512-bit pipe, or two of 256 bits
    vector_memory_ports=2,  # AVX2
    mm_rows=14,  # the emulator's 14x32 fp32 micro-kernel
    mm_vectors=2,
    mm_overhead=40,  # [I]
    mm_wide_overhead=0,
    mm_thin_overhead=0,
    mm_broadcast_bytes=64,  # a broadcasting load for each multiply-add
    mm_transpose_cycles=1.3,  # measured: packing a transposed B
    mm_few_rows=8,  # the emulator's kFewRows
    ddr_bandwidth=60e9,  # measured, two cores
    core_bandwidth=35e9,  # measured: 30 GB/s from DDR to 50 from L3
    gsm_bytes_per_cycle=16.0,  # [I]
    dma_latency=150,  # measured
    dma_granule=32,  # runs of 8 floats keep full speed, measured
    dma_element_cycles=1.3,  # measured: 0.35 ns an element, blocked transpose
    dma_overlaps=False,  # the emulator's core copies synchronously
    issue_cycles=100,  # measured: decoding a tile instruction
    barrier_cycles=2500,  # [I] about 1 us
    scalar_latency=1,
    scalar_load_latency=5,
    branch_latency=2,
    vector_load_latency=5,
    vector_store_latency=1,
    broadcast_latency=3,
    fma_latency=4,
    reduce_cycles=6,  # [I]
    # [I] one process a host, and 10 Gbit/s Ethernet through TCP: 1.25 GB/s, 25 us
    fabric=Fabric((FabricLevel("network", 1 << 16, 25e-6, 1.25e9, 1.25e9),)),
)
