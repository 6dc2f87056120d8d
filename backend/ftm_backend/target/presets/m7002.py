"""Preset of FT-M7002: 2 DSP cores at 1 GHz, 200 GFLOP/s fp32.

[S] core count, clock and peak; the rest is inferred from FT-m7032, whose instruction tables it
extends.
"""

from dataclasses import replace

from ftm_backend.target.presets.fabric import Fabric, FabricLevel
from ftm_backend.target.presets.m7032 import PARAMETERS as M7032

PARAMETERS = replace(
    M7032,
    name="m7002",
    description="FT-M7002: 2 DSP cores, 1 GHz, about 200 GFLOP/s fp32",
    cores=2,  # [S]
    clock_hz=1.0e9,  # [S]
    vector_bytes=64,  # [I] 2 cores x 3 FMA x 16 fp32 lanes x 2 at 1 GHz = 192 GFLOP/s
    vector_registers=64,  # [S]
    gsm_bytes=1024 * 1024,  # [M]
    ddr_bandwidth=12.8e9,  # [M] one DDR3-1600 port
    core_bandwidth=10e9,  # [I]
    fma_latency=6,  # [S]
    reduce_cycles=7,  # [S] VREDUC16: 7 cycles
    # [I] processors are ranks, with RapidIO of 4 lanes at 5 Gbit/s, less its 8b/10b code
    fabric=Fabric((FabricLevel("network", 1 << 16, 5e-6, 2e9, 2e9),)),
)
