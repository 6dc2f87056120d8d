"""The command line of ftm run: data from files, folders and random numbers; comparison; every wrong
usage."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ftm_backend.ir.asm.program import BufferDirective
from ftm_backend.machine import array_compare
from ftm_backend.target.element_types import BY_TOKEN
from ftm_backend.tools import ftm_run

TEXT = """\
@program axpb, host
@in b0, f32, 3x100
@scalar s0, f64
@scalar s1, i64
@out o0, f32, 3x100
@out o1, i64, []
@func main
  @tile X, am, f32, 3x100, 1, 0
  @tile Y, am, i64, 1x1, 1, 4096
    DLD b0[0], 3@100 | 100@1, X
    DWAIT X
    @map 3 x 100, X:v0 -> X:v1
      VFMA.F32 v0, s0, 1.0, v1
    @endmap
    @map 1 x 1 -> Y:v0
      VADD.I64 s1, 1, v0
    @endmap
    DST X, o0[0], 3@100 | 100@1
    DST Y, o1[0], 1@1 | 1@1
@ret
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "p.lan").write_text(TEXT)
    array = np.random.default_rng(0).standard_normal((3, 100)).astype(np.float32)
    np.save(tmp_path / "b0.npy", array)
    (tmp_path / "scalars.json").write_text(json.dumps({"s0": 2.0, "s1": 41}))
    np.save(tmp_path / "o0.npy", array * 2 + 1)
    np.save(tmp_path / "o1.npy", np.array(42))
    return tmp_path


def run(capsys, *words) -> tuple[int, str, str]:
    status = ftm_run.main([str(word) for word in words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_folder_is_replayed_and_compared(folder, capsys):
    status, out, err = run(capsys, folder, "--checked")
    assert (status, err) == (0, "")
    assert out.count("equal within tolerance") == 2


def test_a_difference_is_named_and_fails(folder, capsys):
    wrong = np.load(folder / "o0.npy")
    wrong[1, 7] += 1
    np.save(folder / "o0.npy", wrong)
    status, out, _ = run(capsys, folder)
    assert status == 1
    assert "DIFFERS in 1 of 300 elements, most at [1, 7]" in out
    assert run(capsys, folder, "--rtol", "1", "--atol", "2")[0] == 0


def test_files_scalars_and_results(folder, tmp_path, capsys):
    out = tmp_path / "results"
    status, text, _ = run(
        capsys,
        folder / "p.lan",
        "--in",
        f"b0={folder / 'b0.npy'}",
        "--scalar",
        "s0=3",
        "--scalar",
        "s1=9",
        "--out",
        out,
        "--cores",
        2,
    )
    assert status == 0 and "o1  i64 []  10" in text
    np.testing.assert_allclose(
        np.load(out / "o0.npy"), np.load(folder / "b0.npy") * 3 + 1, rtol=1e-5, atol=1e-6
    )
    assert (
        run(
            capsys,
            folder / "p.lan",
            "--in",
            f"b0={folder / 'b0.npy'}",
            "--scalar",
            "s0=3",
            "--scalar",
            "s1=9",
            "--compare",
            out,
        )[0]
        == 0
    )


def test_random_inputs_follow_the_seed(folder, capsys):
    first, again, other = (
        run(capsys, folder / "p.lan", "--random", "--seed", seed)[1] for seed in (5, 5, 6)
    )
    assert first == again != other


def test_profile_alone_does_not_run(folder, capsys):
    status, out, _ = run(capsys, folder / "p.lan", "--profile", "--machine", "m7032")
    assert status == 0 and out.startswith("modelled on m7032") and "o0" not in out


def test_a_fault_names_the_line(folder, capsys):
    (folder / "p.lan").write_text(TEXT.replace("    DLD b0[0],", "    SMOV 1, r1\n    DLD b0[r1],"))
    status, _, err = run(capsys, folder)
    assert status == 2 and "p.lan" in err and "11" in err and "b0" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no array for input b0 (f32 [3, 100]): give --in b0=FILE.npy, or --random"),
        (["--in", "b0"], "expected NAME=VALUE"),
        (["--in", "b7=x.npy"], "no 'b7'; it has b0"),
        (["--in", "b0=missing.npy"], "missing.npy: No such file"),
        (["--random", "--scalar", "s1=x"], "s1 is i64, found 'x'"),
        (["--random", "--cores", "0"], "at least one core"),
        (["--random", "--cores", "100000"], "at most 256"),
        (["--random", "--seed", "-1"], "--seed -1: expected 0 or more"),
        (["--random", "--scalar", f"s1={2**63}"], "does not fit in 64 bits"),
        (["--random", "--scalar", "s1=" + "9" * 5000], "(5000 characters)"),
        (["--random", "--compare", "nowhere"], "o0.npy does not exist"),
        (["--profile", "--machine", "cray"], "known presets"),
    ],
)
def test_wrong_usage(folder, capsys, words, message):
    status, _, err = run(capsys, folder / "p.lan", *words)
    assert status == 2
    assert err.startswith("ftm run: ") and message in err


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((3, 100)), "input b0 is float32, the file has float64"),
        (np.zeros((3, 99), np.float32), "has shape [3, 100], the file [3, 99]"),
    ],
)
def test_arrays_that_do_not_fit(folder, capsys, array, message):
    np.save(folder / "b0.npy", array)
    status, _, err = run(capsys, folder)
    assert status == 2 and message in err


