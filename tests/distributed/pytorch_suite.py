"""Runs PyTorch's own distributed tests on tensors of ftm, and on the CPU with gloo.

    python tests/distributed/pytorch_suite.py                 # all, as a table
    python tests/distributed/pytorch_suite.py --only all_gather broadcast

The tests are those of ``torch.testing._internal.distributed.distributed_test`` in the installed
wheel. Those that are written for CUDA run with the device's name replaced. For the others,
``torch.set_default_device`` makes tensors and models ftm's. PyTorch starts new processes for each
test. Here two processes run all tests, one after the other; they are started anew after a test that
fails.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import importlib.util
import json
import linecache
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import types
import unittest
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RANKS = 2
LIMIT = 300.0
"""Seconds within which a test must end."""

_NCCLS_WORDS = "expects the words of NCCL's error"
_TO_ITSELF = "gloo moves nothing from a process to itself"
EXCEPTIONS = {
    "test_batch_isend_irecv_nccl": _TO_ITSELF,
    "test_batch_isend_irecv_self_nccl": _TO_ITSELF,
    "test_ddp_apply_optim_in_backward": "Adam divides by the root of squared gradients. Near zero, "
    "this amplifies a last bit that two programs round differently",
    "test_ddp_apply_optim_in_backward_grad_as_bucket_view_false": "its training diverges: weights "
    "reach 1e6 in five steps. This amplifies a last bit that two programs round differently",
    "test_ddp_logging_data_cpu": "PyTorch logs 'custom' for the name of each backend that is "
    "registered at run time",
    "test_ddp_profiling_torch_profiler": "the profiler has no event with the names of backend and "
    "collective",
    "test_monitored_barrier_allreduce_hang": _NCCLS_WORDS,
    "test_monitored_barrier_allreduce_hang_wait_all_ranks": _NCCLS_WORDS,
    "test_nccl_high_priority_stream": "has an option of NCCL",
}
"""Tests that fail on ftm, each with the reason."""


@dataclass(frozen=True)
class Outcome:
    """How a test ended: ``pass``, ``skip`` or ``fail``, and the message of an error."""

    status: str
    message: str = ""


def _load(backend: str) -> Any:
    """Load PyTorch's tests; for ftm, with its name in place of CUDA's."""
    import torch
    from torch.testing._internal import common_distributed

    name = "torch.testing._internal.distributed.distributed_test"
    if backend != "ftm":
        return importlib.import_module(name)

    def needs_device(test: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(test)
        def run(*arguments: Any, **options: Any) -> Any:
            with torch.device("cpu"):  # such tests move tensors to the device
                return test(*arguments, **options)

        return run

    def needs_devices(count: int, **_: Any) -> Callable[..., Any]:
        return needs_device if count <= RANKS else unittest.skip(f"needs {count} devices")

    common_distributed.skip_if_no_gpu = needs_device
    common_distributed.skip_if_lt_x_gpu = needs_devices
    common_distributed.requires_nccl_version = lambda *_: lambda test: test
    common_distributed.init_multigpu_helper = lambda size, _: {rank: [rank] for rank in range(size)}
    features = common_distributed.DistTestCases.backend_feature
    features["ftm"] = set()  # in place of "cuda"
    for backends in features.values():
        backends.add("ftm")
    file = importlib.util.find_spec(name).origin
    text = Path(file).read_text()
    for pattern, replacement in (
        (r"\btorch\.cuda\b(?!\.amp)", "torch.ftm"),
        (r"\.cuda\(", ".ftm("),
        (r"([\"'])cuda\b", r"\1ftm"),
        (r'BACKEND != "nccl"', 'BACKEND not in ("nccl", "ftm")'),  # conditions of skips
        (r'if BACKEND == "nccl"', 'if BACKEND == "ftm"'),
        (r'backend="nccl"|backend=dist.Backend.NCCL', 'backend="ftm"'),
        # A step of this convolution takes a minute on one CPU, and the test has more than 100 of them.
        (r"torch\.ones\(batch, batch, dim, dim,", "torch.ones(batch, batch, 100, 100,"),
    ):
        text = re.sub(pattern, replacement, text)
    suite = types.ModuleType("distributed_test")
    suite.__file__ = file
    sys.modules[suite.__name__] = suite
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    exec(compile(text, file, "exec", dont_inherit=True), suite.__dict__)
    torch.ftm.set_device(int(os.environ["LOCAL_RANK"]))
    torch.set_default_device("ftm")
    return suite


def _serve(backend: str, rank: int) -> None:
    """Run the tests whose names come from stdin; print one line of JSON for each."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what tests print must not mix with the answers
    suite = _load(backend)

    class Tests(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        """The tests of this process's rank."""

    names = sorted(name for name in dir(Tests) if name.startswith("test_"))
    print(json.dumps({"tests": names}), file=answers, flush=True)
    for line in sys.stdin:
        name, file = line.split()
        status, message = _run(suite, Tests, name, backend, rank, file)
        print(json.dumps({"status": status, "message": message}), file=answers, flush=True)


def _run(suite: Any, tests: type, name: str, backend: str, rank: int, file: str) -> tuple[str, str]:
    """Run one test in a group of its own; return its status and message."""
    import torch.distributed as dist
    from torch.testing._internal import common_utils

    if getattr(getattr(tests, name), "__unittest_skip__", False):
        return "skip", getattr(tests, name).__unittest_skip_why__
    test = tests(name)
    test.rank, test.file_name = rank, file
    suite.Barrier.barrier_id = 0
    try:
        dist.init_process_group(
            backend,
            init_method=f"file://{file}",
            rank=rank,
            world_size=RANKS,
            timeout=datetime.timedelta(seconds=suite.CUSTOM_PG_TIMEOUT.get(name, 30)),
        )
        test._barrier()
        os.environ.pop("TORCH_DISTRIBUTED_DEBUG", None)  # an earlier test may have set it
        dist.set_debug_level_from_env()
        common_utils.set_rng_seed()
        getattr(test, name)()
        test._barrier()
        dist.destroy_process_group()
    except unittest.SkipTest as skip:
        return _skipped(dist, str(skip))
    except SystemExit as leave:
        return _skipped(dist, f"exit status {leave.code}")
    except BaseException as error:  # a test may raise anything
        return "fail", f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    return "pass", ""


def _skipped(dist: Any, message: str) -> tuple[str, str]:
    if dist.is_initialized():
        dist.destroy_process_group()
    return "skip", message


class Processes:
    """The processes that run tests with one backend."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._folder = tempfile.TemporaryDirectory()
        root = Path(self._folder.name)
        for name in ("barrier", "test_dir", "init_dir"):
            (root / name).mkdir()
        self._started: list[subprocess.Popen[str]] = []
        self._number = 0
        self.tests: list[str] = []
        self.start()

    def start(self) -> None:
        """Start them, and learn which tests there are."""
        environment = os.environ | {
            "BACKEND": self._backend,
            "WORLD_SIZE": str(RANKS),
            "LOCAL_WORLD_SIZE": str(RANKS),
            "TEMP_DIR": self._folder.name,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(_free_port()),
            "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",  # some load a checkpoint with functions
            "OMP_NUM_THREADS": "1",
            "FTM_CORES": "1",
        }
        self._started = [
            subprocess.Popen(
                [sys.executable, "-W", "ignore", __file__, "--serve", self._backend, str(rank)],
                env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
            for rank in range(RANKS)
        ]
        self.tests = [json.loads(p.stdout.readline())["tests"] for p in self._started][-1]

    def stop(self) -> None:
        """Kill them, and what they have started."""
        for process in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def run(self, name: str) -> Outcome:
        """Run a test on all ranks."""
        self._number += 1
        root = Path(self._folder.name)
        for file in (root / "barrier").iterdir():
            file.unlink()
        for process in self._started:
            process.stdin.write(f"{name} {root / f'store_{self._number}'}\n")
            process.stdin.flush()
        answers = [_answer(process) for process in self._started]
        failed = [(rank, a["message"]) for rank, a in enumerate(answers) if a["status"] == "fail"]
        if failed:
            self.stop()
            self.start()
            return Outcome("fail", "\n".join(f"rank {rank}: {text}" for rank, text in failed))
        return Outcome(*answers[0].values())


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def _answer(process: subprocess.Popen[str]) -> dict[str, str]:
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(LIMIT):
            return {"status": "fail", "message": f"no answer within {LIMIT:.0f} s"}
    line = process.stdout.readline()
    if not line:
        return {"status": "fail", "message": f"ended with status {process.wait()}"}
    answer: dict[str, str] = json.loads(line)
    return answer


def run(backend: str, only: Iterable[str]) -> Iterator[tuple[str, Outcome]]:
    """Yield the tests whose names match one of the patterns, with their outcomes."""
    processes = Processes(backend)
    try:
        for name in processes.tests:
            if any(re.search(pattern, name) for pattern in only):
                yield name, processes.run(name)
    finally:
        processes.stop()


def main() -> int:
    """Run the tests with both backends; return 1 if one fails on ftm for an unknown reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=[""], metavar="PATTERN")
    parser.add_argument("--backends", nargs="+", default=["gloo", "ftm"])
    parser.add_argument("--serve", nargs=2, metavar=("BACKEND", "RANK"), help=argparse.SUPPRESS)
    parser.add_argument("--verbose", action="store_true", help="print the messages of failures")
    options = parser.parse_args()
    if options.serve:
        _serve(options.serve[0], int(options.serve[1]))
        return 0
    found: dict[str, dict[str, Outcome]] = {}
    for backend in options.backends:
        for name, outcome in run(backend, options.only):
            found.setdefault(name, {})[backend] = outcome
            print(f"{backend:5} {outcome.status:5} {name}", flush=True)
            if options.verbose and outcome.status == "fail":
                print(outcome.message, flush=True)
    print(table(found))
    return int(any(name not in EXCEPTIONS for name in failures(found)))


def failures(found: dict[str, dict[str, Outcome]]) -> list[str]:
    """Return the tests that fail on ftm."""
    return [
        name
        for name, outcomes in found.items()
        if "ftm" in outcomes and outcomes["ftm"].status == "fail"
    ]


def table(found: dict[str, dict[str, Outcome]]) -> str:
    """Return the numbers of outcomes by backend, and what fails on ftm with its reason."""
    lines = ["backend  pass  skip  fail"]
    for backend in ("gloo", "ftm"):
        statuses = [o[backend].status for o in found.values() if backend in o]
        counts = "".join(f"{statuses.count(s):6}" for s in ("pass", "skip", "fail"))
        lines.append(f"{backend:7}{counts}")
    for name in failures(found):
        first = next(iter(found[name]["ftm"].message.splitlines()), "")
        lines.append(f"{name}: {EXCEPTIONS.get(name) or first}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
