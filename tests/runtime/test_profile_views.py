"""Views of a profile, computed from events that are written by hand."""

import csv
import json

import pytest

from ftm_lazy.profiler import charts, chrome_trace, views
from ftm_lazy.profiler.advice import advice_of
from ftm_lazy.profiler.events import CoreSpan, Events, HostEvent, Kernel, MemoryEvent, Origin, Run
from ftm_lazy.profiler.limits import Limits, bound_of
from ftm_lazy.profiler.memory import peak_of
from ftm_lazy.profiler.steps import covered, steps_of

MS = 1_000_000
THREAD = 7


def kernel(name, begin, end, *, run=0, module="net.a", line="a.py:1", shape="f32[4]", flops=0):
    return Kernel(
        name,
        module,
        "mm",
        line,
        shape,
        False,
        run,
        0,
        begin,
        end,
        end - begin,
        end - begin,
        1000,
        flops,
        0,
    )


def host(kind, begin, end, name="", line="a.py:9", thread=THREAD):
    return HostEvent(kind, name or kind, line, begin, end, thread, 0)


def events(*, kernels=(), hosts=(), runs=(), memory=(), cores=(), end=100 * MS):
    return Events(
        0, end, THREAD, tuple(runs), tuple(kernels), tuple(cores), tuple(hosts), tuple(memory)
    )


def profile_of(recorded, before=None):
    made = views.Profile()
    made.set_events(recorded, {}, before or {})
    return made


@pytest.fixture(autouse=True)
def fixed_limits(monkeypatch):
    limits = Limits(flops=1e11, bytes=1e10)
    for module in (views, views.html_report):
        monkeypatch.setattr(module, "measured_limits", lambda: limits)


def test_times_of_a_step_add_up():
    recorded = events(
        hosts=[
            host("launch", 10 * MS, 12 * MS),
            host("wait", 20 * MS, 50 * MS),
            host("compile", 30 * MS, 40 * MS),  # inside of the wait
            host("copy_to_host", 50 * MS, 51 * MS),
            host("compile", 0, 100 * MS, thread=99),  # on the compile thread
            host("step", 60 * MS, 60 * MS),
            host("step", 99 * MS, 99 * MS),
        ],
        runs=[Run(1, 5, 15 * MS, 55 * MS, "a.py:9", True, [])],
    )
    first, second = steps_of(recorded)
    assert (first.launching, first.waiting, first.compiling, first.copying) == (
        2 * MS,
        20 * MS,
        10 * MS,
        1 * MS,
    )
    assert first.recording == 60 * MS - 33 * MS and first.running == 40 * MS
    assert first.idle == 20 * MS and (first.programs, second.programs) == (1, 0)
    assert second.begin == 60 * MS and second.end == 100 * MS


def test_overlaps_are_covered_once():
    assert covered([(0, 5), (3, 8), (20, 30)], 2, 25) == 11
    assert covered([(5, 1000)], 10, 20) == 10


def test_the_costliest_kernel_comes_first():
    recorded = events(
        kernels=[kernel("a", 0, 2 * MS), kernel("b", 2 * MS, 9 * MS), kernel("a", 9 * MS, 10 * MS)],
        runs=[Run(1, 5, 0, 10 * MS, "", True, [])],
    )
    made = profile_of(recorded)
    assert [(total.name, total.time) for total in made.kernels] == [("b", 7 * MS), ("a", 3 * MS)]
    assert str(made).splitlines()[1].startswith("b ") and made.attributed == 1.0
    assert made.kernel_time == made.device_time == 10 * MS


@pytest.mark.parametrize(
    ("flops", "moved", "time", "expected"),
    [
        (5 * 10**7, 10**3, MS, "compute"),
        (10**3, 5 * 10**6, MS, "memory"),
        (10, 10, 5_000, "launch"),
        (10, 10, MS, "issue"),
    ],
)
def test_bound(flops, moved, time, expected):
    one = kernel("a", 0, time)._replace(mm_flops=flops, dma_bytes=moved)
    assert bound_of([one], Limits(flops=1e11, bytes=1e10)) == expected


def advice(**given):
    recorded = events(**given)
    return [each.what for each in advice_of(recorded, steps_of(recorded))]


STEPS = [host("step", k * 10 * MS, k * 10 * MS) for k in range(1, 6)]


def test_advice_on_reads_needs_one_in_every_step():
    waits = [host("wait", k * 10 * MS, k * 10 * MS + MS) for k in range(5)]
    copies = [host("copy_to_host", wait.end, wait.end + 1) for wait in waits]
    assert advice(hosts=STEPS + waits + copies) == ["A value is read 1.0 times a step"]
    assert advice(hosts=STEPS + waits) == ["Python waits for the device 1.0 times a step"]
    assert advice(hosts=STEPS + copies) == []  # they take less than half a percent
    assert advice(hosts=STEPS + waits[:1]) == []
    assert advice(hosts=STEPS[:2] + waits[:1]) == []  # the wait at the profile's end


