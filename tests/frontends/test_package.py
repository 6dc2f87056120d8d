"""Packages: one file that runs without PyTorch, from Python, from the command line and from C; and
damaged ones."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ftm_backend import runtime
from ftm_backend.runtime import package_file
from ftm_backend.tools import ftm_run
from ftm_lazy import package
from ftm_lazy.frontends.captured_model import capture_model

ROOT = Path(__file__).parents[2]


class Model(nn.Module):
    """Several inputs of several dtypes, nested results, a view and an input among them."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.linear = nn.Embedding(10, 8), nn.Linear(8, 4)

    def forward(
        self, tokens: torch.Tensor, scale: torch.Tensor
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        y = self.linear(self.table(tokens)) * scale
        return y.transpose(0, 1), {"sum": y.sum(), "scale": scale}


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(10, (3, 5)), torch.randn(4)


@pytest.fixture(scope="module")
def packaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, nn.Module]:
    torch.manual_seed(0)
    model = Model().eval()
    path = tmp_path_factory.mktemp("package") / "model.ftm"
    package(torch.export.export(model, inputs()), path)
    return path, model


def test_results_are_the_models(packaged: tuple[Path, nn.Module]) -> None:
    path, model = packaged
    loaded = runtime.load(path)
    tokens, scale = inputs()
    expected, rest = model(tokens, scale)
    found = loaded(tokens.numpy(), scale.numpy())
    assert [output.name for output in loaded.outputs] == ["0", "1.sum", "1.scale"]
    for a, b in zip(found, (expected, rest["sum"], scale), strict=True):
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-5, atol=1e-6)
    named = loaded(**{loaded.inputs[0].name: tokens.numpy(), loaded.inputs[1].name: scale.numpy()})
    np.testing.assert_array_equal(named[0], found[0])


_ALONE = """
import sys
import numpy as np
from ftm_backend import runtime
model = runtime.load(sys.argv[1])
np.save(sys.argv[2], model(np.load(sys.argv[3]), np.load(sys.argv[4]))[0])
print([name for name in ("torch", "torch_mlir", "ftm_lazy") if name in sys.modules])
"""


