"""The compiler's process may crash, hang, be killed or be interrupted: the client recovers or says
why not.

The service here is a stand-in that does what the trace's text tells it to; `test_service.py` has
the real one.
"""

import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import pytest

from ftm_lazy.compile import worker
from ftm_lazy.compile.worker import CompileError, Worker, WorkerError
from ftm_lazy.compile.worker_pool import WorkerPool

SERVICE = """
import os, signal, sys, time
from pathlib import Path
from ftm_backend.compile_server import pack, unpack

source, answers = map(int, sys.argv[-2:])

def send(frame):
    os.write(answers, frame)

print("noise of an interpreter that starts", flush=True)
send(pack({"source": "fake"}))
received = bytearray()
while chunk := os.read(source, 1 << 20):
    received += chunk
    while frame := unpack(received):
        header, body = frame
        word, _, rest = body.decode().partition(" ")
        if word == "crash" or (word == "crash_once" and not Path(rest).exists()):
            if rest:
                Path(rest).touch()
            print("the last words", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGSEGV)
        if word == "exit":
            sys.exit(3)
        if word == "stop" or (word == "stop_once" and not Path(rest).exists()):
            if rest:
                Path(rest).touch()
            os.kill(os.getpid(), signal.SIGSTOP)
        if word == "spin":
            while True:
                pass
        if word == "sleep":
            time.sleep(float(rest))
        if word == "wrong":
            send(pack({"id": header["id"], "ok": False, "error": "it is wrong; replay with: ftm-opt x"}))
        else:
            send(pack({"id": header["id"], "ok": True, "seconds": 0.5}, b"<" + body + b">"))
"""


@pytest.fixture
def start(tmp_path):
    """Makes workers, and ends them after the test."""
    made = []
    (tmp_path / "compile_server.py").write_text(textwrap.dedent(SERVICE))

    def make(timeout: float = 60.0, progress: bool = False) -> Worker:
        made.append(
            Worker(
                timeout,
                progress=progress,
                command=(sys.executable, str(tmp_path / "compile_server.py")),
            )
        )
        return made[-1]

    yield make
    for one in made:
        one.close()


def compile_text(service: Worker, text: str) -> bytes:
    return service.compile(text, {"machine": "host"})[0]


def test_starts_once_and_is_kept(start):
    service = start()
    assert service.pid is None and service.source is None
    assert service.compile("hello", {}) == (b"<hello>", 0.5)
    pid = service.pid
    assert service.source == "fake"
    assert compile_text(service, "again") == b"<again>"
    assert service.pid == pid


def test_large_requests_and_answers(start):
    text = "x" * (5 << 20)  # many times what a pipe holds
    assert compile_text(start(), text) == b"<" + text.encode() + b">"


def test_wrong_program_is_an_error_and_the_process_stays(start):
    service = start()
    compile_text(service, "hello")
    pid = service.pid
    with pytest.raises(CompileError, match="replay with: ftm-opt x"):
        compile_text(service, "wrong")
    assert service.pid == pid


