"""Commands with invalid files and malicious names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ftm_backend import runtime, safe_names
from ftm_backend.runtime import package_file
from ftm_backend.tools import ftm_conformance, ftm_opt, ftm_profile, ftm_run
from ftm_lazy.frontends.package import package
from ftm_lazy.tools import ftm_compile
from ftm_lazy.tools.ftm_migrate import main as ftm_migrate


class Counted(nn.Module):
    """Weights, state that changes, a parameter and an input that are returned, and random
    numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.kept = nn.Parameter(torch.ones(2, 2))
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.count.add_(1)
        return {
            "y": self.linear(x),
            "count": self.count,
            "kept": self.kept.t(),
            "x": x.t(),
            "noise": torch.rand(3),
        }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("commands")
    torch.manual_seed(0)
    model, x = Counted(), torch.randn(2, 4)
    exported = torch.export.export(model, (x,))
    torch.export.save(exported, place / "model.pt2")
    torch.save(model.state_dict(), place / "state.pt")
    torch.jit.save(torch.jit.script(nn.Linear(4, 3)), place / "scripted.pt")
    package(exported, place / "model.ftm")
    np.save(place / "x.npy", x.numpy())
    np.save(place / "x64.npy", x.double().numpy())
    (place / "junk.pt2").write_bytes(b"junk")
    assert ftm_compile.main([str(place / "model.pt2")]) == 0
    return place


def failure(capsys: pytest.CaptureFixture[str], main: Callable[..., int], *words: object) -> str:
    """The message of a command that must end with 2."""
    capsys.readouterr()
    try:
        status: Any = main([str(word) for word in words])
    except SystemExit as ended:
        status = ended.code
    shown = capsys.readouterr()
    assert status == 2 and "Traceback" not in shown.err and "\x1b" not in shown.err + shown.out
    return shown.err


@pytest.mark.parametrize("weights", ["npz", "safetensors"])
def test_compiled_assembly_runs_as_the_package_does(
    folder: Path, tmp_path: Path, weights: str
) -> None:
    lan = tmp_path / "model.lan"
    assert ftm_compile.main([str(folder / "model.pt2"), "-o", str(lan), "--weights", weights]) == 0
    given = ["--in", f"x={folder / 'x.npy'}", "--seed", "7"]
    assert (
        ftm_run.main([str(folder / "model.ftm"), *given, "--out", str(tmp_path / "expected")]) == 0
    )
    assert ftm_run.main([str(lan), *given, "--compare", str(tmp_path / "expected")]) == 0
    assert sorted(path.stem for path in (tmp_path / "expected").iterdir()) == [
        "count", "kept", "noise", "x", "y",
    ]  # fmt: skip
    assert ftm_run.main([str(lan), "--random"]) == 0
    assert ftm_run.main([str(lan.with_suffix(".json")), "--random"]) == 0