def test_no_torch_in_the_process(packaged: tuple[Path, nn.Module], tmp_path: Path) -> None:
    path, model = packaged
    tokens, scale = inputs()
    np.save(tmp_path / "tokens.npy", tokens.numpy())
    np.save(tmp_path / "scale.npy", scale.numpy())
    arguments = [path, tmp_path / "out.npy", tmp_path / "tokens.npy", tmp_path / "scale.npy"]
    done = subprocess.run(
        [sys.executable, "-c", _ALONE, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
    np.testing.assert_allclose(
        np.load(tmp_path / "out.npy"),
        model(tokens, scale)[0].detach().numpy(),
        rtol=1e-5,
        atol=1e-6,
    )


def test_state_changes_in_the_process_and_not_in_the_file(tmp_path: Path) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen.add_(1.0)
            return x + self.seen

    package(torch.export.export(Counter(), (torch.zeros(2),)), tmp_path / "model.ftm")
    for _ in range(2):
        loaded = runtime.load(tmp_path / "model.ftm")
        assert [float(loaded(np.zeros(2, np.float32))[0]) for _ in range(3)] == [1.0, 2.0, 3.0]


def test_random_numbers_are_the_devices(tmp_path: Path) -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)

    package(capture_model(noisy, (torch.zeros(4),)), tmp_path / "model.ftm")
    loaded = runtime.load(tmp_path / "model.ftm")
    torch.manual_seed(7)
    loaded.seed(7)
    for _ in range(2):
        expected = torch.rand_like(torch.zeros(4, device="ftm")).cpu().numpy()
        np.testing.assert_array_equal(loaded(np.zeros(4, np.float32)), expected)


def test_a_preset_of_its_own(tmp_path: Path) -> None:
    model = nn.Linear(4, 3)
    package(
        torch.export.export(model, (torch.zeros(2, 4),)), tmp_path / "model.ftm", machine="m7032"
    )
    loaded = runtime.load(tmp_path / "model.ftm")
    assert loaded.manifest.machine == "m7032"
    x = torch.randn(2, 4)
    np.testing.assert_allclose(loaded(x.numpy()), model(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_ftm_run(
    packaged: tuple[Path, nn.Module], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, model = packaged
    tokens, scale = inputs()
    np.save(tmp_path / "tokens.npy", tokens.numpy())
    np.save(tmp_path / "scale.npy", scale.numpy())
    given = [f"--in=tokens={tmp_path / 'tokens.npy'}", f"--in=scale={tmp_path / 'scale.npy'}"]
    assert ftm_run.main([str(path), *given, "--out", str(tmp_path / "out")]) == 0
    found = np.load(tmp_path / "out" / "0.npy")
    np.testing.assert_allclose(
        found, model(tokens, scale)[0].detach().numpy(), rtol=1e-5, atol=1e-6
    )
    assert ftm_run.main([str(path), "--random"]) == 0
    capsys.readouterr()
    assert ftm_run.main([str(path)]) == 2
    assert "give --in tokens=FILE.npy, or --random" in capsys.readouterr().err


def test_arrays_that_do_not_fit(packaged: tuple[Path, nn.Module]) -> None:
    loaded = runtime.load(packaged[0])
    tokens, scale = (t.numpy() for t in inputs())
    with pytest.raises(
        runtime.PackageError,
        match=r"input tokens is int64 of shape \[3, 5\], found int64 of shape \[2, 5\]",
    ):
        loaded(tokens[:2], scale)
    with pytest.raises(runtime.PackageError, match="input scale is float32.*found float64"):
        loaded(tokens, scale.astype(np.float64))
    with pytest.raises(runtime.PackageError, match="takes tokens: i64"):
        loaded(tokens)


# --- files from strangers
# ---------------------------------------------------------------------------------------


def test_a_flipped_bit_anywhere_is_found(packaged: tuple[Path, nn.Module], tmp_path: Path) -> None:
    """Every byte is under a checksum, or changes what the table says, or is padding."""
    original = packaged[0].read_bytes()
    path = tmp_path / "damaged.ftm"
    generator = np.random.default_rng(0)
    tokens, scale = (t.numpy() for t in inputs())
    expected = runtime.load(packaged[0])(tokens, scale)
    for position in [*range(0, 400, 7), *generator.integers(0, len(original), 120)]:
        damaged = bytearray(original)
        damaged[position] ^= 1 << int(generator.integers(8))
        path.write_bytes(damaged)
        try:
            found = runtime.load(path)(tokens, scale)
        except runtime.PackageError:
            continue
        np.testing.assert_array_equal(found[0], expected[0])


@pytest.mark.parametrize("length", (0, 7, 15, 16, 100, 500, -1))
def test_a_file_that_is_cut_short(
    packaged: tuple[Path, nn.Module], tmp_path: Path, length: int
) -> None:
    path = tmp_path / "short.ftm"
    path.write_bytes(packaged[0].read_bytes()[:length])
    with pytest.raises(runtime.PackageError, match="short.ftm"):
        runtime.load(path)


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("parameters", lambda raw: struct.pack("<qq", 0, 1 << 40) + raw[16:]),
        ("parameters", lambda raw: struct.pack("<qq", 0, -4) + raw[16:]),
        ("parameters", lambda raw: struct.pack("<qq", 99, 0) + raw[16:]),
        ("parameters", lambda raw: struct.pack("<qq", -99, 0) + raw[16:]),
        ("parameters", lambda raw: raw[:-8]),
        ("results", lambda raw: struct.pack("<q", 0) + raw[8:]),
        ("results", lambda raw: raw + raw),
        ("manifest", lambda raw: raw.replace(b'"strides": [\n', b'"strides": [\n1000000,')),
        ("manifest", lambda raw: raw.replace(b'"offset": 0', b'"offset": 99999999')),
        ("manifest", lambda raw: raw.replace(b'"offset": 0', b'"offset": -1')),
        ("manifest", lambda raw: raw.replace(b"f32", b"f99")),
        ("manifest", lambda raw: raw.replace(b'"index": 0', b'"index": 7')),
        ("manifest", lambda raw: b"[" * 100000),
        ("image", lambda raw: raw[: len(raw) // 2]),
        ("image", lambda raw: b""),
        ("weight.0", lambda raw: raw[:-4]),
        ("weight.0", lambda raw: b""),
    ],
)
def test_a_forged_package_is_refused(
    packaged: tuple[Path, nn.Module], tmp_path: Path, section: str, change: object
) -> None:
    """Checksums fit, contents do not."""
    sections = {name: content.tobytes() for name, content in package_file.read(packaged[0]).items()}
    forged = change(sections[section])
    assert forged != sections[section], "the change changes nothing"
    path = tmp_path / "forged.ftm"
    package_file.write(path, {**sections, section: forged})
    with pytest.raises(runtime.PackageError, match="damaged"):
        runtime.load(path)


def test_a_missing_section(packaged: tuple[Path, nn.Module], tmp_path: Path) -> None:
    sections = {
        name: content
        for name, content in package_file.read(packaged[0]).items()
        if name != "weight.1"
    }
    package_file.write(tmp_path / "less.ftm", sections)
    with pytest.raises(runtime.PackageError, match=r"no section 'weight.1'"):
        runtime.load(tmp_path / "less.ftm")


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="none/model.ftm"):
        package(
            torch.export.export(nn.Linear(2, 2), (torch.zeros(1, 2),)),
            tmp_path / "none" / "model.ftm",
        )


def test_a_model_that_was_not_exported(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="expected an ExportedProgram, found Linear"):
        package(nn.Linear(2, 2), tmp_path / "model.ftm")


# --- C
# ------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(
    shutil.which("make") is None or shutil.which("cc") is None,
    reason="a C compiler and make are needed",
)
def test_the_c_example(tmp_path: Path) -> None:
    folder = tmp_path / "deploy_c"
    shutil.copytree(ROOT / "examples" / "deploy_c", folder)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    machine = ROOT / "backend" / "ftm_backend" / "machine"
    subprocess.run(
        ["make", "-C", str(folder), f"MACHINE={machine}"],
        check=True,
        capture_output=True,
        env=environment,
    )
    subprocess.run(
        [sys.executable, str(folder / "make_model.py"), str(folder / "model.ftm")],
        check=True,
        env=environment,
    )
    x = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    done = subprocess.run(
        [str(folder / "run_model"), str(folder / "model.ftm")],
        input=x.tobytes(),
        capture_output=True,
        check=True,
    )
    found = np.frombuffer(done.stdout, np.float32).reshape(8, 4)
    np.testing.assert_array_equal(found, runtime.load(folder / "model.ftm")(x))
    np.testing.assert_allclose(found.sum(1), 1.0, rtol=1e-5)
    (folder / "bad.ftm").write_bytes((folder / "model.ftm").read_bytes()[:200])
    bad = subprocess.run(
        [str(folder / "run_model"), str(folder / "bad.ftm")], input=x.tobytes(), capture_output=True
    )
    assert bad.returncode == 1 and b"cut short" in bad.stderr
