"""The compile server: its imports, its answers, and its end when the last client is gone."""

import os
import signal
import subprocess
import sys
import time
import warnings

import pytest

import ftm_lazy
from ftm_backend.compile_server import pack, source_hash, unpack
from ftm_lazy.compile.worker import CompileError, Worker
from python_process import run_python

TRACE = """trace
  %0 = param f32[4,8]
  $0 = scalar f64
  %1 = aten::mul.Scalar(self=%0, other=$0) : f32[4,8]
  %2 = aten::relu(self=%1) : f32[4,8]
  return %2
"""
REQUEST = {"machine": "host", "cores": 2, "tune": "", "texts": True}


@pytest.fixture(scope="module")
def service():
    made = Worker(timeout=120.0)
    yield made
    made.close()


def test_frames_survive_any_cut():
    frames = [({"a": 1}, b""), ({}, b"\0" * 1000), ({"text": "ü\n"}, b"x")]
    stream = b"".join(pack(*frame) for frame in frames)
    for size in (1, 7, 100, len(stream)):
        received, found = bytearray(), []
        for begin in range(0, len(stream), size):
            received += stream[begin : begin + size]
            while frame := unpack(received):
                found.append(frame)
        assert found == frames and not received


def test_compiles(service):
    from ftm_backend.executable import Executable

    program, seconds = service.compile(TRACE, REQUEST)
    executable = Executable.from_bytes(program)
    assert tuple(executable.texts) == ftm_lazy.debug.STAGES
    assert executable.texts["trace"] == TRACE
    assert executable.texts["asm"] == executable.asm and "@func main" in executable.asm
    assert executable.image and seconds > 0
    assert service.source == source_hash()


def test_compiles_to_the_same_in_every_process(service):
    other = Worker(timeout=120.0)
    try:
        assert other.compile(TRACE, REQUEST)[0] == service.compile(TRACE, REQUEST)[0]
    finally:
        other.close()


def test_bad_traces_are_errors_and_the_process_stays(service):
    service.compile(TRACE, REQUEST)
    pid = service.pid
    for text in ("", "trace\n  return %7\n", TRACE.replace("relu", "no_such_op")):
        with pytest.raises(CompileError):
            service.compile(text, REQUEST)
    assert service.pid == pid
    service.compile(TRACE, REQUEST)


def test_imports_no_torch():
    code = (
        "import sys; from ftm_backend import compile_server, driver; compile_server._warm_up()\n"
        "from ftm_backend.compile_options import CompileOptions\n"
        "driver.compile(sys.argv[1], CompileOptions())\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('torch', 'ftm_lazy')])"
    )
    run = subprocess.run([sys.executable, "-c", code, TRACE], capture_output=True, text=True)
    assert run.stdout.strip() == "[]", run.stderr


def gone(pid: int, seconds: float = 10.0) -> bool:
    """Whether the process ends within `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("end", ["sys.exit()", "os._exit(1)", "os.kill(os.getpid(), 9)"])
def test_ends_with_its_client(end):
    code = (
        "import os, sys; from ftm_lazy.compile.worker import Worker\n"
        "service = Worker(60.0); service.start(); print(service.pid, flush=True); " + end
    )
    run = run_python(code, timeout=60)
    assert gone(int(run.stdout))


def test_ctrl_c_does_not_end_it():
    service = Worker(timeout=120.0)
    try:
        service.compile(TRACE, REQUEST)
        pid = service.pid
        os.kill(pid, signal.SIGINT)
        service.compile(TRACE, REQUEST)
        assert service.pid == pid
    finally:
        service.close()


OTHER = TRACE.replace("relu", "tanh")


@pytest.fixture
def pair():
    """A worker whose process is a copy of the other's, and that one."""
    copy = Worker(timeout=120.0)
    maker = Worker(timeout=120.0, forks=[copy])
    yield maker, copy
    for worker in (maker, copy):
        worker.close()


def test_a_copy_compiles_the_same(pair):
    maker, copy = pair
    program, _ = maker.compile(TRACE, REQUEST)
    made, _ = copy.compile(TRACE, REQUEST)
    assert made == program and copy.pid != maker.pid
    assert copy.source == maker.source == source_hash()
    with open(f"/proc/{copy.pid}/stat") as file:
        assert int(file.read().rpartition(")")[2].split()[1]) == maker.pid, (
            "it was made by the first"
        )


@pytest.mark.parametrize("killed", [0, 1])
def test_either_goes_on_without_the_other(pair, killed):
    for worker in pair:
        worker.compile(TRACE, REQUEST)
    gone_one, other = pair[killed], pair[1 - killed]
    pid, kept = gone_one.pid, other.pid
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
    other.compile(OTHER, REQUEST)
    assert other.pid == kept
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert gone_one.compile(OTHER, REQUEST)
    assert gone_one.pid not in (pid, kept)


def test_the_maker_dies_before_it_has_made_a_copy(pair):
    maker, copy = pair
    maker.start()
    os.kill(maker.pid, signal.SIGKILL)
    with pytest.warns(RuntimeWarning, match="is restarted"):
        assert copy.compile(TRACE, REQUEST)


def test_both_end_with_their_client():
    code = (
        "import os, sys; from ftm_lazy.compile.worker import Worker\n"
        "copy = Worker(60.0); maker = Worker(60.0, forks=[copy])\n"
        f"for one in (maker, copy): one.compile({TRACE!r}, {REQUEST!r}); print(one.pid, flush=True)\n"
        "os._exit(1)"
    )
    run = run_python(code, timeout=60)
    pids = [int(word) for word in run.stdout.split()]
    assert len(pids) == 2 and all(map(gone, pids))


def test_closing_ends_a_copy(pair):
    maker, copy = pair
    maker.compile(TRACE, REQUEST)
    copy.compile(TRACE, REQUEST)
    pid = copy.pid
    copy.close()
    assert gone(pid) and copy.compile(TRACE, REQUEST)
