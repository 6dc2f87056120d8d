"""The driver: stages in order, texts that replay from any of them, bytes that stay the same,
failures with a reproducer."""

import os
import re
import shlex
import tempfile

import numpy as np
import pytest

from ftm_backend import compiler_stages, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.executable import Executable
from ftm_backend.machine import Machine
from ftm_backend.target import presets
from ftm_backend.tools import ftm_opt, ftm_translate

HOST = presets.load("host")

TRACE = """\
trace
  %0 = param f32[6,4]
  %1 = param f32[4,5]
  $0 = scalar f64
  %2 = aten::mm(self=%0, mat2=%1) : f32[6,5]
  %3 = aten::relu(self=%2) : f32[6,5]
  %4 = aten::mul.Scalar(self=%3, other=$0) : f32[6,5]
  %5 = aten::sum.dim_IntList(self=%4, dim=[1], keepdim=false, dtype=none) : f32[6]
  return %4, %5
"""


@pytest.fixture(scope="module")
def compiled():
    return driver.compile(TRACE, CompileOptions(keep_texts=True))


def check(image):
    rng = np.random.default_rng(0)
    a, b = (
        rng.standard_normal((6, 4), dtype=np.float32),
        rng.standard_normal((4, 5), dtype=np.float32),
    )
    got = Machine(cores=2, checked=True).load(image).run([a, b], [1.5])
    expected = np.maximum(a @ b, 0) * np.float32(1.5)
    np.testing.assert_allclose(got[0], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[1], expected.sum(1), rtol=1e-5, atol=1e-6)


def test_a_trace_compiles_and_runs(compiled):
    check(compiled.image)
    names = [stage.name for stage in compiler_stages.stages(HOST)]
    assert list(compiled.texts) == names[:-1]
    assert compiled.texts["trace"] == TRACE and compiled.texts["asm"] == compiled.asm
    assert list(compiled.seconds) == names


@pytest.mark.parametrize("machine", ["host", "m7032"])
def test_every_stage_s_text_leads_to_the_same_assembly(machine):
    options = CompileOptions(machine=machine)
    compiled = driver.compile(TRACE, options)
    for stage in compiler_stages.stages(presets.load(machine))[:-1]:
        text = driver.run_from("trace", TRACE, stage.name, options)
        assert driver.run_from(stage.name, text, stage.name, options) == text, stage.name
        assert driver.run_from(stage.name, text, "asm", options) == compiled.asm, stage.name
        assert compiler_stages.guess_stage(text) == stage.name
    check(driver.run_from("asm", compiled.asm, "image", options))


def test_equal_traces_give_equal_bytes(compiled):
    again = driver.compile(TRACE, CompileOptions(keep_texts=True))
    assert again.to_bytes() == compiled.to_bytes()


def test_executables_survive_their_bytes(compiled):
    back = Executable.from_bytes(compiled.to_bytes())
    assert back == compiled and list(back.texts) == list(compiled.texts)
    plain = driver.compile(TRACE)
    assert Executable.from_bytes(plain.to_bytes()).texts == {} and plain.asm == compiled.asm


def test_damaged_executables_are_refused(compiled):
    data = compiled.to_bytes()
    for bad in (
        b"",
        b"nonsense",
        data[:-1],
        data[:-9] + b"x" + data[-8:],
        data.replace(b'"version": 1', b'"version": 9'),
    ):
        with pytest.raises(ValueError):
            Executable.from_bytes(bad)


def test_a_dump_holds_every_stage_in_order(tmp_path):
    driver.compile(TRACE, CompileOptions(dump=str(tmp_path / "new")))
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    stages = compiler_stages.stages(HOST)
    assert names == [f"{i:02}_{stage.name}{stage.suffix}" for i, stage in enumerate(stages)]
    assert (tmp_path / "new" / "00_trace.trace").read_text() == TRACE


def test_a_dump_holds_what_each_pass_changes(tmp_path):
    driver.compile(TRACE, CompileOptions(dump=str(tmp_path), dump_diffs=True))
    diffs = {path.stem[3:]: path.read_text() for path in tmp_path.glob("*.diff")}
    assert {"fuse-ops", "assign-buffers", "allocate-scratchpad"} <= diffs.keys()
    assert not {"torch", "linalg", "tiles", "asm"} & diffs.keys()  # another language
    assert "inline-epilogue-inputs" not in diffs  # finds nothing to do here
    assert diffs["fuse-ops"].startswith("--- insert-copies\n+++ fuse-ops\n")
    assert "+    %" in diffs["fuse-ops"] and "ftm.stage" not in diffs["fuse-ops"]


