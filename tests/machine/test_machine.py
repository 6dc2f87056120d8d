"""The machine as a library: jobs, cores, control flow, statistics, and what it refuses."""

from __future__ import annotations

import os
import random
import threading

import numpy as np
import pytest

from ftm_backend import assembler
from ftm_backend.ir import asm
from ftm_backend.machine import Machine, MachineError
from machine.machine_programs import run_text

ADD = """@program add, host
@in b0, f32, 64x64
@scalar s0, f64
@out o0, f32, 64x64, b0
@func main
  @tile X, am, f32, 8x64, 2, 0
    SCID r1
    SNC r2
  LOOP_main_0: 1, 8
    SMUL r1, 512, r3
    DLD b0[r3], 8@64 | 64@1, X[r1]
    DWAIT X[r1]
    @map 8 x 64, X[r1]:v0 -> X[r1]:v1
      VADD.F32 v0, s0, v1
    @endmap
    DST X[r1], o0[r3], 8@64 | 64@1
    DWAIT X[r1]
    SADD r1, r2, r1
    SLT r1, 8, r4
    [r4] SBR LOOP_main_0
@ret
"""
DATA = np.arange(4096, dtype=np.float32).reshape(64, 64)


@pytest.mark.parametrize("cores", [1, 2, 3, 8])
@pytest.mark.parametrize("checked", [False, True])
def test_any_number_of_cores(cores, checked):
    with Machine(cores=cores, checked=checked) as machine:
        assert machine.cores == cores
        np.testing.assert_array_equal(
            run_text(machine, ADD, [DATA], (1.5,))[0], DATA + np.float32(1.5)
        )


def test_signature(fast):
    program = fast.load(assembler.assemble(ADD))
    assert [(t.name, t.token, t.shape) for t in program.inputs] == [("b0", "f32", (64, 64))]
    assert [(t.name, t.token) for t in program.scalars] == [("s0", "f64")]
    assert [(t.name, t.alias) for t in program.outputs] == [("o0", 0)]
    assert program.arena_bytes == 0


def test_a_donated_input_becomes_the_output(pair):
    x = DATA.copy()
    got = pair.load(assembler.assemble(ADD)).run([x], [2.0], donate=[0])[0]
    assert np.shares_memory(got, x)
    np.testing.assert_array_equal(x, DATA + 2)


def test_jobs_run_in_order(pair):
    x = np.zeros((64, 64), np.float32)
    program = pair.load(assembler.assemble(ADD))
    jobs = [program.submit([x], [1.0], donate=[0]) for _ in range(300)]
    jobs[-1].wait()
    assert (x == 300).all() and all(job.done() for job in jobs)


