"""The runner itself: what is wrong is reported, what crashes or hangs is recorded, what has run is
not run again."""

from __future__ import annotations

import json
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from opdb.compare import Closeness, Mismatch, Tolerance, compare, override
from opdb.databases import DATABASES, Unit
from opdb.engine import Case, Verdict, run_check
from opdb.place import CPU, FTM, PRECISE, Place
from opdb.schedule import Results, Schedule
from opdb.support import condense, load, save
from opdb.worker import run_unit_check

EXACT = Tolerance()


def check(*runs: Callable[[Place], Any], **options: Any) -> Verdict:
    """The verdict on cases that return one result each."""
    return run_check([Case(f"case {i}", lambda place, run=run: [("result", run(place))], **options)
                      for i, run in enumerate(runs)], EXACT)  # fmt: skip


def ones(place: Place) -> torch.Tensor:
    return torch.ones(3, device=place.device)


def fail(error: Exception) -> Any:
    raise error


def test_right_results_are_native() -> None:
    verdict = check(ones, lambda place: ones(place) + 1)
    assert verdict.native and verdict.cases == 2 and not verdict.wrong


@pytest.mark.parametrize(
    ("actual", "said"),
    [
        (lambda: torch.ones(3, device="ftm") + 1e-4, "not close"),
        (
            lambda: torch.ones(3, device="ftm").double(),
            "dtype torch.float64 instead of torch.float32",
        ),
        (lambda: torch.ones(1, 3, device="ftm"), "shape"),
        (lambda: torch.ones(3), "the result is on cpu"),
        (lambda: 1.0, "float 1.0 instead of Tensor"),
        (lambda: fail(RuntimeError("no")), "raises RuntimeError: no"),
    ],
)
def test_a_wrong_result_is_reported_among_right_ones(actual: Callable[[], Any], said: str) -> None:
    verdict = check(ones, lambda place: actual() if place == FTM else ones(place), ones)
    assert not verdict.native
    assert [line.split(":")[0] for line in verdict.wrong] == ["case 1"]
    assert said in verdict.wrong[0]


def test_exceptions_are_compared_by_type() -> None:
    kinds = {CPU: ValueError, FTM: IndexError}
    same = check(lambda place: fail(ValueError()), may_raise=True)
    other = check(lambda place: fail(kinds[place]()), may_raise=True)
    none = check(lambda place: fail(ValueError()) if place == CPU else ones(place), may_raise=True)
    assert not same.wrong
    assert "raises IndexError:  instead of ValueError" in other.wrong[0]
    assert "does not raise ValueError" in none.wrong[0]


def test_a_case_that_the_cpu_refuses_is_left_out() -> None:
    verdict = check(lambda place: fail(RuntimeError()), ones)
    assert (verdict.cases, verdict.refused) == (1, 1)


def test_a_check_that_the_cpu_refuses_whole_is_not_right() -> None:
    verdict = check(lambda place: fail(RuntimeError("broken")))
    assert verdict.wrong == ["the CPU refuses every case: case 0: RuntimeError: broken"]


def test_a_fallback_is_right_but_not_native() -> None:
    verdict = check(lambda place: torch.ops.aten.unique_dim(ones(place), 0)[0])
    assert not verdict.wrong and not verdict.native
    assert verdict.fallbacks == Counter({"aten::unique_dim": 1})


def test_a_result_near_the_precise_one_is_right() -> None:
    noisy = {CPU: 1 + 3e-4, FTM: 1 - 4e-4, PRECISE: 1.0}

    def make(place: Place) -> torch.Tensor:
        return torch.full((3,), noisy[place], dtype=place.dtype(torch.float32), device=place.device)

    assert check(make).closeness == Counter({"precise": 1})
    noisy[FTM] = 1 - 7e-4
    assert "not close" in check(make).wrong[0]


def test_random_results_are_compared_as_distributions() -> None:
    drawn = check(
        lambda place: (
            torch.rand(500).to(place.device) if place == CPU else torch.rand(500, device="ftm")
        )
    )
    assert drawn.closeness == Counter({"random": 1})
    scaled = check(lambda place: torch.rand(500).to(place.device) * (1 if place == CPU else 1.5))
    assert "distributed otherwise" in scaled.wrong[0]


def test_values_that_are_not_determined_are_not_compared() -> None:
    assert compare(torch.zeros(2), torch.ones(2), EXACT, values=False) is Closeness.CLOSE
    with pytest.raises(Mismatch, match="shape"):
        compare(torch.zeros(2), torch.ones(3), EXACT, values=False)


