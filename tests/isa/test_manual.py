"""docs/isa.md is what the table generates, and its longer programs are right."""

import re

import numpy as np

from ftm_backend import assembler
from ftm_backend.docgen import isa_manual as manual
from ftm_backend.machine import Machine
from ftm_backend.target import instruction_table


def test_manual_is_fresh():
    assert manual.main(["--check"]) == 0


def test_every_instruction_has_a_chapter():
    text = manual.PATH.read_text()
    for row in instruction_table.INSTRUCTIONS:
        name = row.name.strip("@")
        assert f"\n### {name}\n" in text
        assert f"](#{name.lower()})" in text
    assert text.count("\n- Example: ") == len(instruction_table.INSTRUCTIONS)


def test_every_program_in_the_manual_assembles():
    programs = re.findall(r"```\n(@program.*?)```", manual.PATH.read_text(), re.DOTALL)
    assert len(programs) > 30
    for text in programs:
        assembler.assemble(text)


def test_the_complete_program_computes_on_any_number_of_cores():
    text = re.search(r"```\n(@program axpb.*?)```", manual.PATH.read_text(), re.DOTALL)[1]
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    for cores in (1, 2, 3):
        for checked in (False, True):
            (y,) = Machine(cores=cores, checked=checked).load(assembler.assemble(text)).run([x], [])
            np.testing.assert_array_equal(y, 2 * x + 1)
