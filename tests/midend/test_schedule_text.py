"""The schedule of a contraction: printed on the kernel, read back, and edited by hand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from ftm_backend import assembler, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.machine import Machine
from ftm_backend.midend.schedule.gemm.schedule import Schedule
from midend.test_conv_transpose import square

TRACE = """trace
  %0 = param f32[300,200]
  %1 = param f32[200,260]
  %2 = aten::mm(self=%0, mat2=%1) : f32[300,260]
  %3 = aten::relu(self=%2) : f32[300,260]
  return %3
"""


def kernels(machine: str, cores: int) -> str:
    return str(driver.run_from("trace", TRACE, "fuse-ops", options(machine, cores)))


def options(machine: str, cores: int) -> CompileOptions:
    return CompileOptions(machine=machine, cores=cores)


def printed(text: str) -> str:
    (found,) = re.findall(r'schedule = "([^"]*)"', text)
    return str(found)


@pytest.mark.parametrize(("machine", "depth"), [("m7032", 2), ("host", 1)])
def test_a_schedule_is_read_back(machine: str, depth: int) -> None:
    text = printed(kernels(machine, 8))
    found = Schedule.parse(text)
    assert found.depth == depth and str(found) == text and found.is_constant


@pytest.mark.parametrize("machine", ["m7032", "host"])
def test_kernels_of_a_text_compile_to_the_same_program(machine: str) -> None:
    wanted = driver.run_from("trace", TRACE, "asm", options(machine, 8))
    assert driver.run_from("fuse-ops", kernels(machine, 8), "asm", options(machine, 8)) == wanted


@pytest.mark.parametrize(
    "kinds", ["contraction-with-reduction, contraction-with-prologue", "col2im"]
)
def test_schedules_of_prologues_sums_and_col2im_are_read_back(kinds: str) -> None:
    trace = str(square("input", 28, 3, 2))
    if kinds != "col2im":
        trace = (Path(__file__).parents[1] / "golden/conv_prologue.trace").read_text()
    text = str(driver.run_from("trace", trace, "outline-kernels", options("m7032", 8)))
    assert ", ".join(re.findall(r'kind = "([\w-]+)".* schedule = "depth=2 ', text)) == kinds
    wanted = driver.run_from("trace", trace, "asm", options("m7032", 8))
    assert driver.run_from("outline-kernels", text, "asm", options("m7032", 8)) == wanted


EDITS = {
    "smaller blocks of k": (r" k=0:\d+:\d+:\d+", " k=0:40:40:5"),
    "the other loop outside": (r" m_outer=(\d)", lambda found: f" m_outer={1 - int(found[1])}"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_schedule_that_is_edited_by_hand_runs(edit: str) -> None:
    text = kernels("m7032", 4)
    edited = re.sub(*EDITS[edit], text)
    assert edited != text
    assemblies = [
        driver.run_from("fuse-ops", t, "asm", options("m7032", 4)) for t in (text, edited)
    ]
    assert assemblies[0] != assemblies[1]
    generator = np.random.default_rng(0)
    x, w = (generator.integers(-3, 4, shape).astype("f4") for shape in ((300, 200), (200, 260)))
    with Machine(cores=4, checked=True) as machine:
        (got,) = machine.load(assembler.assemble(assemblies[1])).run([x, w], [])
    np.testing.assert_array_equal(got, np.maximum(x @ w, 0))


def test_the_host_runs_a_schedule_of_depth_2() -> None:
    text = kernels("host", 2)
    edited = text.replace(printed(text), printed(kernels("m7032", 2)))
    assembly = driver.run_from("fuse-ops", edited, "asm", options("host", 2))
    assert assembly != driver.run_from("fuse-ops", text, "asm", options("host", 2))
    generator = np.random.default_rng(0)
    x, w = (generator.integers(-3, 4, shape).astype("f4") for shape in ((300, 200), (200, 260)))
    with Machine(cores=2, checked=True) as machine:
        (got,) = machine.load(assembler.assemble(assembly)).run([x, w], [])
    np.testing.assert_array_equal(got, np.maximum(x @ w, 0))


@pytest.mark.parametrize(
    ("field", "edited", "message"),
    [
        (r" k=0:\d+:\d+:\d+", " k=0:40:40:4", r"k=0:40:40:4 does not cover .* use k=0:40:40:5"),
        (r" n=0:\d+:\d+:\d+", " n=1:20:20:13", "n has 1 dimensions"),
        (r" m_outer=\d", " m_outer=1 chunks=99", "chunks is 1 to"),
        (r"depth=2", "depth=3", "depth is 1 or 2"),
    ],
)
def test_a_schedule_of_another_contraction_is_refused(
    field: str, edited: str, message: str
) -> None:
    text = re.sub(field, edited, kernels("m7032", 4))
    with pytest.raises(driver.CompileError, match=message):
        driver.run_from("fuse-ops", text, "asm", options("m7032", 4))


def test_an_unknown_kind_of_kernel_is_refused() -> None:
    text = kernels("m7032", 4).replace('kind = "contraction"', 'kind = "product"')
    with pytest.raises(driver.CompileError, match="no kind of kernel 'product': use one of loop-"):
        driver.run_from("fuse-ops", text, "asm", options("m7032", 4))


def test_a_schedule_that_does_not_fit_on_chip_is_refused() -> None:
    """Instead of a plan with smaller blocks."""
    trace = TRACE.replace("300", "3000").replace("200", "2000").replace("260", "2600")
    text = str(driver.run_from("trace", trace, "fuse-ops", options("m7032", 4)))
    size = "depth=2 m=0:3000:3000:1 n=0:2600:2600:1 k=0:2000:2000:1 m_outer=1"
    with pytest.raises(driver.CompileError, match="needs .* bytes of AM at once"):
        driver.run_from("fuse-ops", text.replace(printed(text), size), "asm", options("m7032", 4))


def test_a_kernel_with_a_schedule_of_its_own_is_not_fused() -> None:
    """A rule that joins kernels would plan them anew."""
    trace = (Path(__file__).parents[1] / "golden/conv_prologue.trace").read_text()
    text = str(driver.run_from("trace", trace, "fuse-ops", options("m7032", 8)))
    edited = re.sub(r" chunks=\d+| c_buffers=\d", "", text)
    kinds = [
        re.findall(
            r'kind = "(contraction-with-\w+)"',
            str(driver.run_from("fuse-ops", source, "outline-kernels", options("m7032", 8))),
        )
        for source in (text, edited)
    ]
    assert edited != text and kinds[0] and not kinds[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("depth=2 m=0:3:3", "m of a schedule is dimension:size:elements:blocks"),
        ("depth=2 width=3", "no field 'width'"),
        ("depth=1 m_outer=1", "needs m, n, k"),
        ("depth=2 share=c", "share of a schedule is one of none, a, b"),
    ],
)
def test_a_wrong_schedule_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Schedule.parse(text)