def test_threads_may_share_a_machine(pair):
    program = pair.load(assembler.assemble(ADD))
    wrong = []

    def work(k: int) -> None:
        for i in range(50):
            if not np.array_equal(program.run([DATA], [k + i])[0], DATA + np.float32(k + i)):
                wrong.append((k, i))

    threads = [threading.Thread(target=work, args=(1000 * k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_thousand_barriers(pair):
    text = """@program t, host
@out o0, i64, 1
@arena t0, 0, i64, 2
@func bump
  @tile X, am, i64, 1x1, 1, 0
    // each core in turn adds one to what the other has left
    SREM r5, r2, r6
    SEQ r6, r1, r6
    [r6] DLD t0[0], 1@1 | 1@1, X
    DWAIT X
    [r6] @call add
    [r6] DST X, t0[0], 1@1 | 1@1
    BARRIER
@ret
@func add
  @tile X, am, i64, 1x1, 1, 0
    @map 1 x 1, X:v0 -> X:v1
      VADD.I64 v0, 1, v1
    @endmap
@ret
@func main
  @tile X, am, i64, 1x1, 1, 0
    SCID r1
    SNC r2
    @map 1 x 1 -> X:v0
      VMOV.I64 0, v0
    @endmap
    [!r1] DST X, t0[0], 1@1 | 1@1
    DWAITALL
    BARRIER
  LOOP_main_0: 1000, 1000
    @call bump
    SADD r5, 1, r5
    SLT r5, 1000, r7
    [r7] SBR LOOP_main_0
    DLD t0[0], 1@1 | 1@1, X
    DWAIT X
    [!r1] DST X, o0[0], 1@1 | 1@1
@ret
"""
    assert run_text(pair, text)[0][0] == 1000


# Each core adds one to its element `rounds` times; then another core reads it.
TURNS = """@program t, host
@out o0, i64, 4
@arena t0, 0, i64, 4
@func add
  @tile X, am, i64, 1x1, 1, 0
    DLD t0[r4], 1@1 | 1@1, X
    DWAIT X
    @map 1 x 1, X:v0 -> X:v1
      VADD.I64 v0, 1, v1
    @endmap
    DST X, t0[r4], 1@1 | 1@1
    DWAITALL
@ret
@func main
  @tile X, am, i64, 1x1, 1, 0
    SCID r1
    SNC r2
    SMOV r1, r4
    @map 1 x 1 -> X:v0
      VMOV.I64 0, v0
    @endmap
    DST X, t0[r4], 1@1 | 1@1
    DWAITALL
  LOOP_main_0: {rounds}, {rounds}
    @call add
    SADD r5, 1, r5
    SLT r5, {rounds}, r7
    [r7] SBR LOOP_main_0
    BARRIER
    SADD r1, 1, r4
    SREM r4, r2, r4
    DLD t0[r4], 1@1 | 1@1, X
    DWAIT X
    BARRIER
    DST X, o0[r4], 1@1 | 1@1
@ret
"""


@pytest.mark.parametrize("cores", [2, 3])
@pytest.mark.parametrize("rounds", [1, 300, 3000])
@pytest.mark.parametrize("checked", [False, True])
def test_threads_share_the_parts_of_cores(cores, rounds, checked):
    """The number of processors that a run leaves to others changes while it runs."""
    image = assembler.assemble(TURNS.format(rounds=rounds))
    with Machine(cores=cores, checked=checked) as machine:
        program = machine.load(image)
        for _ in range(10):
            jobs = [program.submit([]) for _ in range(3)]
            for left in (len(os.sched_getaffinity(0)), 1, 0):
                machine.leave_processors(left)
            for job in jobs:
                assert job.wait()[0][:cores].tolist() == [rounds] * cores


# Core 1 works for `rounds` rounds between two barriers, and core 0 waits.
UNEVEN = """@program t, host
@out o0, i64, 4
@func main
  @tile X, am, i64, 1x1, 1, 0
    SCID r1
    SMUL r1, {rounds}, r6
    @map 1 x 1 -> X:v0
      VMOV.I64 7, v0
    @endmap
    BARRIER
  LOOP_main_0: 1, {rounds}
    SADD r5, 1, r5
    SLT r5, r6, r7
    [r7] SBR LOOP_main_0
    BARRIER
    BARRIER
    DST X, o0[r1], 1@1 | 1@1
@ret
"""


def test_a_thread_that_leaves_its_processor_wakes_the_leader():
    """A follower opens a superstep without waking the leader, since the run is short, and leaves.

    Without a wake-up then, one of about 10,000 pairs of runs hung. This test found it in a quarter
    of its runs.
    """
    processors = len(os.sched_getaffinity(0))
    delays = random.Random(0)
    with Machine(cores=2) as machine:
        # the follower still spins after the long run, and so joins the short one
        long, short = (
            machine.load(assembler.assemble(UNEVEN.format(rounds=rounds)))
            for rounds in (20_000, 4_000)
        )
        for _ in range(3000):
            machine.leave_processors(0)
            jobs = [long.submit([]), short.submit([])]
            jobs[0].wait()
            for _ in range(delays.randrange(300)):
                pass
            machine.leave_processors(processors)
            assert jobs[1].done(60)


def test_scalar_arithmetic(fast):
    cases = [
        ("SADD", 2**63 - 1, 1, -(2**63)),
        ("SSUB", 3, 5, -2),
        ("SMUL", 2**62, 4, 0),
        ("SDIV", -7, 2, -4),
        ("SDIV", 7, 0, 0),
        ("SDIV", -(2**63), -1, -(2**63)),
        ("SREM", -7, 3, 2),
        ("SREM", 7, -3, -2),
        ("SREM", 7, 0, 0),
        ("SMIN", -1, 2, -1),
        ("SMAX", -1, 2, 2),
        ("SLT", 1, 1, 0),
        ("SEQ", 1, 2, 0),
        ("SNE", 1, 2, 1),
    ]
    body = "".join(
        f"    {op} {a}, {b}, r{k}\n    @map 1 x 1 -> X[{k}]:v0\n      VMOV.I64 r{k}, v0\n    @endmap\n    DST X[{k}], o0[{k}], 1@1 | 1@1\n"
        for k, (op, a, b, _) in enumerate(cases)
    )
    n = len(cases)
    text = f"@program t, host\n@out o0, i64, {n}\n@func main\n  @tile X, am, i64, 1x1, {n}, 0\n{body}@ret\n"
    np.testing.assert_array_equal(run_text(fast, text)[0], [want for *_, want in cases])


def test_statistics():
    with Machine(cores=2) as machine:
        run_text(machine, ADD, [DATA], (1.0,))
        stats = machine.stats()
    assert (stats.jobs, stats.faults, stats.mm_flops) == (1, 0, 0)
    assert stats.dma_bytes == 2 * DATA.nbytes and stats.map_elements == DATA.size
    assert stats.instructions > 50 and stats.nanoseconds > 0


def test_a_fault_ends_the_job_on_all_cores(pair):
    text = """@program t, host
@in b0, f32, 4
@out o0, f32, 4
@func main
  @tile X, am, f32, 1x4, 1, 0
    SCID r1
    SMUL r1, 100, r2
    DLD b0[r2], 1@4 | 4@1, X
    BARRIER
    DST X, o0[0], 1@4 | 4@1
@ret
"""
    for _ in range(20):
        with pytest.raises(MachineError, match="line 8.*core 1 reaches elements 100 to 103 of b0"):
            run_text(pair, text, [np.zeros(4, np.float32)])
    np.testing.assert_array_equal(run_text(pair, ADD, [DATA], (0.0,))[0], DATA)


def test_recursion_is_a_fault_or_refused(fast):
    text = "@program t, host\n@out o0, f32, 1\n@func f\n    @call f\n@ret\n@func main\n    @call f\n@ret\n"
    with pytest.raises((MachineError, asm.AsmError), match="recurs|itself"):
        run_text(fast, text)


def test_damaged_images_are_refused(fast):
    image = assembler.assemble(ADD)
    for bad, message in [
        (b"", "not a program image"),
        (b"x" * 1000, "not a program image"),
        (image[:-8], "damaged"),
        (image[:100], "damaged"),
        (image[:8] + b"\xff" * 4 + image[12:], "another version"),
    ]:
        with pytest.raises(MachineError, match=message):
            fast.load(bad)


def test_no_damage_crashes(fast):
    image = assembler.assemble(ADD)
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(2000):
        bad = bytearray(image)
        for at in rng.integers(64, len(bad), 3):
            bad[at] = rng.integers(0, 256)
        try:
            fast.load(bytes(bad))
        except MachineError:
            refused += 1
    assert refused > 100


def test_scratchpad_limits():
    with (
        Machine(cores=1, am_bytes=1024) as machine,
        pytest.raises(MachineError, match="needs 4096 bytes of AM, the machine has 1024"),
    ):
        machine.load(assembler.assemble(ADD))


def test_arguments_are_checked(fast):
    program = fast.load(assembler.assemble(ADD))
    for bad in (DATA.astype(np.float64), DATA[:32], DATA.T):
        with pytest.raises(ValueError, match="b0 must be a dense f32 array of shape"):
            program.run([bad], [0.0])
    with pytest.raises(ValueError):
        program.run([DATA], [])
    with pytest.raises(MachineError, match="cores must be 1 to 256"):
        Machine(cores=1000)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_machine_does_not_cross_a_fork(fast):
    program = fast.load(assembler.assemble(ADD))
    child = os.fork()
    if child == 0:
        try:
            program.run([DATA], [0.0])
        except MachineError as error:
            os._exit(0 if "another process" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("kernels", ["portable", "avx2", "avx512", "avx512_bf16", "avx512_amx"])
def test_instruction_sets_agree(kernels):
    """The same results from each set of inner loops that this host can run."""
    import subprocess
    import sys

    script = (
        "import numpy as np\nfrom ftm_backend import assembler\nfrom ftm_backend.machine import Machine\n"
        "from ftm_backend.docgen.example_programs import case\nfrom ftm_backend.target.instruction_table import INSTRUCTIONS\n"
        "m = Machine(cores=1)\nprint(m.description)\n"
        "for row in INSTRUCTIONS:\n"
        "    c = case(row)\n    p = m.load(assembler.assemble(c.text))\n"
        "    got = p.run([a.copy() for a in c.inputs], c.scalars, donate=[k for k, o in enumerate(p.outputs) if o.alias >= 0])\n"
        "    for g, w in zip(got, c.outputs, strict=True):\n"
        "        if w.dtype.kind == 'f': np.testing.assert_allclose(g, w, rtol=1e-6, err_msg=row.name)\n"
        "        else: np.testing.assert_array_equal(g, w, err_msg=row.name)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "MACHINE_KERNELS": kernels},
    )
    assert run.returncode == 0, run.stderr
    assert kernels != "portable" or "portable" in run.stdout
