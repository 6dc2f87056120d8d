"""``ftm profile``: its table, comparison, picture and trace say what the cycle model says."""

import itertools
import json
import re

import pytest

from ftm_backend import driver
from ftm_backend.ir.asm.call_comments import with_call_names
from ftm_backend.perf_model import cycle_model
from ftm_backend.tools import ftm_profile, timeline_svg

TRACE = """trace
  %0 = param f32[300,200]
  %1 = param f32[200,500]
  %2 = aten::mm(self=%0, mat2=%1) : f32[300,500]
  return %2
"""
LEAST = 4 * (300 * 200 + 200 * 500 + 300 * 500)


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "product.trace"
    path.write_text(TRACE)
    return path


def run(capsys, *arguments):
    assert ftm_profile.main([str(a) for a in arguments]) == 0
    return capsys.readouterr().out


def test_table_has_the_least_bytes_and_says_modelled(trace, capsys):
    shown = run(capsys, trace, "--machine", "m7032", "--cores", 2)
    assert "modelled on m7032, 2 cores" in shown
    assert re.search(rf"mm_0 .* {LEAST} +\d+ +{2 * 300 * 200 * 500} ", shown)


def test_json_adds_up(trace, capsys):
    profile = json.loads(run(capsys, trace, "--machine", "m7032", "--json"))
    assert profile["modelled"] is True and profile["least_bytes"] == LEAST <= profile["dma_bytes"]
    assert sum(kernel["cycles"] for kernel in profile["kernels"]) == pytest.approx(
        profile["cycles"]
    )
    assert 0 < profile["of_peak"] <= profile["of_roofline"] <= 1


def test_comparison_of_machines(trace, capsys):
    shown = run(capsys, trace, "--machine", "m7032", "--compare-machine", "mt3000")
    assert (
        "A: modelled on m7032, 8 cores; B: modelled on mt3000, 24 cores" in shown
        and "mm_0" in shown
    )


def test_timeline_is_whole_and_in_order(trace, tmp_path, capsys):
    picture, events = tmp_path / "t.svg", tmp_path / "t.json"
    shown = run(
        capsys, trace, "--machine", "m7032", "--cores", 1, "--svg", picture, "--chrome", events
    )
    spans = [e for e in json.loads(events.read_text())["traceEvents"] if e["ph"] == "X"]
    assert {e["tid"] for e in spans} == {0, 1}
    for lane in (0, 1):
        mine = [e for e in spans if e["tid"] == lane]
        assert mine and all(
            a["ts"] + a["dur"] <= b["ts"] + 1e-6 for a, b in itertools.pairwise(mine)
        )
    total = float(re.search(r"all +(\d+)", shown).group(1)) / 1.8e3
    assert max(e["ts"] + e["dur"] for e in spans) == pytest.approx(total, rel=1e-3)
    text = picture.read_text()
    assert "modelled on m7032" in text and "MM in mm_0" in text and "DLD" in text


def test_bounds_of_kernels():
    head = "@program t, m7032\n@in b0, f32, 1048576\n@out o0, f32, 1048576\n@func main\n  @tile X, am, f32, 64x64, 1, 0\n"
    tile = "  @tile G, gsm, f32, 64x64, 1, 0\n"
    load = "    DLD b0[0], 64@64 | 64@1, X\n    DWAIT X\n"

    def bound(body):
        return cycle_model.model(head + tile + body + "@ret\n", cores=1).kernels[0].bound

    assert bound(load) == "DMA"
    assert bound(load + "    DCP X, G\n    DWAIT G\n" * 200) == "GSM"
    assert bound("    SADD r1, 1, r1\n" * 50) == "issue"
    assert bound("    @map 64 x 64 -> X:v0\n      VEXP.F32 1.0, v0\n    @endmap\n") == "compute"


@pytest.mark.parametrize(
    "arguments",
    [
        ["missing.lan"],
        ["--window", "9:3"],
        ["--machine", "none"],
        ["--core", "8", "--svg", "x.svg"],
    ],
)
def test_wrong_usage_is_said(trace, arguments, capsys):
    command = (
        arguments
        if arguments[0] == "missing.lan"
        else [str(trace), "--machine", "m7032", *arguments]
    )
    assert ftm_profile.main(command) == 2
    assert capsys.readouterr().err.startswith("ftm profile: ")


def test_the_last_number_of_a_timeline_is_inside_of_it(capsys, trace, tmp_path):
    picture = tmp_path / "t.svg"
    run(capsys, trace, "--svg", picture, "--window", "0:2023410")
    text = picture.read_text()
    width = int(re.search(r'<svg [^>]*width="(\d+)"', text)[1])
    ticks = re.findall(r'<text x="([\d.]+)"[^>]*text-anchor="(\w+)"[^>]*>(\d+)<', text)
    assert [int(tick) for _, _, tick in ticks] == [500_000 * k for k in range(5)]
    for x, anchor, tick in ticks:
        characters = len(tick) * 8 * {"start": 1, "middle": 0.5, "end": 0}[anchor]
        assert float(x) + characters <= width


def test_the_picture_has_all_cores_names_and_distinct_colours(capsys, trace, tmp_path):
    picture, page = tmp_path / "t.svg", tmp_path / "t.html"
    run(capsys, trace, "--machine", "m7032", "--cores", 3, "--svg", picture, "--html", page)
    text = picture.read_text()
    assert all(f">core {core}<" in text for core in range(3)) and ">core 3<" not in text
    assert ">mm_0<" in text and 'fill="#ffffff"' in text
    assert len(set(timeline_svg.COLOURS.values())) == len(timeline_svg.COLOURS)
    assert text in page.read_text() and "modelled on m7032" in page.read_text()
    run(capsys, trace, "--machine", "m7032", "--cores", 3, "--svg", picture, "--core", 1)
    assert ">core 1<" in picture.read_text() and ">core 0<" not in picture.read_text()


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(0, 1, [k / 10 for k in range(11)]), (3, 95, [10 * k for k in range(1, 10)])],
)
def test_round_ticks(first, last, expected):
    assert timeline_svg.round_ticks(first, last) == pytest.approx(expected)


def test_measured_next_to_modelled(capsys, trace):
    shown = run(capsys, trace, "--machine", "m7032", "--cores", 2, "--measure")
    assert re.search(r"mm_0 .* \d+\.\d+%? +\d+\.\d+\n", shown)
    assert "measured on this host: " in shown
    kernels = json.loads(run(capsys, trace, "--measure", "--json"))["kernels"]
    measured = {kernel["name"]: kernel["measured"] for kernel in kernels}
    assert measured["mm_0"] > 0 and measured["main"] is None


def test_names_are_read_from_the_comments_of_calls(capsys, tmp_path):
    text = driver.run_from("trace", TRACE, "asm")
    path = tmp_path / "a.lan"
    path.write_text(with_call_names(text, ["layer1.0 mm, model.py:33"]))
    assert "mm_0 layer1.0 mm, model.py:33 " in run(capsys, path)
    assert with_call_names(text, ["a", "b"]) == text  # names of another program
