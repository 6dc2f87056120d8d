"""`FTMCompiler`: text of each dialect, assembly with weights, and results of each execution."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.numpy import load_file
from torch import nn

from ftm_backend import runtime
from ftm_backend.machine import Machine
from ftm_backend.torch_mlir import execution_engine, export_dialects
from ftm_lazy import FTMCompiler, metrics
from ftm_lazy.frontends.capture import CaptureError
from ftm_lazy.frontends.captured_model import capture_model
from ftm_lazy.frontends.numpy_program import NumpyProgram
from ftm_lazy.tools import ftm_compile

COMPILER = FTMCompiler()


class Block(nn.Module):
    """Attention with a norm before it, as in a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        weights = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1)
        return {"y": x + self.out(weights @ v), "weights": weights}


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 16, 5),
    ).eval()


def block_and_input() -> tuple[nn.Module, torch.Tensor]:
    return Block(), torch.randn(2, 5, 8)


@pytest.mark.parametrize("dialect", export_dialects.DIALECTS)
@pytest.mark.parametrize(
    "make", (block_and_input, lambda: (cnn(), torch.randn(2, 3, 4, 4))), ids=("block", "cnn")
)
def test_each_dialect_reads_back(make: object, dialect: str) -> None:
    model, x = make()
    text = COMPILER.compile_to_mlir(model, x, dialect=dialect)
    export_dialects.parse(text)
    assert {
        "torch": "torch.aten.",
        "linalg": "linalg.generic",
        "tosa": "tosa.",
        "stablehlo": "stablehlo.",
        "ftm": "ftm.",
    }[dialect] in text


def test_tosa_computes_the_same() -> None:
    """By upstream's own path from TOSA to something that runs."""
    model, x = block_and_input()
    program = NumpyProgram(capture_model(model, (x,)))
    text = export_dialects.tosa_to_linalg(export_dialects.emit(program.trace, "tosa"))
    found = program.nested(execution_engine.run_text(text, program.arrays([x])), [x])
    torch.testing.assert_close(
        found, {k: v.detach() for k, v in model(x).items()}, rtol=1e-4, atol=1e-4
    )


def models() -> list[tuple[str, object, tuple[torch.Tensor, ...]]]:
    x = torch.randn(3, 8)
    block, tokens = block_and_input()
    return [
        ("module", block, (tokens,)),
        ("function", lambda a, b: (a @ b.t()).relu().sum(0), (x, torch.randn(4, 8))),
        ("scripted", torch.jit.script(nn.Sequential(nn.Linear(8, 4), nn.ReLU())), (x,)),
        ("traced", torch.jit.trace(nn.Sequential(nn.Linear(8, 4), nn.GELU()), (x,)), (x,)),
        ("exported", torch.export.export(block, (tokens,)), (tokens,)),
    ]


@pytest.mark.parametrize("kind", ("module", "function", "scripted", "traced", "exported"))
def test_every_model_by_every_way(kind: str) -> None:
    _, model, inputs = next(entry for entry in models() if entry[0] == kind)
    call = model.module() if kind == "exported" else model
    with torch.no_grad():
        expected = call(*inputs)
    for way in (COMPILER.run, COMPILER.jit_run):
        torch.testing.assert_close(way(model, *inputs), expected, rtol=1e-4, atol=1e-5)


