"""Machine presets: complete, consistent with the published peaks, and found by name."""

from dataclasses import fields

import pytest

from ftm_backend.machine import presets


@pytest.mark.parametrize("name", presets.NAMES)
def test_preset_is_complete(name):
    machine = presets.load(name)
    assert machine.name == name and machine.description
    for field in fields(machine):
        value = getattr(machine, field.name)
        if field.name not in ("name", "description", "dma_overlaps"):
            assert value > 0, field.name


@pytest.mark.parametrize(("name", "dtype", "cores", "gflops", "tolerance"), [
    ("m7032", "f64", 1, 172.8, 0.1), ("mt3000", "f64", 1, 115.2, 0.1), ("mt3000", "f64", 96, 11_600, 600), ("m7002", "f32", 2, 200, 10),
])
def test_peaks_are_the_published_ones(name, dtype, cores, gflops, tolerance):
    assert presets.load(name).peak_flops(dtype, cores) / 1e9 == pytest.approx(gflops, abs=tolerance)


def test_lanes_and_columns():
    machine = presets.load("m7032")
    assert [machine.lanes(t) for t in ("f64", "f32", "f16", "i8")] == [16, 32, 64, 128]
    assert (machine.mm_columns("f64"), machine.mm_columns("f32")) == (48, 96)
    assert machine.scratchpad_bytes("am") == 768 * 1024


def test_unknown_names_are_refused_with_the_known_ones():
    with pytest.raises(presets.UnknownPreset, match="host, m7032, mt3000, m7002"):
        presets.load("cray")