def test_only_options_that_decide_the_program_are_in_the_key():
    base = CompileOptions()
    assert (
        base.cache_key() == CompileOptions(keep_texts=True, dump="x", reproducers="y").cache_key()
    )
    assert (
        base.cache_key()
        != CompileOptions(machine="m7032").cache_key()
        != CompileOptions(cores=3).cache_key()
    )
    with pytest.raises(ValueError, match="cores"):
        CompileOptions(cores=-1)


def test_an_unknown_machine_is_named():
    with pytest.raises(ValueError, match="nonsuch"):
        driver.compile(TRACE, CompileOptions(machine="nonsuch"))


def test_an_invalid_trace_says_why():
    with pytest.raises(driver.CompileError, match="no valid trace"):
        driver.compile(TRACE.replace("other=$0", "other=%9"))


def test_a_failure_saves_its_input_and_the_command_replays_it(tmp_path, monkeypatch, capsys):
    def broken(*_):
        raise RuntimeError("a defect for this test")

    stages = list(compiler_stages.STAGES)
    at = [stage.name for stage in stages].index("assign-buffers")
    stages[at] = stages[at]._replace(run=broken)
    monkeypatch.setattr(compiler_stages, "STAGES", tuple(stages))
    with pytest.raises(driver.CompileError, match="a defect for this test") as failure:
        driver.compile(TRACE, CompileOptions(reproducers=str(tmp_path)))
    assert "stage 'assign-buffers'" in str(failure.value)
    command = shlex.split(
        re.search(r"replay it with: ftm translate (.*)", str(failure.value)).group(1)
    )
    assert command[:4] == ["--from", "defer-input-overwrites", "--to", "assign-buffers"]
    assert ftm_translate.main(command) == 2
    assert "a defect for this test" in capsys.readouterr().err
    monkeypatch.undo()
    assert ftm_translate.main(command) == 0


def test_reproducers_go_where_no_other_user_can_have_put_a_link(tmp_path, monkeypatch):
    place, victim = tmp_path / "shared", tmp_path / "victim"
    place.mkdir()
    victim.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    driver._private_directory.cache_clear()
    (place / f"ftm-reproducers-{os.getuid()}").symlink_to(victim)
    stages = list(compiler_stages.STAGES)
    at = [stage.name for stage in stages].index("assign-buffers")
    stages[at] = stages[at]._replace(run=lambda *_: 1 / 0)
    monkeypatch.setattr(compiler_stages, "STAGES", tuple(stages))
    with pytest.raises(driver.CompileError, match="replay it with"):
        driver.compile(TRACE, CompileOptions())
    assert list(victim.iterdir()) == []
    (made,) = (path for path in place.iterdir() if not path.is_symlink())
    assert made.stat().st_mode & 0o777 == 0o700 and len(list(made.iterdir())) == 1
    driver._private_directory.cache_clear()


def test_stages_do_not_run_backwards():
    with pytest.raises(ValueError, match="does not go back"):
        driver.run_from("linalg", "", "torch")
    with pytest.raises(ValueError, match="there is no stage 'nonsuch'"):
        driver.run_from("nonsuch", "", "asm")
    with pytest.raises(
        ValueError, match="'host' has no stage 'pack-operands': .* DMA that overlaps"
    ):
        driver.run_from("pack-operands", "", "asm")


# --- tools
# ----------------------------------------------------------------------------------------------


@pytest.fixture
def trace_file(tmp_path):
    path = tmp_path / "step.trace"
    path.write_text(TRACE)
    return str(path)


def test_translate_guesses_the_stage_and_gives_assembly(trace_file, tmp_path, compiled):
    out = tmp_path / "step.lan"
    assert ftm_translate.main([trace_file, "-o", str(out)]) == 0
    assert out.read_text() == compiled.asm
    image = tmp_path / "step.bin"
    assert ftm_translate.main([str(out), "--to", "image", "-o", str(image)]) == 0
    check(image.read_bytes())