def test_an_exported_region_with_a_mode_and_a_device() -> None:
    """What `torch.no_grad` leaves in an exported graph is a graph of its own; its devices are not
    the machine's."""

    class Rotary(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                angles = torch.arange(4).to(x.device, torch.float32)[None] * torch.ones(3, 1).to(
                    device=x.device
                )
            return x * angles.cos()

    x = torch.randn(3, 4)
    exported = torch.export.export(Rotary(), (x,))
    assert any("wrap_with_set_grad_enabled" in str(node.target) for node in exported.graph.nodes)
    torch.testing.assert_close(COMPILER.run(exported, x), Rotary()(x), rtol=1e-5, atol=1e-6)


def test_a_scripted_module_trains_on_the_device() -> None:
    """TorchScript's interpreter runs its loops and branches, its autograd and the device's kernels
    the rest."""

    class Looped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.norm, self.out = nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Linear(6, 3)

        def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
            for _ in range(times):
                x = torch.relu(self.norm(self.inner(x)))
            return self.out(x) if bool(x.sum() > 1) else self.out(x) * 2

    eager = Looped()
    scripted = torch.jit.script(copy.deepcopy(eager)).to("ftm")
    optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in (eager, scripted)]
    for _ in range(4):
        x = torch.randn(4, 6)
        losses = [eager(x, 2).square().mean(), scripted(x.to("ftm"), 2).square().mean()]
        for loss, optimizer in zip(losses, optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert losses[1].item() == pytest.approx(losses[0].item(), rel=1e-4)
    assert not [
        name for name, n in metrics.counters().items() if name.startswith("fallback::") and n
    ]


def test_validate_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    model, x = block_and_input()
    report = COMPILER.validate(model, x)
    assert report.agrees and [b.name for b in report.boundaries] == [
        "trace",
        "torch",
        "linalg",
        "assembly",
    ]
    assert all(b.agrees for b in report.boundaries)
    assert "all agree with eager PyTorch" in capsys.readouterr().out


def test_an_exported_program_has_inputs_of_its_own() -> None:
    model, x = nn.Linear(8, 4), torch.randn(3, 8)
    exported = torch.export.export(model, (x,))
    for way in (COMPILER.run, COMPILER.jit_run):
        torch.testing.assert_close(way(exported), model(x).detach(), rtol=1e-5, atol=1e-6)
    assert COMPILER.validate(exported).agrees


class Scaled(nn.Module):
    def forward(
        self,
        pair: dict[str, torch.Tensor],
        factor: float,
        *,
        shift: torch.Tensor,
        scale: torch.Tensor,
    ) -> torch.Tensor:
        return pair["a"] @ pair["b"] * factor * scale + shift


def scaled() -> tuple[torch.export.ExportedProgram, tuple[Any, ...], dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    inputs, keywords = (
        ({"a": torch.randn(3, 4), "b": torch.randn(4, 2)}, 2.0),
        {"shift": torch.randn(2), "scale": torch.randn(2)},
    )
    return torch.export.export(Scaled(), inputs, keywords), inputs, keywords


@pytest.mark.parametrize("backend", ("ftm", "inductor"))
def test_a_compiled_model_is_the_model_itself(backend: str) -> None:
    """Also where only a part of it was compiled."""
    layer, x = nn.Linear(8, 4), torch.randn(3, 8)
    compiled = torch.compile(layer, backend=backend)
    expected = layer(x).detach()
    torch.testing.assert_close(COMPILER.run(compiled, x), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(
        COMPILER.run(nn.Sequential(compiled, nn.ReLU()), x), expected.relu(), rtol=1e-5, atol=1e-6
    )
    torch.testing.assert_close(
        COMPILER.run(torch.compile(torch.sin, backend=backend), x), x.sin(), rtol=1e-5, atol=1e-6
    )


def test_an_exported_program_takes_its_keywords_in_any_order() -> None:
    exported, inputs, keywords = scaled()
    backwards = dict(reversed(list(keywords.items())))
    torch.testing.assert_close(
        COMPILER.run(exported, *inputs, **backwards), Scaled()(*inputs, **keywords)
    )
    assert COMPILER.validate(exported, *inputs, **backwards).agrees


@pytest.mark.parametrize("way", ("run", "jit_run", "validate", "compile_to_mlir"))
def test_what_an_exported_program_does_not_take_is_named(way: str) -> None:
    exported, inputs, keywords = scaled()
    call = getattr(COMPILER, way)
    with pytest.raises(CaptureError, match=r"exported with factor = 2.0, and 3.0 was given"):
        call(exported, inputs[0], 3.0, **keywords)
    with pytest.raises(
        CaptureError,
        match=r"takes pair_a, pair_b, factor, shift, scale, .*given were 2 by position, shift",
    ):
        call(exported, *inputs, shift=keywords["shift"])
    with pytest.raises(CaptureError, match=r"input shift is torch.float32 of shape \[3\].*\[2\]"):
        call(exported, *inputs, shift=torch.randn(3), scale=keywords["scale"])
    with pytest.raises(
        CaptureError, match=r"input pair_b of the exported program is a tensor, float was given"
    ):
        call(exported, {"a": inputs[0]["a"], "b": 1.0}, 2.0, **keywords)


def test_a_constant_that_is_no_number_is_the_one_it_was_exported_with() -> None:
    class Filled(nn.Module):
        def forward(self, x: torch.Tensor, value: float) -> torch.Tensor:
            return torch.where(x > 0, x, value)

    x = torch.randn(8)
    exported = torch.export.export(Filled(), (x, float("nan")))
    torch.testing.assert_close(
        COMPILER.run(exported, x, float("nan")), torch.where(x > 0, x, float("nan")), equal_nan=True
    )
    with pytest.raises(CaptureError, match=r"exported with value = nan, and 1.0 was given"):
        COMPILER.run(exported, x, 1.0)


def test_what_an_export_says_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    class Looks(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if torch.compiler.is_exporting():
                print("exported another way", file=sys.stderr)
            elif x.sum() > 1e9:  # known by running alone
                return x
            return x.sin()

    x = torch.randn(8)
    torch.testing.assert_close(COMPILER.run(Looks(), x), x.sin(), rtol=1e-5, atol=1e-6)
    assert "exported another way" in capsys.readouterr().err


def test_an_exported_program_without_its_examples_asks_for_inputs() -> None:
    exported, inputs, keywords = scaled()
    exported.example_inputs = None
    for way in (COMPILER.run, COMPILER.jit_run, COMPILER.validate):
        with pytest.raises(CaptureError, match="takes pair_a, .*given were 0 by position"):
            way(exported)
    torch.testing.assert_close(
        COMPILER.run(exported, *inputs, **keywords), Scaled()(*inputs, **keywords)
    )
    assert "func.func" in COMPILER.compile_to_mlir(exported)  # types are all that it needs


def test_upstreams_scans_run_too() -> None:
    """torch-mlir lowers them to a dialect of its own."""
    report = COMPILER.validate(lambda x: x.cumsum(1), torch.randn(2, 3))
    assert [b.agrees for b in report.boundaries] == [True] * 4, str(report)


def test_a_number_that_is_a_constant() -> None:
    """The device has it at run time; here it decides the type of a comparison all the same."""
    x = torch.arange(4)
    for way in (COMPILER.run, COMPILER.jit_run):
        assert way(lambda x: torch.isin(x, 2.5) | torch.isin(x, 3), x).tolist() == [
            False,
            False,
            False,
            True,
        ]


def test_complex_numbers_and_tensors_that_are_constants() -> None:
    x, z = torch.randn(2, 3), torch.randn(2, 3, dtype=torch.complex64)
    rotations = torch.polar(torch.ones(3), torch.arange(3.0)).to("ftm")
    for function, given in (
        (lambda x: x * (2 + 1j), x),
        (lambda z: z - 1j, z),
        (lambda z: torch.where(z.real > 0, z, 1j), z),
        (lambda x: x * rotations.to(x.device), x),
    ):
        if given is z:
            torch.testing.assert_close(COMPILER.jit_run(function, z), function(z))
        report = COMPILER.validate(function, given)
        assert report.agrees and report.boundaries[3].agrees, str(report)


def test_validate_says_where_they_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that is put into the assembly is found at that boundary, and nowhere before."""
    from ftm_lazy.frontends import validate_stages

    right = validate_stages.run_assembly
    monkeypatch.setattr(
        validate_stages,
        "run_assembly",
        lambda program, inputs: right(program, inputs) + torch.eye(3, 4),
    )
    model, x = nn.Linear(8, 4), torch.randn(3, 8)
    report = COMPILER.validate(model, x)
    assert report.parts_at == "assembly" and "they part at assembly" in str(report)
    assert report.boundaries[-1].difference == pytest.approx(1.0, rel=1e-3)


@pytest.mark.parametrize("kind", ("npz", "safetensors"))
def test_assembly_with_weights_and_manifest(tmp_path: Path, kind: str) -> None:
    """What is written is all that the machine needs."""
    model, x = nn.Sequential(nn.Linear(8, 4), nn.Tanh()), torch.randn(3, 8)
    path = COMPILER.compile_to_lasm(model, x, output_path=tmp_path / "kernel.lan", weights=kind)
    manifest = json.loads((tmp_path / "kernel.json").read_text())
    weights = (
        np.load(tmp_path / "kernel.npz")
        if kind == "npz"
        else load_file(tmp_path / "kernel.safetensors")
    )
    assert manifest["inputs"] == [{"name": "x0", "dtype": "f32", "shape": [3, 8]}]
    from ftm_backend import assembler

    with Machine(cores=1) as machine:
        program = machine.load(assembler.assemble(path.read_text()))
        arrays = [
            x.numpy().reshape(t.shape)
            if b["kind"] == "input"
            else weights[b["buffer"]].reshape(t.shape)
            for b, t in zip(manifest["buffers"], program.inputs, strict=True)
        ]
        (found,) = program.run(arrays)
    torch.testing.assert_close(torch.from_numpy(found), model(x).detach(), rtol=1e-5, atol=1e-6)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, x = nn.Sequential(nn.Linear(8, 4), nn.Tanh()), torch.randn(3, 8)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
    torch.jit.save(torch.jit.script(model), tmp_path / "model.pt")
    assert (
        ftm_compile.main([str(tmp_path / "model.pt2")]) == 0 and (tmp_path / "model.lan").exists()
    )
    assert (
        ftm_compile.main([str(tmp_path / "model.pt"), "--input", "f32[3,8]", "--to", "tosa"]) == 0
    )
    assert "tosa.tanh" in capsys.readouterr().out
    package = tmp_path / "model.ftm"
    assert ftm_compile.main([str(tmp_path / "model.pt2"), "-o", str(package)]) == 0
    loaded = runtime.load(package)(x.numpy())
    torch.testing.assert_close(torch.from_numpy(loaded), model(x).detach(), rtol=1e-5, atol=1e-6)
    assert ftm_compile.main([str(tmp_path / "none.pt2")]) == 2
    assert "there is no file" in capsys.readouterr().err
    assert ftm_compile.main([str(tmp_path / "model.pt"), "--input", "f32(3)"]) == 2
    assert "expected a dtype and a shape" in capsys.readouterr().err


# --- bad input
# ------------------------------------------------------------------------------------------------


def test_control_flow_on_data_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    def flips(x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x

    with pytest.raises(CaptureError, match="depends on its data.*torch.where"):
        COMPILER.run(flips, torch.randn(3))
    with pytest.raises(CaptureError, match="depends on its data"):
        COMPILER.run(torch.jit.script(flips), torch.randn(3))

    class Flips(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return flips(x)

    capfd.readouterr()
    with pytest.raises(CaptureError, match="depends on its data"):
        COMPILER.run(Flips(), torch.randn(3))  # torch.export is asked as well
    assert "def forward" not in capfd.readouterr().err

    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    with pytest.raises(CaptureError, match="cond holds graphs of its own.*torch.where"):
        COMPILER.run(torch.export.export(Branches(), (torch.randn(3),)))


def test_sizes_that_are_no_numbers_are_named() -> None:
    sizes = {"input": {0: torch.export.Dim("rows")}}
    exported = torch.export.export(nn.Linear(8, 4), (torch.randn(3, 8),), dynamic_shapes=sizes)
    with pytest.raises(
        CaptureError,
        match=r"input input has the shape \[s\d+, 8\]: export the model with static shapes",
    ):
        COMPILER.compile_to_mlir(exported)


def test_numbers_that_are_no_constants_are_named() -> None:
    class Times(nn.Module):
        def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
            return x * n

    exported = torch.export.export(
        Times(), (torch.randn(3), 3), dynamic_shapes={"x": None, "n": torch.export.Dim.DYNAMIC}
    )
    for way in (COMPILER.run, COMPILER.compile_to_mlir):
        with pytest.raises(
            CaptureError,
            match="input n is a number that may change: export the model with static numbers",
        ):
            way(exported)


def test_an_op_without_lowering_is_named() -> None:
    with pytest.raises(CaptureError, match=r"aten::_linalg_eigh.*use torch\.compile"):
        COMPILER.compile_to_mlir(lambda x: torch.linalg.eigvalsh(x), torch.eye(3))


def test_a_functions_own_tensors_are_named() -> None:
    layer = nn.Linear(8, 4)
    with pytest.raises(
        CaptureError, match="a tensor on another device.*give the nn.Module that it belongs to"
    ):
        COMPILER.run(lambda x: layer(x).relu(), torch.randn(2, 8))
    with pytest.raises(CaptureError, match="in place of a frozen ScriptModule, what was frozen"):
        COMPILER.run(torch.jit.freeze(torch.jit.script(layer.eval())), torch.randn(2, 8))


def test_another_shape_is_refused() -> None:
    captured = capture_model(nn.Linear(8, 4), (torch.randn(3, 8),))
    with pytest.raises(
        CaptureError, match=r"input x0 is torch.float32 of shape \[2, 8\].*\[3, 8\]"
    ):
        captured.run(torch.randn(2, 8))


def test_an_unknown_dialect_lists_the_known() -> None:
    with pytest.raises(export_dialects.DialectError, match="no dialect 'onnx'.*stablehlo"):
        COMPILER.compile_to_mlir(nn.Linear(8, 4), torch.randn(3, 8), dialect="onnx")


def test_an_op_that_only_we_lower_is_named() -> None:
    def noisy(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.5, training=True)

    with pytest.raises(export_dialects.DialectError, match="native_dropout.*no way to tosa"):
        COMPILER.compile_to_mlir(noisy, torch.randn(3), dialect="tosa")


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="none"):
        COMPILER.compile_to_lasm(
            nn.Linear(8, 4), torch.randn(3, 8), output_path=tmp_path / "none" / "kernel.lan"
        )


def test_an_array_of_a_tensor_is_named() -> None:
    with pytest.raises(CaptureError, match="numpy is no part of a program"):
        FTMCompiler().compile_to_mlir(lambda x: torch.from_numpy(x.numpy() * 2), torch.ones(3))


def test_an_unknown_machine_lists_the_known() -> None:
    with pytest.raises(ValueError, match="unknown machine preset 'm9999'; known presets: .*mt3000"):
        FTMCompiler(machine="m9999")


def test_what_is_no_model() -> None:
    with pytest.raises(
        TypeError,
        match="expected an nn.Module, a function, an ExportedProgram or a ScriptModule, found int",
    ):
        COMPILER.run(3, torch.randn(3))


def test_the_package_loads_lazily() -> None:
    code = "import ftm_lazy, sys; print('torch_mlir' in sys.modules, 'ftm_lazy.frontends' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
