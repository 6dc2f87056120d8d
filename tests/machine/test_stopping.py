"""Programs that would not end: interrupts, the limit on instructions, barriers that a core never
reaches."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

from ftm_backend import assembler
from ftm_backend.machine import Machine, MachineError
from ftm_backend.machine.emulator import Interrupted
from machine.machine_programs import run_text

ENDLESS = """@program t, host
@in b0, f32, 4
@out o0, f32, 4, b0
@func main
  @tile X, am, f32, 1x4, 1, 0
    DLD b0[0], 1@1 | 4@1, X
    DWAIT X
    {before}
    SMOV 1, r1
  LOOP_main_0: 1, 100
    SADD r2, 1, r2
    [r1] SBR LOOP_main_0
    DST X, o0[0], 1@1 | 4@1
@ret
"""
LOOP = ENDLESS.format(before="")
FINITE = LOOP.replace("SMOV 1, r1", "SMOV 0, r1").replace("    DST", "    SCID r3\n    [!r3] DST")
ONE_WAITS = """@program t, host
@out o0, f32, 4
@func main
    SCID r1
    [{when}] BARRIER
@ret
"""


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("checked", [False, True])
def test_an_endless_loop_ends_at_the_limit(cores, checked):
    with Machine(cores=cores, checked=checked, instructions=10_000) as machine:
        with pytest.raises(
            MachineError,
            match=r"line 12: `\[r1\] SBR LOOP_main_0`: core \d has executed 1000\d instructions.*10000",
        ):
            run_text(machine, LOOP, [np.zeros(4, np.float32)])
        run_text(machine, FINITE, [np.zeros(4, np.float32)])


def test_calls_that_double_at_every_level_end_at_the_limit():
    levels = "".join(
        f"@func f{k}\n    @call f{k + 1}\n    @call f{k + 1}\n@ret\n" for k in range(60)
    )
    text = f"@program t, host\n@out o0, f32, 1\n{levels}@func f60\n@ret\n@func main\n    @call f0\n@ret\n"
    with (
        Machine(cores=1, instructions=10_000) as machine,
        pytest.raises(MachineError, match="executed 1000"),
    ):
        run_text(machine, text)


@pytest.mark.parametrize("when", ["r1", "!r1"])
@pytest.mark.parametrize("cores", [2, 5])
def test_a_barrier_that_a_core_never_reaches_is_a_fault(when, cores):
    text = ONE_WAITS.format(when=when)
    with Machine(cores=cores) as machine:
        for _ in range(200):
            with pytest.raises(MachineError, match="line 5: `.* BARRIER`: core .* never reaches"):
                run_text(machine, text)
        run_text(machine, text.replace(f"[{when}] ", ""))


def test_the_limit_frees_those_who_wait_for_an_endless_core():
    text = LOOP.replace("SMOV 1, r1", "SCID r1").replace("    DST", "    BARRIER\n    DST")
    with (
        Machine(cores=3, instructions=100_000) as machine,
        pytest.raises(MachineError, match="core [12] has executed"),
    ):
        run_text(machine, text, [np.zeros(4, np.float32)])


@pytest.mark.parametrize("cores", [1, 2])
def test_an_interrupt_stops_a_run_and_what_waits_behind_it(cores):
    with Machine(cores=cores) as machine:
        x = np.arange(4, dtype=np.float32)
        program = machine.load(assembler.assemble(LOOP))
        jobs = [program.submit([x], donate=[0]) for _ in range(2)]
        time.sleep(0.05)
        assert not jobs[0].done()
        for job in reversed(jobs):
            job.interrupt()
        for job in jobs:
            with pytest.raises(Interrupted, match="was interrupted"):
                job.wait()
        assert list(x) == [0, 1, 2, 3]
        run_text(machine, FINITE, [x])
        assert machine.stats().faults == 0


def test_a_run_that_has_written_over_an_input_goes_on():
    text = ENDLESS.format(before="DST X, o0[0], 1@1 | 4@1\n    DWAIT X").replace(
        "SADD r2, 1, r2", "SADD r2, 1, r2\n    SLT r2, 50000000, r1"
    )
    with Machine(cores=1) as machine:
        x = np.ones(4, np.float32)
        job = machine.load(assembler.assemble(text)).submit([x], donate=[0])
        time.sleep(0.05)
        assert not job.done()
        job.interrupt()
        job.wait()


def test_ctrl_c_ends_a_run():
    with Machine(cores=2) as machine:
        program = machine.load(assembler.assemble(LOOP))
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            program.run([np.zeros(4, np.float32)])
        assert time.monotonic() - begin < 10
