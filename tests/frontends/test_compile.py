"""``torch.compile(backend="ftm")`` equals eager PyTorch, on CPU tensors and on ftm."""

from __future__ import annotations

import copy
import logging
import warnings
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ftm_lazy import TorchCompileBackend, debug, metrics
from ftm_lazy.frontends import graph_partition
from python_process import run_python

ROOT = Path(__file__).parents[2]
DEVICES = ("cpu", "ftm")


def fallbacks() -> dict[str, int]:
    return {
        name: n for name, n in metrics.counters().items() if name.startswith("fallback::") and n
    }


def small_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * 16, 5),
    )


def train(model: nn.Module, call: nn.Module, device: str, steps: int) -> list[float]:
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        images = torch.randn(6, 1, 8, 8, generator=generator).to(device)
        labels = torch.randint(5, (6,), generator=generator).to(device)
        loss = F.cross_entropy(call(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("device", DEVICES)
def test_training_is_as_eager(device: str) -> None:
    """Losses, and the statistics that batch norm writes in place, over some steps, with nothing
    recompiled."""
    eager = small_cnn()
    model = copy.deepcopy(eager).to(device)
    expected = train(eager, eager, "cpu", 6)
    backend = TorchCompileBackend()
    found = train(model, torch.compile(model, backend=backend), device, 6)
    assert found == pytest.approx(expected, rel=1e-3)
    for (name, a), (_, b) in zip(model.named_buffers(), eager.named_buffers(), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5, msg=name)
    assert len(backend.graphs) == 2 and all(len(graph.programs) == 1 for graph in backend.graphs)
    assert not fallbacks()


@pytest.mark.parametrize("device", DEVICES)
def test_attention_is_no_op_of_the_cpus_own(device: str) -> None:
    """`scaled_dot_product_attention` would be a kernel of the CPU's in a graph on its tensors."""
    eager = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model, x = copy.deepcopy(eager).to(device), torch.randn(2, 5, 8)
    found = torch.compile(model, backend="ftm", fullgraph=True)(x.to(device))
    found.square().sum().backward()
    eager(x).square().sum().backward()
    for a, b in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-4, atol=1e-4)
    assert not fallbacks()


@pytest.mark.parametrize("device", DEVICES)
def test_a_parameter_that_changes_outside_is_seen(device: str) -> None:
    linear = nn.Linear(4, 3).to(device)
    call = torch.compile(linear, backend="ftm")
    x = torch.randn(2, 4, device=device)
    call(x)
    with torch.no_grad():
        linear.weight.mul_(2.0)
        linear.bias.copy_(torch.ones(3))
    torch.testing.assert_close(call(x), linear(x))


@pytest.mark.parametrize("device", DEVICES)
def test_inputs_are_written_in_place(device: str) -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        y.mul_(2.0)
        return x * y

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    expected_x, expected_y = x.clone(), y.clone()
    expected = step(expected_x, expected_y)
    x, y = x.to(device), y.to(device)
    with torch.no_grad():
        found = torch.compile(step, backend="ftm")(x, y)
    for a, b in ((found, expected), (x, expected_x), (y, expected_y)):
        torch.testing.assert_close(a.cpu(), b)


@pytest.mark.parametrize("device", DEVICES)
def test_a_window_is_written_in_place(device: str) -> None:
    """An input that is part of its storage; the rest of the storage stays as it was."""
    base = torch.arange(20.0).reshape(4, 5).to(device)
    with torch.no_grad():
        torch.compile(lambda x: x.add_(1.0), backend="ftm")(base[1:3])
    expected = torch.arange(20.0).reshape(4, 5)
    expected[1:3] += 1.0
    torch.testing.assert_close(base.cpu(), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_results_that_are_views(device: str) -> None:
    def parts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        return y.t(), y[1:], x[0], x.transpose(0, 1), y

    x = torch.randn(4, 6)
    found = torch.compile(parts, backend="ftm")(x.to(device))
    for a, b in zip(found, parts(x), strict=True):
        assert a.stride() == b.stride() and a.device.type == device
        torch.testing.assert_close(a.cpu(), b)


@pytest.mark.parametrize("device", DEVICES)
def test_conjugation_that_is_a_bit_of_the_tensor(device: str) -> None:
    """Of a result, and of an input, also one that is written."""

    def function(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.conj(z * 2)
        z.add_(1j)
        return y, y.imag

    z = torch.randn(3, dtype=torch.complex64)
    expected = z.clone()
    z = z.to(device)
    found, wanted = (
        torch.compile(function, backend="ftm", fullgraph=True)(z.conj()),
        function(expected.conj()),
    )
    for a, b in ((z, expected), *zip(found, wanted, strict=True)):
        torch.testing.assert_close(
            a.cpu().resolve_conj().resolve_neg(), b.resolve_conj().resolve_neg()
        )


def test_random_numbers_are_the_devices() -> None:
    """One seed, one stream: on the lazy device, and compiled for tensors of either device."""

    def noisy(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, 0.4) + torch.rand_like(x) + torch.randn(x.shape, device=x.device)

    x = torch.randn(5, 7)
    torch.manual_seed(3)
    expected = [noisy(x.to("ftm")).cpu() for _ in range(2)]
    for device in DEVICES:
        call = torch.compile(noisy, backend="ftm")
        torch.manual_seed(3)
        for reference in expected:
            torch.testing.assert_close(call(x.to(device)).cpu(), reference, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_an_op_without_record_runs_between_two_programs(device: str) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvalsh(x @ x.t() + 1.0).exp().sum() + x.mean()

    x = torch.randn(4, 4)
    backend = TorchCompileBackend()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        call = torch.compile(function, backend=backend, fullgraph=True)
        for _ in range(2):
            torch.testing.assert_close(call(x.to(device)).cpu(), function(x), rtol=1e-3, atol=1e-3)
    assert len(backend.graphs[0].programs) == 2
    assert sum(fallbacks().values()) == 2


@pytest.mark.parametrize("how", ("dynamic", "mark", "automatic"))
def test_sizes_that_change(how: str) -> None:
    """Forward and backward one graph (or two, where Dynamo finds out that the size changes),
    captured for each size; two programs are compiled of each, for the first size and for all
    others."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
    backend = TorchCompileBackend()
    call = torch.compile(model, backend=backend, dynamic=True if how == "dynamic" else None)
    for size in (2, 5, 3, 7, 4, 5, 2, 3):
        x, gradients = torch.randn(size, 4), []
        if how == "mark":
            torch._dynamo.mark_dynamic(x, 0)
        for way in (call, model):
            result = way(x)
            gradients.append(
                [
                    result.detach(),
                    *torch.autograd.grad(result.square().sum(), list(model.parameters())),
                ]
            )
        torch.testing.assert_close(*gradients)
    assert [len(graph.programs) for graph in backend.graphs] == (
        [1, 1, 5, 5] if how == "automatic" else [5, 5]
    )
    assert metrics.counters()["compiles"] <= 4 and not fallbacks()


@pytest.mark.parametrize("device", DEVICES)
def test_an_assertion_of_a_graph_is_kept(device: str) -> None:
    """It reads its condition, which is no fallback."""
    call = torch.compile(lambda i: F.one_hot(i, 3) * 2, backend="ftm", fullgraph=True)
    labels = torch.tensor([0, 2])
    torch.testing.assert_close(call(labels.to(device)).cpu(), F.one_hot(labels, 3) * 2)
    with pytest.raises(RuntimeError, match="Class values must be smaller than num_classes"):
        call(torch.tensor([0, 3]).to(device)).cpu()
    assert not fallbacks()


def test_a_graph_break_makes_two_graphs() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x)
        torch._dynamo.graph_break()
        return y * 2

    backend = TorchCompileBackend()
    x = torch.randn(3)
    torch.testing.assert_close(torch.compile(function, backend=backend)(x), function(x))
    assert len(backend.graphs) == 2
    assert torch._dynamo.explain(function)(x).graph_count == 2


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("kind", "options", "graphs"),
    # SGD's first step has no momentum yet
    [("SGD", {"momentum": 0.9}, [1, 1]), ("AdamW", {"weight_decay": 0.1}, [1])],
    ids=("SGD", "AdamW"),
)
def test_an_optimizers_step(
    kind: str, options: dict[str, float], graphs: list[int], device: str
) -> None:
    """A graph of one program, which serves every step: the bias correction is no constant."""
    twins = [nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(5))]
    parameters = [nn.Parameter(p.detach().to(device)) for p in twins]
    optimizers = [getattr(torch.optim, kind)(ps, lr=0.1, **options) for ps in (parameters, twins)]
    backend = TorchCompileBackend()
    step = torch.compile(optimizers[0].step, backend=backend)
    for number in range(4):
        for ps in (parameters, twins):
            for p in ps:
                p.grad = torch.full_like(p, 0.5 + number)
        step()
        optimizers[1].step()
    for a, b in zip(parameters, twins, strict=True):
        torch.testing.assert_close(a.cpu(), b)
    assert [len(graph.programs) for graph in backend.graphs] == graphs and not fallbacks()


@torch.library.custom_op("ftm_test::wave", mutates_args=())
def wave(x: torch.Tensor, height: float) -> torch.Tensor:
    """A custom op that is made of ops with records."""
    return x.sin() * height


@wave.register_fake
def _(x: torch.Tensor, height: float) -> torch.Tensor:
    return torch.empty_like(x)


wave.register_autograd(
    lambda ctx, gradient: (gradient * ctx.saved[0].cos() * ctx.saved[1], None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "saved", inputs),
)


@torch.library.custom_op("ftm_test::raise_by", mutates_args={"x"})
def raise_by(x: torch.Tensor, by: float) -> None:
    """One that writes its argument."""
    x.add_(by)


@torch.library.custom_op("ftm_test::by_numpy", mutates_args=())
def by_numpy(x: torch.Tensor) -> torch.Tensor:
    """One that nothing of ours can look into."""
    return torch.from_numpy(x.cpu().numpy().copy() + 1).to(x.device)


@by_numpy.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@pytest.mark.parametrize("device", DEVICES)
def test_custom_ops(device: str) -> None:
    """Part of the program if they are made of ops with records; else between two, counted by
    name."""

    def function(x: torch.Tensor) -> torch.Tensor:
        y = wave(x * 2, 3.0)
        z = y + 1
        raise_by(z, 3.0)
        return (z * y).sum()

    x = torch.randn(4)
    expected, found = x.clone().requires_grad_(), x.to(device, copy=True).requires_grad_()
    backend = TorchCompileBackend()
    torch.compile(function, backend=backend, fullgraph=True)(found).backward()
    function(expected).backward()
    torch.testing.assert_close(found.grad.cpu(), expected.grad)
    assert [len(graph.programs) for graph in backend.graphs] == [1, 1] and not fallbacks()
    graph_partition._warned.discard("ftm_test::by_numpy")
    with pytest.warns(RuntimeWarning, match="ftm_test::by_numpy"):
        by_parts = torch.compile(lambda x: by_numpy(x * 2) * 2, backend=backend, fullgraph=True)
        torch.testing.assert_close(by_parts(x.to(device)).cpu(), x * 4 + 2)
    assert fallbacks() == {"fallback::ftm_test::by_numpy": 1}


def test_what_the_device_itself_does_between_programs_is_no_fallback() -> None:
    """It reads how many there are, and goes on."""
    x = torch.randn(4, 4)
    call = torch.compile(lambda x: x.masked_select(x > 0).sum(), backend="ftm")
    torch.testing.assert_close(call(x.to("ftm")).cpu(), x[x > 0].sum())
    assert not fallbacks()


def test_logs_name_the_stages(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "ftm_lazy"):
        torch.compile(lambda x: x * 2, backend="ftm")(torch.randn(3))
    said = [
        record.getMessage().splitlines()[0]
        for record in caplog.records
        if record.name.startswith("ftm_lazy")
    ]
    assert "0000_inference, of 1 ops: 1 programs, 0 calls on the CPU" in said
    assert [line.rpartition(" ")[2] for line in said if ", stage " in line] == sorted(
        debug.STAGES, key=list(debug.STAGES).index
    )


def test_autocast() -> None:
    linear = nn.Linear(8, 4)
    x = torch.randn(3, 8)

    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return linear(x)

    found = torch.compile(function, backend="ftm")(x)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, function(x), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("first", (True, False), ids=("first-call", "later"))
@pytest.mark.parametrize("device", DEVICES)
def test_an_index_outside_raises_as_eager(device: str, first: bool) -> None:
    """At its first call, too, which AOTAutograd watches in a mode of its own."""
    table = torch.randn(4, 3).to(device)
    call = torch.compile(lambda t, i: F.embedding(i, t) * 2, backend="ftm")
    if not first:
        call(table, torch.tensor([0, 3]).to(device))
    with pytest.raises(IndexError, match="index out of range"):
        call(table, torch.tensor([0, 4]).to(device)).cpu()


def test_the_directory_has_every_stage(tmp_path: Path) -> None:
    backend = TorchCompileBackend(output_dir=tmp_path / "compiled")
    model = nn.Linear(4, 3)
    torch.compile(model, backend=backend)(torch.randn(2, 4)).sum().backward()
    kinds = sorted(place.name for place in (tmp_path / "compiled").iterdir())
    assert kinds == ["0000_forward", "0001_backward"]
    for kind in kinds:
        names = {path.name for path in (tmp_path / "compiled" / kind).iterdir()}
        assert {"graph.py", "inputs.json"} < names
        assert sorted(
            name.partition("_")[2].partition(".")[0] for name in names if "_" in name
        ) == sorted(debug.STAGES)


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    # Dynamo wraps the error
    with pytest.raises(Exception, match=r"Not a directory: '.*/file/0000_inference'"):
        torch.compile(lambda x: x * 2, backend=TorchCompileBackend(output_dir=tmp_path / "file"))(
            torch.randn(3)
        )


_PROCESS = """
import sys
import torch
from torch import nn
from ftm_lazy import metrics
from ftm_lazy.frontends.dynamo import backend
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
call = torch.compile(model, backend=backend, dynamic=True)
for size in sys.argv[1:]:
    call(torch.randn(int(size), 4)).sum().backward()
print(*(metrics.counters()[name] for name in ("compiles", "cache_hits_disk", "instances")))
"""


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    """Not for other sizes either, once two were seen."""

    def counts(*sizes: int) -> list[int]:
        done = run_python(_PROCESS, *map(str, sizes), FTM_CACHE_DIR=str(tmp_path))
        assert done.returncode == 0, done.stderr
        return [int(n) for n in done.stdout.split()]

    assert counts(3, 5) == [4, 0, 0]
    compiled, found, instances = counts(3, 4, 6)
    assert compiled == 0 and found + instances == 6 and instances >= 4
