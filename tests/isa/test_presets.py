"""Machine presets: complete, consistent with the published peaks, and found by name."""

import os
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from ftm_backend.target import presets


@pytest.mark.parametrize("name", presets.NAMES)
def test_preset_is_complete(name):
    machine = presets.load(name)
    assert machine.name == name and machine.description
    for field in fields(machine):
        value = getattr(machine, field.name)
        if field.name not in (
            "name",
            "description",
            "dma_overlaps",
            "mm_wide_overhead",
            "mm_thin_overhead",
            "mm_transpose_cycles",
            "mm_few_rows",
            "choices",
            "fabric",
        ):
            assert value > 0, field.name


@pytest.mark.parametrize(
    ("name", "dtype", "cores", "gflops", "tolerance"),
    [
        ("m7032", "f64", 1, 172.8, 0.1),
        ("mt3000", "f64", 1, 115.2, 0.1),
        ("mt3000", "f64", 96, 11_600, 600),
        ("m7002", "f32", 2, 200, 10),
    ],
)
def test_peaks_are_the_published_ones(name, dtype, cores, gflops, tolerance):
    assert presets.load(name).peak_flops(dtype, cores) / 1e9 == pytest.approx(gflops, abs=tolerance)


def test_lanes_and_columns():
    machine = presets.load("m7032")
    assert [machine.lanes(t) for t in ("f64", "f32", "f16", "i8")] == [16, 32, 64, 128]
    assert (machine.mm_columns("f64"), machine.mm_columns("f32")) == (48, 96)
    assert machine.scratchpad_bytes("am") == 768 * 1024


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(presets.UnknownPreset, match="host, m7002, m7032, mt3000"):
        presets.load("cray")


MINE = """
from dataclasses import replace
from ftm_backend.target.presets.m7032 import PARAMETERS
PARAMETERS = replace(PARAMETERS, name="mine", description="a machine of my own", cores=3, am_bytes=65536, vector_bytes=32)
"""

RUN = """
import torch, ftm_lazy
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
assert presets.load("mine").cores == 3 and ftm_lazy.settings.current().preset == "mine"
a, b = torch.randn(300, 200), torch.randn(200, 100)
y = torch.softmax(a.to("ftm") @ b.to("ftm"), 1)
text = ftm_lazy.debug.text([y], "asm")
assert text.startswith("@program main, mine"), text[:40]
assert cycle_model.model(text).cores == 3
torch.testing.assert_close(y.cpu(), torch.softmax(a @ b, 1))
print("right")
"""


def test_a_preset_is_one_file(tmp_path):
    """A copy of the compiler with one module more: settings, planning, the machine and the cycle
    model know it."""
    root = Path(presets.__file__).parents[2]
    shutil.copytree(
        root, tmp_path / "ftm_backend", ignore=shutil.ignore_patterns("build", "__pycache__")
    )
    (tmp_path / "ftm_backend" / "target" / "presets" / "mine.py").write_text(MINE)
    environment = {
        "FTM_MACHINE": "mine",
        "PYTHONPATH": f"{tmp_path}:{root.parents[1]}",
        "FTM_CACHE_DIR": str(tmp_path / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.strip() == "right", done.stderr
