"""The host: an x86 core with AVX2 seen as a tile machine; what training runs on by default.

Scratchpads are regions that the caches of a current x86 core hold: AM within the L2 cache, SM for the packed
operand of matrix products, GSM within a core's share of the last-level cache.  Costs are rough figures of
such cores [I]; they steer tiling, and the emulator's measured speed decides what is kept.
"""

from ftm_backend.machine.presets.parameters import MachineParameters

PARAMETERS = MachineParameters(
    name="host",
    description="x86 host core seen as a tile machine: AVX2, tiles sized to its caches",
    cores=2,                       # [I] what a small machine has; FTM_CORES overrides it
    clock_hz=2.5e9,                # [I]
    am_bytes=512 * 1024,           # [I] within an L2 of 1 to 2 MB
    sm_bytes=128 * 1024,           # [I]
    gsm_bytes=4 * 1024 * 1024,     # [I] a share of the last-level cache
    vector_bytes=32,               # AVX2
    fma_units=2,                   # AVX2
    vector_memory_ports=2,         # AVX2
    mm_rows=6,                     # 6x16 fp32 is the usual AVX2 micro-kernel
    mm_vectors=2,
    mm_overhead=40,                # [I]
    mm_transpose_cycles=0.5,       # [I] packing a transposed panel
    ddr_bandwidth=20e9,            # [I]
    core_bandwidth=12e9,           # [I]
    gsm_bytes_per_cycle=16.0,      # [I]
    dma_latency=100,               # [I] decoding and the first cache miss
    dma_granule=64,                # a cache line
    dma_element_cycles=1.5,        # [I] a blocked transpose
    dma_overlaps=False,            # the emulator's core copies by itself
    issue_cycles=60,               # [I] decoding a tile instruction
    barrier_cycles=2500,           # [I] about 1 us
    scalar_latency=1,
    scalar_load_latency=5,
    branch_latency=2,
    vector_load_latency=5,
    vector_store_latency=1,
    broadcast_latency=3,
    fma_latency=4,
    reduce_cycles=6,               # [I]
)