def test_tolerances_are_those_of_the_entry() -> None:
    entries = DATABASES["ops"].entries()
    assert override(entries["add"], torch.float32) == Tolerance()
    assert override(entries["nn_functional_conv3d"], torch.float32) == Tolerance(
        rtol=1e-3, atol=5e-3
    )


def test_an_entry_of_each_database_runs() -> None:
    for db, name, kind in (
        ("ops", "add", "forward"),
        ("modules", "nn_Linear", "eval"),
        ("optims", "SGD", "scheduled"),
    ):
        record = run_unit_check(db, name, "float32", kind)
        assert record["cases"] > 0, record
        assert record["status"] == "right", record["detail"]


def test_a_tensor_that_occurs_twice_stays_one() -> None:
    tensor = torch.ones(2, requires_grad=True)
    first, (again, device) = FTM.put((tensor, [tensor, torch.device("cpu")]))
    assert first is again and first.is_leaf and first.requires_grad
    assert device == torch.device("ftm")


WORKER = """
import json, os, sys, time
reports = os.fdopen(int(sys.argv[1]), "w", buffering=1)
send = lambda record: print(json.dumps(record), file=reports)
send({"end": True})
for line in sys.stdin:
    unit = json.loads(line)
    for check in unit["checks"]:
        send({"at": "start", "check": check})
        send({"at": "sample 3", "check": check})
        if (unit["entry"], check) == ("crasher", "backward"):
            print("last words", file=sys.stderr, flush=True)
            os.abort()
        if (unit["entry"], check) == ("sleeper", "backward"):
            time.sleep(600)
        send({"check": check, "status": "right", "native": True, "detail": [], "wrong": 0, "pid": os.getpid()})
    send({"end": True, "megabytes": 1})
"""
CHECKS = ("forward", "backward", "out")


@pytest.fixture
def command(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "worker.py").write_text(textwrap.dedent(WORKER))
    return sys.executable, str(tmp_path / "worker.py")


def units(*names: str) -> list[Unit]:
    return [Unit("ops", name, "float32", CHECKS) for name in names]


def test_crashes_and_hangs_are_recorded_and_the_run_goes_on(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    results = Results(tmp_path / "results.jsonl", "one")
    Schedule(
        units("add", "crasher", "sleeper", "mul"), results, jobs=2, timeout=3, command=command
    ).run()
    statuses = {(key[1], key[3]): record["status"] for key, record in results.records.items()}
    assert len(statuses) == 4 * len(CHECKS)
    assert statuses.pop(("crasher", "backward")) == "crash"
    assert statuses.pop(("sleeper", "backward")) == "hang"
    assert set(statuses.values()) == {"right"}
    crash = results.records["ops", "crasher", "float32", "backward"]["detail"][0]
    assert "sample 3" in crash and "SIGABRT" in crash and "last words" in crash


def test_what_has_run_on_the_same_sources_is_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    first = Results(path, "one")
    for name in ("forward", "backward"):
        first.add(units("add")[0], name, {"status": "right"})
    with path.open("a") as file:
        file.write('{"db": "ops", "entry": "mul", "dty')  # where the run was killed
    assert Results(path, "one").rest(units("add")[0]).checks == ("out",)
    assert Results(path, "two").rest(units("add")[0]).checks == CHECKS
    assert json.loads(path.read_text().splitlines()[0])["source"] == "one"


def test_a_worker_that_does_not_start_ends_the_run(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "import sys; sys.exit('no such module')")
    with pytest.raises(RuntimeError, match="no such module"):
        Schedule(
            units("add"), Results(tmp_path / "r", "one"), jobs=1, timeout=3, command=command
        ).run()


def test_results_are_condensed_to_the_worst(tmp_path: Path) -> None:
    def record(dtype: str, check: str, status: str = "right", **more: Any) -> dict[str, Any]:
        plain = {"db": "ops", "entry": "add", "dtype": dtype, "check": check, "status": status}
        return plain | {"fallbacks": {}, "compile_failures": 0} | more

    records = [
        record("float32", "forward"),
        record("float32", "backward", fallbacks={"aten::x": 2}),
        record("float32", "errors", "none"),
        record("int8", "forward", compile_failures=1),
        record("bool", "forward", "wrong"),
    ]
    save(condense([("ops", "add"), ("ops", "jiterator")], records), tmp_path / "support.json")
    add, absent = load(tmp_path / "support.json")
    assert add["checks"] == {"forward": "native", "backward": "fallback"}
    assert add["dtypes"] == {"float32": "fallback", "int8": "uncompiled", "bool": "wrong"}
    assert add["fallbacks"] == ["aten::x"]
    assert absent["dtype"] is None