def test_translate_goes_from_stage_to_stage(trace_file, tmp_path, compiled):
    at = trace_file
    for stage in ("torch", "linalg", "tiles", "asm"):
        out = str(tmp_path / stage)
        assert ftm_translate.main(["--to", stage, at, "-o", out]) == 0
        at = out
    assert (tmp_path / "asm").read_text() == compiled.asm


def test_translate_tells_errors_apart(tmp_path, capsys, trace_file):
    wrong = tmp_path / "wrong.lan"
    wrong.write_text("@program p, host\n@func main\n    SADD r1, r99, r2\n@ret\n")
    assert ftm_translate.main([str(wrong), "--to", "image"]) == 2
    assert re.search(r"3:\d+|line 3", capsys.readouterr().err)
    assert ftm_translate.main([str(tmp_path / "missing")]) == 2
    assert "missing" in capsys.readouterr().err
    bad = tmp_path / "bad.mlir"
    bad.write_text("func.func @main() {\n  nonsense\n}\n")
    assert ftm_translate.main([str(bad)]) == 2
    assert ":2:" in capsys.readouterr().err
    tiles = tmp_path / "bad.tiles"
    tiles.write_text("@stage tiles\n@program main, host\n@func main\n  NONSENSE T0\n@ret\n")
    assert ftm_translate.main([str(tiles)]) == 2
    assert "line 4" in capsys.readouterr().err
    assert ftm_translate.main([trace_file, "--machine", "nonsuch"]) == 2
    assert "nonsuch" in capsys.readouterr().err


def test_opt_runs_passes_by_name_or_all(trace_file, tmp_path, compiled, capsys):
    linalg = str(tmp_path / "a.mlir")
    assert ftm_translate.main([trace_file, "--to", "linalg", "-o", linalg]) == 0
    whole, steps, at = tmp_path / "whole", tmp_path / "steps", linalg
    assert ftm_opt.main(["--ftm-pipeline", linalg, "-o", str(whole)]) == 0
    names = [stage.name for stage in compiler_stages.stages(HOST)]
    passes = [
        name.replace("tiles", "lower-kernels")
        for name in names[names.index("linalg") + 1 : names.index("asm")]
    ]
    for name in passes:
        assert ftm_opt.main([f"--{name}", at, "-o", str(steps)]) == 0
        at = str(steps)
        assert ftm_translate.main([at]) == 0
        assert capsys.readouterr().out == compiled.asm, name
    assert ftm_opt.main(["--emit-assembly", at, "-o", str(steps)]) == 0
    assert whole.read_text() == steps.read_text() == compiled.asm
    assert ftm_opt.main(["--list-passes"]) == 0
    listed = capsys.readouterr().out.partition("\n\n")[0]
    assert [line.split()[0] for line in listed.splitlines()] == [*passes, "emit-assembly"]


def test_opt_runs_upstream_passes_and_verifies(tmp_path, capsys):
    path = tmp_path / "a.mlir"
    path.write_text(
        "func.func @f(%a: index) -> index {\n  %0 = arith.constant 0 : index\n  %1 = arith.addi %a, %0 : index\n  return %1 : index\n}\n"
    )
    assert ftm_opt.main(["--pass-pipeline=builtin.module(canonicalize)", str(path)]) == 0
    assert "arith.addi" not in capsys.readouterr().out
    assert ftm_opt.main(["--verify", str(path)]) == 0
    assert "arith.addi" in capsys.readouterr().out
    assert ftm_opt.main(["--pass-pipeline=builtin.module(nonsuch)", str(path)]) == 2
    assert "nonsuch" in capsys.readouterr().err
    path.write_text("func.func @f() -> index {\n  return\n}\n")
    assert ftm_opt.main([str(path)]) == 2
    assert ":2:" in capsys.readouterr().err


def test_tools_are_programs_that_read_standard_input():
    import subprocess
    import sys

    command = [sys.executable, "-m", "ftm_backend.tools.ftm_translate", "--to", "torch"]
    done = subprocess.run(command, input=TRACE, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "torch.aten.mm" in done.stdout
    helped = subprocess.run(
        [sys.executable, "-m", "ftm_backend.tools.ftm_opt", "--help"],
        capture_output=True,
        text=True,
    )
    assert (
        helped.returncode == 0
        and "--ftm-pipeline" in helped.stdout
        and "examples:" in helped.stdout
    )
