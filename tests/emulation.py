"""Runs assembly on the emulator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ftm_backend import assembler
from ftm_backend.machine import Machine


def run_assembly(
    assembly: object,
    inputs: Sequence[np.ndarray],
    scalars: Sequence[float] = (),
    *,
    cores: int,
    checked: bool = True,
) -> list[np.ndarray]:
    """Results of assembly, as text or as a program, on a new machine in checked mode."""
    with Machine(cores=cores, checked=checked) as machine:
        return machine.load(assembler.assemble(assembly)).run(list(inputs), list(scalars))
