"""Preset of FT-m7032: one cluster of 8 DSP cores at 1.8 GHz.

[S] values are from Yu, Qi, Zhang, Fang, Dong et al., "Optimizing GEMM on Modern Multi-core DSPs",
and from the public FT-Matrix instruction tables. The two DDR bandwidths were fitted to that paper's
8-core and fp32 results.

No paper describes a fabric of FT-m7032 processors. The preset assumes that of TianHe-2A (Dongarra,
"Report on the TianHe-2A System", ICL-UT-17-04): 14 Gbit/s a lane, 1 us.
"""

from ftm_backend.target.presets.fabric import Fabric, FabricLevel
from ftm_backend.target.presets.machine_parameters import MachineParameters

LINK = 8 * 14e9 / 8  # 14 Gbit/s [S] on each of 8 lanes [M]: 14 GB/s
CHIP = 4  # [S] clusters of a processor, each a rank with a DDR port of its own
FRAME = 32 * CHIP  # [M] processors that share the switch of a frame, as nodes in TianHe-2
SYSTEM = 1 << 16  # [I]


def fabric(ddr_bandwidth: float) -> Fabric:
    """Return the fabric of processors with four clusters; ``ddr_bandwidth`` is of one cluster."""
    through_memory = ddr_bandwidth / 2  # [I] a copy reads and writes
    return Fabric(
        (
            FabricLevel("processor", CHIP, 0.5e-6, through_memory, through_memory),  # [I] latency
            FabricLevel("frame", FRAME, 1.0e-6, LINK, LINK),  # [S] latency
            # [I] one more switch each way, and half of the bandwidth of all processors of a frame
            FabricLevel("system", SYSTEM, 1.5e-6, LINK, FRAME / CHIP * LINK / 2),
        )
    )


PARAMETERS = MachineParameters(
    name="m7032",
    description="FT-m7032, one cluster: 8 DSP cores, 1.8 GHz, 172.8 GFLOP/s fp64 a core",
    cores=8,  # [S]
    clock_hz=1.8e9,  # [S]
    am_bytes=768 * 1024,  # [S]
    sm_bytes=64 * 1024,  # [S]
    gsm_bytes=6 * 1024 * 1024,  # [S]
    vector_bytes=128,  # [S] 16 lanes of 64 bits
    vector_registers=64,  # [S]
    fma_units=3,  # [S]
    vector_memory_ports=2,  # [S]
    mm_rows=6,  # [S] 6x48 fp64 micro-kernel
    mm_vectors=3,  # [S] 48 fp64 = 3 vectors
    mm_overhead=26,  # [S] 14 + 6K + 12 cycles
    # [S] 6x64 fp64 and 6x128 fp32: 8K, and 28 around them, counted in
    # VVinstonSmith/BLAS-for-multi-core-DSP
    mm_wide_overhead=29,
    # [I] its expansion: two sets of 6x2 sums, since one set would be reused before it is ready
    mm_thin_overhead=33,
    # [I] SVBCAST broadcasts 64 bits; for two f32, VBALE2 (or its scalar twin SBALE2) fills one
    # vector with each
    mm_broadcast_bytes=8,
    # [I] the expansion of TRANS: no table has cross-lane shuffles; they are assumed to be VIEU's,
    # one a cycle
    mm_transpose_cycles=0,
    mm_few_rows=0,
    ddr_bandwidth=34e9,  # [I] fitted; 42.6 GB/s peak [M]
    core_bandwidth=14e9,  # [I] fitted
    gsm_bytes_per_cycle=256.0,  # [M] a guess: no source
    dma_latency=62,  # [I] launch and wait cost about 2% in the paper
    dma_granule=128,  # [I] a guess that the published rows bear out
    dma_element_cycles=8.0,  # [I] every element a burst of its own
    dma_overlaps=True,  # [S]
    issue_cycles=8,  # [I] a packet or two of set-up
    barrier_cycles=50,  # [M] a guess
    scalar_latency=1,  # [S]
    scalar_load_latency=7,  # [S]
    branch_latency=7,  # [S]
    vector_load_latency=9,  # [S]
    vector_store_latency=4,  # [S]
    broadcast_latency=4,  # [S]
    fma_latency=6,  # [S]
    reduce_cycles=122 / 48,  # [S] 122 cycles for 48 vectors
    fabric=fabric(34e9),
)