def test_files_that_are_no_arrays(folder, capsys):
    (folder / "b0.npy").write_text("hello")
    assert "is no .npy array" in run(capsys, folder)[2]


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is no JSON"), ("[1]", "expected an object"), ('{"s0": [1]}', "s0 is f64")],
)
def test_bad_scalar_files(folder, capsys, text, message):
    (folder / "scalars.json").write_text(text)
    status, _, err = run(capsys, folder)
    assert status == 2 and message in err


def test_a_program_that_is_no_text(folder, capsys):
    (folder / "p.lan").write_bytes(TEXT.encode() + b"// \xff\n")
    assert "p.lan is no UTF-8 text: byte" in run(capsys, folder)[2]
    (folder / "p.lan").write_text(TEXT)
    (folder / "scalars.json").write_bytes(b"{\xff}")
    assert "scalars.json is no UTF-8 text" in run(capsys, folder)[2]


@pytest.mark.parametrize("number", ["9" * 5000, "1" + "0" * 30, "-" + "9" * 25])
@pytest.mark.parametrize(
    "place",
    [
        "SMOV {}, r1", "DWAIT X[{}]", "DLD b0[r1+{}], 3@100 | 100@1, X", "SMOV r{}, r1",
        "DLD b0[0], {}@100 | 100@1, X", "[r{}] DWAITALL",
    ],
)  # fmt: skip
def test_numbers_that_no_machine_has(folder, capsys, number, place):
    (folder / "p.lan").write_text(TEXT.replace("DWAIT X", place.format(number)))
    status, _, err = run(capsys, folder)
    assert status == 2 and "line 11" in err and "Traceback" not in err


def test_arrays_that_no_memory_holds(folder, capsys):
    for shape in ("1000000x1000000", "9223372036854775807", "4000000000000", "x".join(["1"] * 100)):
        (folder / "p.lan").write_text(TEXT.replace("@in b0, f32, 3x100", f"@in b0, f32, {shape}"))
        status, _, err = run(capsys, folder / "p.lan", "--random")
        assert status == 2 and err.startswith("ftm run: ") and len(err.splitlines()) < 5
        (folder / "p.lan").write_text(TEXT.replace("@out o0, f32, 3x100", f"@out o0, f32, {shape}"))
        assert run(capsys, folder / "p.lan", "--random")[0] == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"PK\x03\x04",
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999,), }",
    ],
)
def test_arrays_that_are_cut_off(folder, capsys, content):
    (folder / "b0.npy").write_bytes(content)
    status, _, err = run(capsys, folder)
    assert status == 2 and err.startswith("ftm run: ")


def test_several_arrays_in_one_file(folder, capsys):
    np.savez(folder / "many.npz", a=np.zeros(3))
    assert (
        "several arrays"
        in run(capsys, folder / "p.lan", "--random", "--in", f"b0={folder / 'many.npz'}")[2]
    )


def test_ctrl_c_ends_an_endless_program(folder):
    (folder / "p.lan").write_text(
        TEXT.replace(
            "    DWAIT X\n", "    DWAIT X\n    SMOV 1, r1\n  LOOP_a: 1, 2\n    [r1] SBR LOOP_a\n"
        )
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "ftm_backend.tools.ftm_run", str(folder)],
        stderr=subprocess.PIPE,
        text=True,
    )
    while "libftm_machine" not in Path(f"/proc/{process.pid}/maps").read_text():
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert (
        process.communicate(timeout=60)[1] == "ftm run: interrupted\n" and process.returncode == 130
    )


def test_no_program_or_several(folder, capsys):
    assert "No such file" in run(capsys, folder / "q.lan")[2]
    (folder / "q.lan").write_text(TEXT)
    assert "has 2 .lan files" in run(capsys, folder)[2]


def test_assembly_errors_are_shown(folder, capsys):
    (folder / "p.lan").write_text(TEXT.replace("DWAIT X", "DWAIT Z"))
    status, _, err = run(capsys, folder)
    assert status == 2 and "line 11, column 11" in err and "DWAIT Z" in err


def test_module_is_a_program(folder):
    command = [sys.executable, "-m", "ftm_backend.tools.ftm_run", "--help"]
    assert "--compare" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("f32", (4, 4)), ("bf16", (0, 3)), ("bf16", ()), ("i1", (5,)), ("u8", ()), ("i64", (2,))],
)
def test_random_arrays_have_type_and_shape(dtype, shape):
    array = array_compare.random_array(
        np.random.default_rng(0), BufferDirective("in", "b0", dtype, shape)
    )
    assert array.shape == shape and array.dtype == BY_TOKEN[dtype].array


def test_differences_of_special_values():
    nan, inf = np.float32("nan"), np.float32("inf")
    same = np.array([nan, inf, -inf, 1], np.float32)
    assert array_compare.difference(same, same.copy(), "f32", 0, 0) is None
    assert "most at [0]: nan" in array_compare.difference(
        same, np.array([1, inf, -inf, 1], np.float32), "f32", 0, 0
    )
    assert array_compare.difference(np.array(3), np.array(4), "i64", 1, 1).startswith(
        "DIFFERS in 1 of 1"
    )
    assert (
        array_compare.difference(np.uint16([0x3F80]), np.uint16([0x3F81]), "bf16", 1e-2, 0) is None
    )
    assert array_compare.summary(np.zeros((0, 3), np.float32), "f32") == "empty"


def test_a_manifest_without_its_program(folder, capsys):
    (folder / "model.json").write_text("{}")
    status, _, err = run(capsys, folder / "model.json", "--random")
    assert status == 2 and "model.json: expected a manifest" in err and "model.lan" in err
