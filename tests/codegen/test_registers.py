"""Register allocation: values that live at once never share one, and pressure moves arithmetic to
its uses."""

import re

import numpy as np

from ftm_backend.codegen import linearize
from ftm_backend.codegen.linear_scan import VIRTUAL, allocate
from ftm_backend.ir.asm.parser import parse_function
from ftm_backend.ir.asm.printer import instruction


def copies(count):
    """o0 = b0 element by element through ``count`` transfers whose addresses all differ in one
    loop."""

    def build(b):
        x, y = b.buffer("b0", "f32", 4096 * count), b.buffer("o0", "f32", 4096 * count)
        X = b.tile("f32", 1, 1)
        zero = b.sub(b.core_id(), b.core_id())
        with b.if_(b.compare("eq", b.core_id(), 0)), b.for_(0, 3) as i, b.for_(0, 2) as j:
            for n in range(count):
                outer = b.rem(b.add(b.mul(i, n + 1), n), 4096)
                at = b.add(b.add(b.mul(outer, count), n), b.mul(j, 4096 // 2 * count))
                b.load(x, b.add(at, zero), X, 0, [1, 1], [1, 1], 1)
                b.store(X, 0, y, b.add(at, zero), [1, 1], [1, 1], 1)

    return build


def reference(count, x):
    """Where the copies go, and what they bring there."""
    places = set()
    for i in range(3):
        for j in range(2):
            for n in range(count):
                at = (i * (n + 1) + n) % 4096 * count + n + j * 2048 * count
                places.add(at)
    places = sorted(places)
    return places, x[places]


def test_more_addresses_than_registers(lab):
    for count in (5, 40, 90):
        x = np.arange(1, 4096 * count + 1, dtype=np.float32)
        text = lab.text(copies(count), [("f32", [x.size])], [("f32", [x.size])])
        assert max(map(int, re.findall(r"\br(\d+)", text))) < 64
        places, expected = reference(count, x)
        np.testing.assert_array_equal(lab.run(text, [x])[0][places], expected)


def test_every_placement_computes_the_same(lab, monkeypatch):
    x = np.arange(1, 4096 * 7 + 1, dtype=np.float32)
    for placement in linearize.PLACEMENTS:
        monkeypatch.setattr(linearize, "PLACEMENTS", (placement,) * 3)
        text = lab.text(copies(7), [("f32", [x.size])], [("f32", [x.size])])
        places, expected = reference(7, x)
        np.testing.assert_array_equal(lab.run(text, [x])[0][places], expected)


def test_a_value_used_in_a_loop_keeps_its_register_to_the_loop_s_end():
    outside, inside, counter = range(VIRTUAL, VIRTUAL + 3)
    lines = f"""\
    SMOV 1, r{outside}
    SMOV 0, r{counter}
  LOOP_f_0: 1, 2
    SADD r{outside}, 1, r{inside}
    SADD r{inside}, 1, r{inside}
    SADD r{counter}, 1, r{counter}
  [r{counter}] SBR LOOP_f_0"""
    code = parse_function(lines.splitlines()).items
    printed = [instruction(i) for i in allocate(code, range(3)) if hasattr(i, "operands")]
    assert printed == [
        "SMOV 1, r0",
        "SMOV 0, r1",
        "SADD r0, 1, r2",
        "SADD r2, 1, r2",
        "SADD r1, 1, r1",
        "[r1] SBR LOOP_f_0",
    ]


def test_functions_that_call_use_other_registers_than_the_called(lab):
    text = lab.text(copies(3), [("f32", [12288])], [("f32", [12288])])
    kernel = text[text.index("@func kernel_0") : text.index("@func main")]
    assert max(map(int, re.findall(r"\br(\d+)", kernel))) < 64 - linearize.CALLER_REGISTERS
