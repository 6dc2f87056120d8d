"""From a trace's text to an image: cache, compiler's process, counters, explanations, dumps."""

import dataclasses
import os
import signal
import warnings

import pytest

import ftm_lazy
from ftm_backend.ir.trace.trace import Trace
from ftm_lazy import settings
from ftm_lazy.compile.compile_client import CompileClient, CompileError, WorkerError

TEXT = """trace
  %0 = param f32[4,8]
  $0 = scalar f64
  %1 = aten::mul.Scalar(self=%0, other=$0) : f32[4,8]
  return %1
"""
TRACE = Trace.parse(TEXT)
WIDER = Trace.parse(TEXT.replace("4,8", "4,9"))
BROKEN = Trace.parse(TEXT.replace("aten::mul.Scalar", "aten::no_such_op"))


@pytest.fixture
def bridge(tmp_path):
    """Makes bridges that share a cache directory, and ends their processes after the test."""
    made = []
    base = settings.Settings(cache_dir=tmp_path / "cache")

    def make(**changed: object) -> CompileClient:
        made.append(CompileClient(dataclasses.replace(base, **changed)))
        return made[-1]

    ftm_lazy.metrics.reset()
    yield make
    for one in made:
        one.close()


def counted(*names: str) -> tuple[int, ...]:
    return tuple(ftm_lazy.metrics.counters()[name] for name in names)


def test_compiles_once_then_finds_it_on_disk(bridge):
    image = bridge().compile(TRACE)
    assert image and counted("compiles", "cache_hits_disk") == (1, 0)
    second = bridge()
    assert second.compile(TRACE) == image
    assert counted("compiles", "cache_hits_disk") == (1, 1)
    assert second.worker_pid() is None, "a program from the disk needs no compiler"


@pytest.mark.parametrize("changed", [{"cores": 3}, {"machine": "m7032"}])
def test_settings_that_shape_the_program_are_in_the_key(bridge, changed):
    bridge().compile(TRACE)
    bridge(**changed).compile(TRACE)
    assert counted("compiles", "cache_hits_disk") == (2, 0)


def test_settings_that_do_not_are_not(bridge):
    bridge().compile(TRACE)
    bridge(checked=True, strict=True, debug=frozenset({"recompile"}), trace_limit=5).compile(TRACE)
    assert counted("compiles", "cache_hits_disk") == (1, 1)


def test_another_compiler_does_not_use_these_programs(bridge, monkeypatch):
    bridge().compile(TRACE)
    monkeypatch.setattr("ftm_lazy.compile.compile_client.source_hash", lambda: "another")
    other = bridge()
    other.compile(TRACE)
    other.compile(TRACE)  # the process runs other code than this one knows: nothing is stored
    assert counted("compiles", "cache_hits_disk") == (3, 0)


def test_without_a_cache_directory(bridge):
    bridge(cache_dir=None).compile(TRACE)
    bridge(cache_dir=None).compile(TRACE)
    assert counted("compiles", "cache_hits_disk") == (2, 0)


def test_damaged_file_is_compiled_again(bridge, tmp_path):
    image = bridge().compile(TRACE)
    file = next((tmp_path / "cache").glob("*.program"))
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.warns(RuntimeWarning, match="is damaged"):
        assert bridge().compile(TRACE) == image
    assert bridge().compile(TRACE) == image
    assert counted("compiles", "cache_hits_disk") == (2, 1)


@pytest.mark.parametrize("strict", [False, True])
def test_a_sealed_file_that_is_no_program_is_compiled_again(bridge, tmp_path, strict, capfd):
    image = bridge().compile(TRACE)
    one = bridge()
    one._cache.put(one._key(TEXT), b"junk")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("error" if strict else "always")
        assert one.compile(TRACE) == image
    assert "is damaged (these bytes are no compiled program)" in (
        capfd.readouterr().err if strict else str(told[0].message)
    )
    assert bridge().compile(TRACE) == image
    assert counted("compiles", "cache_hits_disk") == (2, 1)


def test_a_program_that_the_machine_refuses_is_compiled_again_once(bridge):
    image = bridge().compile(TRACE)
    one = bridge()
    assert one.compile(TRACE) == image
    with pytest.warns(RuntimeWarning, match=r"is damaged \(it is no good\)"):
        assert one.get_or_compile(TRACE, (), ((), ()), True, False, 0, "it is no good") == (
            image,
            (),
        )
    assert "it is still no good" in one.get_or_compile(
        TRACE, (), ((), ()), True, False, 0, "it is still no good"
    )
    assert counted("compiles", "cache_hits_disk") == (2, 1)


def test_no_compiler_is_no_property_of_the_program(bridge, monkeypatch):
    one = bridge()
    with monkeypatch.context() as patch:
        patch.setattr(one._workers.first, "_command", ("/nowhere/python",))
        one.prepare()
        with pytest.raises(WorkerError, match="cannot be started"):
            one.get_or_compile(TRACE)
    assert "no_such_op" in one.get_or_compile(BROKEN)
    assert one.get_or_compile(TRACE)


def test_recompiles_are_explained(bridge):
    one = bridge(debug=frozenset({"recompile"}))
    one.compile(TRACE)
    with pytest.warns(
        RuntimeWarning,
        match=r"recompiled, new sizes: program 1 differs from program 0: sizes \(2x\)",
    ):
        one.compile(WIDER)
    assert counted("compiles", "recompiles") == (2, 1)
    assert len(one.stats.recompiles()) == 1
    one.stats.forget()
    assert one.stats.recompiles() == []


def test_program_that_does_not_compile(bridge):
    one = bridge()
    with pytest.raises(CompileError, match="no_such_op"):
        one.compile(BROKEN)
    assert counted("compiles", "cache_hits_disk") == (0, 0)
    assert one.compile(TRACE)


def test_killed_process(bridge):
    one = bridge()
    one.compile(TRACE)
    os.kill(one.worker_pid(), signal.SIGKILL)
    assert one.compile(WIDER)


def test_the_process_starts_early_only_where_nothing_is_cached(bridge):
    one = bridge()
    one.prepare()
    assert one.worker_pid() is not None
    one.compile(TRACE)
    second = bridge()
    second.prepare()
    assert second.worker_pid() is None


def test_stages(bridge):
    one = bridge()
    stages = one.texts(TRACE)
    assert tuple(stages) == ftm_lazy.debug.STAGES and stages["trace"] == TEXT
    assert bridge().texts(TRACE) == stages
    assert counted("compiles", "cache_hits_disk") == (0, 0)


def test_dump_of_compiled_and_of_found_programs(bridge, tmp_path):
    bridge().compile(TRACE)  # stored without the text of its stages
    image = bridge(dump=tmp_path / "dump").compile(TRACE)
    assert image == bridge(dump=tmp_path / "dump").compile(TRACE)
    bridge(dump=tmp_path / "dump").compile(WIDER)
    places = sorted((tmp_path / "dump").iterdir())
    assert [place.name[:3] for place in places] == ["000", "001", "002"]
    assert all(next(place.glob("*_asm.lan")).read_text().startswith("@program") for place in places)
    assert counted("compiles", "cache_hits_disk") == (2, 2)


def test_lines_about_each_program(bridge, capfd):
    bridge(debug=frozenset({"compile"})).compile(TRACE)
    bridge(debug=frozenset({"compile"})).compile(TRACE)
    first, second = capfd.readouterr().err.splitlines()[-2:]
    assert first.startswith("ftm: compiled in ") and second.startswith("ftm: from the cache in ")
