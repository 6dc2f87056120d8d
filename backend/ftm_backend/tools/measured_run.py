"""Measures a program's kernels on the host, where the emulator runs them."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from ftm_backend import assembler
from ftm_backend.ir import asm
from ftm_backend.ir.asm.call_comments import called_functions
from ftm_backend.machine import Machine, array_compare
from ftm_backend.machine.emulator import BARRIER

_RUNS = 3
"""The first run touches memory for the first time, so the fastest one counts."""


def measure(text: str, cores: int, limit: int) -> dict[str, float]:
    """Run a program on random data.

    Args:
        text: The assembly.
        cores: Number of the emulator's cores; each is a thread.
        limit: Instructions of a core after which the program counts as endless.

    Returns:
        Seconds of each function, from the first core's begin to the last core's end, all calls
        together. The seconds of the fastest of some runs.

    Raises:
        MachineError: The program faulted, for example because random indices are out of range.
    """
    program = asm.parse(text)
    functions = called_functions(program)
    generator = np.random.default_rng(0)
    inputs = [array_compare.random_array(generator, buffer) for buffer in program.buffers("in")]
    scalars = [1 for _ in program.scalars()]
    best: dict[str, float] = {}
    with Machine(cores=cores, instructions=limit) as machine:
        loaded = machine.load(assembler.assemble(program))
        machine.record_spans()
        for _ in range(_RUNS):
            job = loaded.submit(inputs, scalars)
            job.wait()
            times: dict[str, float] = defaultdict(float)
            spans: dict[tuple[int, int], list[int]] = {}
            executions: dict[tuple[int, int], int] = defaultdict(int)
            for span in job.spans:
                if span.call == BARRIER:
                    continue
                execution = executions[span.core, span.call]
                executions[span.core, span.call] += 1
                whole = spans.setdefault((span.call, execution), [span.begin, span.end])
                whole[0], whole[1] = min(whole[0], span.begin), max(whole[1], span.end)
            for (call, _), (begin, end) in spans.items():
                times[functions[call]] += (end - begin) / 1e9
            if not best or sum(times.values()) < sum(best.values()):
                best = dict(times)
    return best
