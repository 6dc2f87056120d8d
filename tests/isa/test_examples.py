"""Every instruction's example in the manual assembles, prints and parses back, and computes what it
says."""

import numpy as np
import pytest

from ftm_backend import assembler
from ftm_backend.docgen.example_programs import case
from ftm_backend.ir import asm
from ftm_backend.machine import Machine
from ftm_backend.target.instruction_table import INSTRUCTIONS

ROWS = pytest.mark.parametrize("row", INSTRUCTIONS, ids=lambda row: row.name)


@pytest.fixture(scope="module", params=[False, True], ids=["fast", "checked"])
def machine(request):
    return Machine(cores=1, checked=request.param)


@ROWS
def test_example_computes_what_the_manual_says(row, machine):
    example = case(row)
    results = machine.load(assembler.assemble(example.text)).run(example.inputs, example.scalars)
    assert len(results) == len(example.outputs)
    for result, expected in zip(results, example.outputs, strict=True):
        assert result.dtype == expected.dtype
        if expected.dtype.kind == "f":
            # The mathematical functions of F64 may be some units in the last place away from
            # libm's.
            np.testing.assert_allclose(result, expected, rtol=1e-13, atol=1e-15)
        else:
            np.testing.assert_array_equal(result, expected)


@ROWS
def test_example_round_trips(row):
    text = str(asm.parse(case(row).text))
    assert str(asm.parse(text)) == text
    assert assembler.assemble(text) == assembler.assemble(asm.parse(text))


@ROWS
def test_example_shows_its_own_instruction(row):
    example = row.example
    assert row.name in (case(row).text if not row.in_map else example.body)
    assert example.outputs and all(values for _, _, values in example.outputs.values())


@ROWS
def test_row_is_complete(row):
    assert row.doc.endswith(".") and row.formula
    assert row.operands or row.name in ("@ret", "BARRIER", "DWAITALL")
    assert row.cost.latency >= 0
    if row.in_map:
        assert row.types or row.name in ("VIDX", "VPHILOX")
    assert row.cost.slots or row.macro or row.name in ("@map", "VBITC"), (
        "it costs something, or says what it consists of"
    )