def test_advice_on_compiles_names_their_cause():
    compiles = [host("compile", k, k + 1, name="compiled: sizes vary") for k in range(4)]
    assert advice(hosts=compiles) == ["4 programs were compiled (sizes vary)"]
    assert advice(hosts=compiles[:3]) == []


def test_advice_on_fallbacks_small_programs_float64_copies_and_idle_cores():
    assert advice(hosts=[host("fallback", 0, MS, name="aten::foo")]) == [
        "aten::foo ran 1 times on the CPU"
    ]
    small = [Run(k, 3, k, k + 1, "a.py:5", True, []) for k in range(9)]
    assert advice(runs=small)[0].startswith("9 programs of less than")
    double = [kernel("a", 0, MS, shape="f64[2]"), kernel("b", MS, 2 * MS), kernel("c", 2 * MS, 3)]
    assert any("float64" in what for what in advice(kernels=double))
    copies = [host("copy_to_device", k * MS, (k + 1) * MS) for k in range(12)]
    assert any("copies to the device" in what for what in advice(hosts=STEPS + copies))
    long = [host("copy_to_device", 0, 40 * MS)]  # one, for much of the steps' time
    assert any("copies to the device" in what for what in advice(hosts=STEPS + long))
    short = [host("copy_to_device", 0, 2 * MS)]  # a batch
    assert not any("copies to the device" in what for what in advice(hosts=STEPS + short))
    alone = kernel("a", 0, 10 * MS)
    spans = [CoreSpan(0, 0, 0, 10 * MS), CoreSpan(-1, 3, 0, 10 * MS)]
    assert advice(kernels=[alone], cores=spans) == ["a leaves 3 of 4 cores idle"]


def test_memory_peak_is_explained():
    results = [Origin("net.a", "a.py:1", False), Origin("net.a", "a.py:1", True)]
    recorded = events(
        runs=[Run(1, 5, 0, MS, "", True, results)],
        memory=[
            MemoryEvent(1, 0x10, 400, 1, 0),
            MemoryEvent(2, 0x20, 100, 1, 1),
            MemoryEvent(3, 0x30, 50, 1, -1),
            MemoryEvent(4, 0x30, -50, 1, -1),
            MemoryEvent(5, 0x20, -100, 1, 1),
        ],
    )
    peak = peak_of(recorded, {0x99: 1000}, {0x99: "weights"}, 0, 100)
    assert peak is not None and peak.bytes == 1550 and peak.idle == 0
    assert [(held.kind, held.bytes) for held in peak.holdings] == [
        ("weights", 1000),
        ("saved for backward", 400),
        ("gradients", 100),
        ("scratch", 50),
    ]
    assert peak.holdings[1].module == "net.a" and peak.holdings[1].line == "a.py:1"
    summary = profile_of(recorded, {0x99: 1000}).memory_summary()
    assert "peak of 1.5 KiB" in summary and "saved for backward" in summary


def test_files(tmp_path):
    recorded = events(
        kernels=[kernel("net.a <mm>", MS, 2 * MS, flops=10**6)],
        hosts=[host("launch", 0, MS), host("compile", 0, MS, name="compiled: first")],
        runs=[Run(1, 5, MS, 3 * MS, "a.py:9", True, [])],
        cores=[CoreSpan(0, 0, MS, 2 * MS), CoreSpan(-1, 1, MS, 2 * MS)],
        memory=[MemoryEvent(5, 0x20, 100, 1, 0)],
    )
    made = profile_of(recorded)
    made.html(tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text()
    assert (
        "net.a &lt;mm&gt;" in page
        and "<mm>" not in page
        and "http" not in page.replace("http://www.w3.org/2000/svg", "")
    )
    made.csv(tmp_path / "p.csv")
    (row,) = csv.DictReader((tmp_path / "p.csv").read_text().splitlines())
    assert row["name"] == "net.a <mm>" and int(row["time_ns"]) == MS and row["program"] == "1"
    made.trace(tmp_path / "p.json")
    shown = json.loads((tmp_path / "p.json").read_text())["traceEvents"]
    rows = {each["args"]["name"] for each in shown if each["name"] == "thread_name"}
    assert rows == {"programs", "kernels", "core 0", "core 1"}
    (found,) = [each for each in shown if each["name"] == "net.a <mm>" and each["tid"] == 1]
    assert (found["ts"], found["dur"]) == (1000, 1000) and found["args"]["line"] == "a.py:1"


def test_comparison_is_per_step():
    def made(time):
        return profile_of(events(kernels=[kernel("a", 0, time)], hosts=STEPS))

    assert "+1.000" in made(5 * MS).compare(made(10 * MS)).splitlines()[1]


def test_an_open_profile_has_no_events():
    made = views.Profile()
    assert "recorded" in str(made)
    with pytest.raises(RuntimeError, match="when its `with` block has ended"):
        made.kernels  # noqa: B018


def test_colours_and_ticks_of_charts():
    assert charts.round_ticks(0, 9, 4) == [0, 5]
    assert chrome_trace.render(events())["displayTimeUnit"] == "ms"
