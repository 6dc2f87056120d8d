"""Preset of MT-3000: one cluster of 24 accelerator arrays at 1.2 GHz.

[S] values are from CCF THPC 2022, doi 10.1007/s42514-022-00095-y. Values that the paper lacks are
those of FT-m7032, whose instruction set it shares, or scaled from them; they are tagged [I]. So is
the fabric: four clusters a processor [S], and the network that ``m7032`` assumes.
"""

from dataclasses import replace

from ftm_backend.target.presets.m7032 import PARAMETERS as M7032
from ftm_backend.target.presets.m7032 import fabric

PARAMETERS = replace(
    M7032,
    name="mt3000",
    description="MT-3000, one cluster: 24 arrays, 1.2 GHz, 115.2 GFLOP/s fp64 an array",
    cores=24,  # [S]
    clock_hz=1.2e9,  # [S]
    gsm_bytes=6 * 1024 * 1024,  # [M]
    ddr_bandwidth=102e9,  # [I] m7032's, scaled by the number of cores
    core_bandwidth=14e9,  # [I] m7032's
    fabric=fabric(102e9),
)