def test_compiled_assembly_without_its_weights(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for suffix in (".lan", ".json"):
        (tmp_path / f"m{suffix}").write_bytes((folder / f"model{suffix}").read_bytes())
    assert "m.npz" in failure(capsys, ftm_run.main, tmp_path / "m.lan", "--random")
    (tmp_path / "m.npz").write_bytes(b"PK\x03\x04")
    assert "m.npz" in failure(capsys, ftm_run.main, tmp_path / "m.lan", "--random")


def test_models_that_do_not_compile(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "junk.pt2 is no exported model" in failure(capsys, ftm_compile.main, folder / "junk.pt2")
    assert "state.pt is no scripted model" in failure(capsys, ftm_compile.main, folder / "state.pt")
    assert "scripted.pt takes input: Tensor" in failure(
        capsys, ftm_compile.main, folder / "scripted.pt"
    )
    assert "cannot be multiplied" in failure(
        capsys, ftm_compile.main, folder / "scripted.pt", "--input", "f32[3,9]"
    )
    assert "f32[99999999999999]" in failure(
        capsys, ftm_compile.main, folder / "scripted.pt", "--input", "f32[99999999999999]"
    )


def test_arrays_of_another_dtype(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for model in ("model.ftm", "model.lan"):
        message = failure(capsys, ftm_run.main, folder / model, "--in", f"x={folder / 'x64.npy'}")
        assert "x64.npy: input x is float32, the file has float64" in message


def test_numbers_out_of_range(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--core 99" in failure(capsys, ftm_profile.main, folder / "model.lan", "--core", "99")
    assert "--cores -1" in failure(capsys, ftm_profile.main, folder / "model.lan", "--cores", "-1")
    assert "nope" in failure(
        capsys, ftm_run.main, folder / "model.ftm", "--machine", "nope", "--random"
    )
    assert ftm_profile.main([str(folder / "model.ftm")]) == 0


def test_a_library_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("libx.so").write_bytes(b"\x7fELF")
    assert "libx.so" in failure(capsys, ftm_conformance.main, "libx.so")


def test_migrate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "binary").write_bytes(b"\0\xff xla")
    assert "binary: not Python" in failure(capsys, ftm_migrate, tmp_path / "binary")
    monkeypatch.setitem(sys.modules, "libcst", None)
    monkeypatch.delitem(sys.modules, "ftm_lazy.migrate.rewrite")
    assert "torch-ftm[migrate]" in failure(capsys, ftm_migrate, tmp_path)


@pytest.mark.parametrize("kind", ["/dev/zero", "pipe", "folder", "missing", "n\0l"])
def test_what_is_no_regular_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for main in (ftm_run.main, ftm_opt.main, ftm_profile.main, ftm_compile.main):
        assert safe_names.printable(kind) in failure(capsys, main, tmp_path / kind)


def test_a_closed_pipe(folder: Path) -> None:
    script = f"{sys.executable} -m ftm_backend.tools.ftm_opt --list-passes | head -c 0; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) in ((141, ""), (0, ""))


def hostile(folder: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A package whose manifest is changed, with checksums that fit."""
    sections: dict[str, Any] = dict(package_file.read(folder / "model.ftm"))
    manifest = json.loads(sections["manifest"].tobytes())
    change(manifest)
    package_file.write(target, sections | {"manifest": json.dumps(manifest).encode()})
    return target


@pytest.mark.parametrize(
    "name", ["../../x", "/tmp/ftm-x", "..", "a/b", "a\\b", "", "x" * 300, "n\0l", "\x1b[31mred"]
)
def test_outputs_names_are_no_paths(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = hostile(
        folder, tmp_path / "m.ftm", lambda manifest: manifest["outputs"][0].update(name=name)
    )
    failure(capsys, ftm_run.main, path, "--random", "--out", tmp_path / "a" / "b" / "c")
    assert [p for p in tmp_path.rglob("*") if p != path] == [] and not Path(
        "/tmp/ftm-x.npy"
    ).exists()


def test_a_shape_that_no_memory_holds(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = hostile(
        folder, tmp_path / "m.ftm", lambda manifest: manifest["inputs"][0].update(shape=[2**47])
    )
    assert "input x takes" in failure(capsys, ftm_run.main, path, "--random")


def test_names_are_printable() -> None:
    assert safe_names.printable("a\x1b[31m\n\u202e\udc80é") == "a\\x1b[31m\n\\u202e\\udc80é"
    with pytest.raises(safe_names.InvalidName):
        safe_names.file_in(Path("x"), "../y", ".npy")


def test_an_endless_program_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "endless.lan"
    path.write_text(
        "@program p, host\n@func main\n    SMOV 1, r1\n  LOOP_a: 1, 2\n    [r1] SBR LOOP_a\n@ret\n"
    )
    assert "endless loop" in failure(capsys, ftm_run.main, path, "--instructions", "100000")


def test_instructions_of_a_loaded_model_are_limited(folder: Path) -> None:
    model = runtime.load(folder / "model.ftm", instructions=1)
    with pytest.raises(Exception, match="a run may take 1"):
        model(np.zeros((2, 4), np.float32))
