"""What is compiled for FT-Matrix equals the CPU, in checked mode, on one core and on all."""

from __future__ import annotations

from pathlib import Path

import pytest

from python_process import Program

PROGRAMS = Path(__file__).with_name("target_programs.py")


@pytest.mark.parametrize(
    ("machine", "cores"), [("m7032", 1), ("m7032", 7), ("m7032", 8), ("m7002", 2)]
)
def test_results_and_gradients(machine: str, cores: int) -> None:
    environment = {
        "FTM_MACHINE": machine,
        "FTM_CORES": str(cores),
        "FTM_CHECKED": "1",
        "FTM_STRICT": "1",
    }
    done = Program(PROGRAMS, environment=environment).wait(600)
    assert done.returncode == 0, done.stderr[-3000:]