def test_killed_while_idle(start):
    service = start()
    compile_text(service, "hello")
    os.kill(service.pid, signal.SIGKILL)
    os.waitid(os.P_PID, service.pid, os.WEXITED | os.WNOWAIT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing was lost, so nothing is said
        assert compile_text(service, "again") == b"<again>"


def test_killed_while_compiling(start):
    service = start()
    compile_text(service, "hello")
    threading.Timer(0.3, os.kill, (service.pid, signal.SIGKILL)).start()
    with pytest.warns(RuntimeWarning, match="was killed by signal 9 and is restarted"):
        assert compile_text(service, "sleep 1.5") == b"<sleep 1.5>"


@pytest.mark.parametrize("word", ["killed", "crash_once"])
def test_restarting_goes_on_where_warnings_are_errors(start, tmp_path, capfd, word):
    service = start()
    compile_text(service, "hello")
    if word == "killed":
        threading.Timer(0.3, os.kill, (service.pid, signal.SIGKILL)).start()
    text = "sleep 1.5" if word == "killed" else f"crash_once {tmp_path / 'mark'}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compile_text(service, text) == f"<{text}>".encode()
    assert "is restarted" in capfd.readouterr().err


def test_what_is_printed_before_the_service_runs_is_in_the_log_and_nowhere_else(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "print('x' * 100_000)\nimport os\nos.write(1, b'\\0' * 1000)\n"
    )
    trace = "trace\n  %0 = param f32[4]\n  %1 = aten::relu(self=%0) : f32[4]\n  return %1\n"
    service = Worker(60.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert service.compile(
                trace, {"machine": "host", "cores": 1, "tune": "", "texts": False}
            )[0]
    service.close()


def test_without_a_temporary_directory(start, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/nowhere/at/all")
    monkeypatch.setattr("tempfile.tempdir", "/nowhere/at/all")
    assert compile_text(start(), "hello") == b"<hello>"


def test_a_process_that_cannot_start_is_an_error_of_that_call_alone(start, monkeypatch):
    service = start()
    with monkeypatch.context() as patch:
        patch.setattr(service, "_command", ("/nowhere/python",))
        for _ in range(2):
            with pytest.raises(WorkerError, match="cannot be started: .*No such file"):
                compile_text(service, "hello")
        with pytest.raises(WorkerError):
            service.start()
    with monkeypatch.context() as patch:
        patch.setenv("FTM_TEST", "x")
        patch.setattr(os, "environ", os.environ | {"WRONG": "with a \0"})
        with pytest.raises(WorkerError, match="null byte"):
            compile_text(service, "hello")
    assert compile_text(service, "hello") == b"<hello>"
    open_before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(service, "_command", ("/nowhere/python",))
    service.close()
    for _ in range(20):
        with pytest.raises(WorkerError):
            service.start()
    assert len(os.listdir("/proc/self/fd")) <= open_before


def test_standard_streams_that_are_closed(tmp_path, start):
    """Then a pipe would take their numbers, and the process's own streams would be put in its
    place."""
    start()
    code = (
        "import os, sys; from ftm_lazy.compile.worker import Worker; os.close(0); os.close(1); os.close(2)\n"
        "w = Worker(30.0, command=(sys.executable, sys.argv[1]))\n"
        "os._exit(0 if w.compile('hello', {})[0] == b'<hello>' else 1)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "compile_server.py")], timeout=60
        ).returncode
        == 0
    )


def test_one_crash_is_survived(start, tmp_path):
    with pytest.warns(RuntimeWarning, match="signal 11 and is restarted"):
        assert compile_text(start(), f"crash_once {tmp_path / 'mark'}").startswith(b"<crash_once")


def test_two_crashes_are_an_error_with_the_last_words(start):
    service = start()
    with (
        pytest.warns(RuntimeWarning),
        pytest.raises(CompileError, match="signal 11, twice(.|\n)*the last words"),
    ):
        compile_text(service, "crash")
    with (
        pytest.warns(RuntimeWarning),
        pytest.raises(CompileError, match="ended with code 3, twice"),
    ):
        compile_text(service, "exit")
    assert compile_text(service, "hello") == b"<hello>"


def test_hanging_process_is_replaced(start, tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "_STALL", 0.6)
    with pytest.warns(RuntimeWarning, match="has done nothing for 0.6 s and is restarted"):
        assert compile_text(start(), f"stop_once {tmp_path / 'mark'}").startswith(b"<stop_once")
    with pytest.warns(RuntimeWarning), pytest.raises(CompileError, match="has done nothing"):
        compile_text(start(), "stop")


def test_hanging_process_does_not_block_a_large_request(start, monkeypatch):
    monkeypatch.setattr(worker, "_STALL", 0.6)
    service = start()
    compile_text(service, "hello")
    os.kill(service.pid, signal.SIGSTOP)
    text = "x" * (5 << 20)
    with pytest.warns(RuntimeWarning, match="has done nothing"):
        assert len(compile_text(service, text)) == len(text) + 2


def test_time_limit(start):
    service = start(timeout=1.0)
    compile_text(service, "hello")
    begin = time.monotonic()
    with pytest.raises(CompileError, match=r"within 1 s \(FTM_COMPILE_TIMEOUT\)"):
        compile_text(service, "spin")
    assert time.monotonic() - begin < 15
    assert service.pid is None
    assert compile_text(service, "hello") == b"<hello>"


def test_the_start_counts_for_no_program(start, tmp_path):
    service = start(timeout=2.0)
    (tmp_path / "compile_server.py").write_text(
        "import time; time.sleep(2.5)\n" + textwrap.dedent(SERVICE)
    )
    assert compile_text(service, "hello") == b"<hello>"


def test_a_process_that_waits_for_the_processor_does_not_hang(monkeypatch):
    """What /proc says of one that runs, or would if it were let."""
    stat = b"7 (a name) R 1 7 7 0 -1 4194560 100 0 0 0 5 5 0 0 20 0 1 0 1 1 1 1"
    monkeypatch.setattr("builtins.open", lambda *arguments: io.BytesIO(stat))
    assert worker._cpu_ticks(7) != worker._cpu_ticks(7)
    stat = stat.replace(b" R ", b" S ")
    assert worker._cpu_ticks(7) == worker._cpu_ticks(7) == 10


def test_ctrl_c_passes_and_the_next_program_compiles(start):
    service = start()
    compile_text(service, "hello")
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        compile_text(service, "sleep 20")
    assert time.monotonic() - begin < 15
    assert compile_text(service, "hello") == b"<hello>"


@pytest.mark.parametrize("moment", ["taken", "compiled", "returned"])
def test_an_interrupted_pool_keeps_its_workers(monkeypatch, moment):
    """A signal handler raises right after a worker is taken, while it compiles, or before it is
    returned."""

    class Interrupted(threading.Condition):
        def __enter__(self) -> bool:
            uses.append(self)
            if moment == "returned" and len(uses) == 2:
                raise KeyboardInterrupt
            return super().__enter__()

        def __exit__(self, *error) -> None:
            super().__exit__(*error)
            if moment == "taken" and len(uses) == 1:
                raise KeyboardInterrupt

    def compiled(*_) -> tuple[bytes, float]:
        if moment == "compiled" and len(uses) == 1:
            raise KeyboardInterrupt
        return b"", 0.0

    uses: list[Interrupted] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    pool = WorkerPool(60.0, echo=False, progress=False, functions=None)
    monkeypatch.setattr(pool, "_changed", Interrupted())
    monkeypatch.setattr(pool.first, "compile", compiled)
    with pytest.raises(KeyboardInterrupt):
        pool.compile("hello", {})
    again = threading.Thread(target=pool.compile, args=("hello", {}), daemon=True)
    again.start()
    again.join(20)
    assert not again.is_alive()


def test_process_is_outside_the_terminal_s_group(start):
    service = start()
    compile_text(service, "hello")
    assert os.getpgid(service.pid) != os.getpgrp()


def test_threads_take_turns(start):
    service = start()
    results = {}

    def work(index: int) -> None:
        results[index] = [compile_text(service, f"{index} {n}") for n in range(20)]

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert results == {i: [f"<{i} {n}>".encode() for n in range(20)] for i in range(4)}


def test_forked_child_has_a_process_of_its_own(start):
    service = start()
    compile_text(service, "hello")
    pid = service.pid
    child = os.fork()
    if child == 0:
        good = (
            service.pid is None
            and compile_text(service, "child") == b"<child>"
            and service.pid != pid
        )
        service.close()
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert compile_text(service, "parent") == b"<parent>" and service.pid == pid


def test_fork_in_the_middle_of_a_compilation(start):
    service = start()
    compile_text(service, "hello")
    thread = threading.Thread(target=compile_text, args=(service, "sleep 1"))
    thread.start()
    time.sleep(0.3)
    child = os.fork()  # the lock is held by a thread that does not exist in the child
    if child == 0:
        signal.alarm(20)
        good = compile_text(service, "child") == b"<child>"
        service.close()
        os._exit(0 if good else 1)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    "stream, progress", [(Terminal, True), (Terminal, False), (io.StringIO, True)]
)
def test_waiting_is_shown_on_a_terminal(start, monkeypatch, stream, progress):
    monkeypatch.setattr(worker, "_PROGRESS_AFTER", 60.0)  # the process may take a while to start
    monkeypatch.setattr(sys, "stderr", stream())
    service = start(progress=progress)
    compile_text(service, "hello")
    assert sys.stderr.getvalue() == ""
    monkeypatch.setattr(worker, "_PROGRESS_AFTER", 0.3)
    service.compile("sleep 0.9", {}, why="new sizes")
    shown = sys.stderr.getvalue()
    if stream is Terminal and progress:
        assert "ftm: compiling a program (0 operations, new sizes), " in shown
        assert shown.endswith("\r\033[K"), "it is erased at the end"
    else:
        assert shown == ""


@pytest.mark.parametrize(("options", "marks"), [((), ["ran"]), (("-E",), []), (("-I",), [])])
def test_pythons_isolation_holds_for_the_compilers_process(tmp_path, options, marks):
    (tmp_path / "sitecustomize.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    code = f"""
import os
from ftm_lazy.compile.worker import Worker
os.environ["PYTHONPATH"] = {str(tmp_path)!r}
worker = Worker(timeout=60)
worker.start()
worker._process.wait(0.5) if worker._process.poll() is not None else __import__("time").sleep(1)
worker.close()
"""
    subprocess.run([sys.executable, *options, "-c", code], check=True, timeout=120)
    assert [path.name for path in tmp_path.iterdir() if path.name == "ran"] == marks
