"""LSTM, GRU and plain recurrent layers: loops over time in one program, whatever the length, that
do what the CPU does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import ftm_lazy
from python_process import run_python

KINDS: dict[str, Callable[..., Any]] = {
    "LSTM": nn.LSTM,
    "GRU": nn.GRU,
    "tanh": nn.RNN,
    "relu": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k),
}
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 6e-2}


def pair(
    kind: str, *sizes: int, dtype: torch.dtype = torch.float32, **options: Any
) -> tuple[nn.Module, nn.Module]:
    """The same layers on the CPU and on the device."""
    torch.manual_seed(0)
    ours = KINDS[kind](*sizes, **options).to(dtype)
    other = KINDS[kind](*sizes, **options).to(dtype)
    other.load_state_dict(ours.state_dict())
    return ours, other.to("ftm")


def states(kind: str, shape: tuple[int, ...], dtype: torch.dtype) -> Any:
    """First states of a layer."""
    hidden = torch.randn(shape, dtype=dtype) / 2
    return (hidden, hidden * 2) if kind == "LSTM" else hidden


def moved(value: Any, device: str) -> Any:
    """States on a device."""
    return tuple(v.to(device) for v in value) if isinstance(value, tuple) else value.to(device)


def flat(output: Tensor, last: Any) -> list[Tensor]:
    """All results of a layer."""
    return [output, *(last if isinstance(last, tuple) else (last,))]


def everything(net: nn.Module, x: Tensor, first: Any) -> list[Tensor]:
    """Results, and gradients of the input, of first states and parameters."""
    leaves = [x.clone().requires_grad_()]
    given = (
        tuple(v.clone().requires_grad_() for v in first)
        if isinstance(first, tuple)
        else first.clone().requires_grad_()
    )
    leaves += given if isinstance(given, tuple) else [given]
    results = flat(*net(leaves[0], given))
    weights = [
        torch.linspace(-1, 2, r.numel(), dtype=r.dtype).view(r.shape).to(r.device) for r in results
    ]
    loss = sum((r.sin() * w).sum() for r, w in zip(results, weights, strict=True))
    leaves += net.parameters()
    return [*(r.detach() for r in results), *torch.autograd.grad(loss, leaves)]


def assert_close(ours: list[Tensor], theirs: list[Tensor], tolerance: float) -> None:
    """The same values, in the same strides."""
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        assert a.stride() == b.stride()
        torch.testing.assert_close(
            a.cpu(), b, rtol=tolerance, atol=tolerance * max(1, b.abs().max().item())
        )


OPTIONS: list[tuple[int, dict[str, Any]]] = [
    (5, {}),
    (4, {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    (1, {"num_layers": 2, "bias": False}),
    (3, {"bidirectional": True, "bias": False, "batch_first": True}),
]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(
    ("steps", "options"), OPTIONS, ids=["plain", "deep", "one step", "two ways"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_results_and_gradients_are_the_cpus(
    kind: str, steps: int, options: dict[str, Any], dtype: torch.dtype
) -> None:
    if dtype == torch.bfloat16:
        steps = min(steps, 3)  # what is rounded grows from step to step
    cpu, device = pair(kind, 6, 7, dtype=dtype, **options)
    x = torch.randn((3, steps, 6) if options.get("batch_first") else (steps, 3, 6), dtype=dtype)
    first = states(
        kind,
        (options.get("num_layers", 1) * (1 + options.get("bidirectional", False)), 3, 7),
        dtype,
    )
    before = ftm_lazy.metrics.counters()
    made = everything(device, x.to("ftm"), moved(first, "ftm"))
    assert_close(made, everything(cpu, x, first), TOLERANCE[dtype])
    after = ftm_lazy.metrics.counters()
    assert not [
        name
        for name in after
        if name.startswith("fallback::") and after[name] != before.get(name, 0)
    ]


def packed(net: nn.Module, data: Tensor, lengths: Tensor, first: Any) -> list[Tensor]:
    """Results, and gradients of the data and parameters, for a packed batch."""
    data = data.clone().requires_grad_()
    given = nn.utils.rnn.pack_padded_sequence(data, lengths, enforce_sorted=False)
    output, last = net(given, first)
    results = flat(nn.utils.rnn.pad_packed_sequence(output)[0], last)
    weights = [
        torch.linspace(-1, 2, r.numel(), dtype=r.dtype).view(r.shape).to(r.device) for r in results
    ]
    loss = sum((r.sin() * w).sum() for r, w in zip(results, weights, strict=True))
    return [*(r.detach() for r in results), *torch.autograd.grad(loss, [data, *net.parameters()])]


@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2, "bidirectional": True}], ids=["plain", "deep, two ways"]
)
@pytest.mark.parametrize("kind", KINDS)
def test_packed_batches(kind: str, options: dict[str, Any]) -> None:
    cpu, device = pair(kind, 6, 7, dtype=torch.float64, **options)
    data, lengths = torch.randn(5, 4, 6, dtype=torch.float64), torch.tensor([2, 5, 1, 5])
    first = states(
        kind,
        (options.get("num_layers", 1) * (1 + options.get("bidirectional", False)), 4, 7),
        torch.float64,
    )
    assert_close(
        packed(device, data.to("ftm"), lengths, moved(first, "ftm")),
        packed(cpu, data, lengths, first),
        1e-9,
    )


@pytest.mark.parametrize("batch_first", [False, True])
def test_packing_and_padding(batch_first: bool) -> None:
    def run(device: str) -> list[Tensor]:
        torch.manual_seed(0)
        x = torch.randn(4, 5, 2, 3, dtype=torch.float64).to(device).requires_grad_()
        lengths = torch.tensor([5, 4, 4, 1] if batch_first else [4, 3, 3, 2, 1])
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=batch_first)
        padded, sizes = nn.utils.rnn.pad_packed_sequence(
            packed, batch_first, padding_value=-2.5, total_length=6
        )
        assert sizes.tolist() == lengths.tolist()
        assert packed.batch_sizes.device.type == "cpu"
        (grad,) = torch.autograd.grad((padded.sin() * padded).sum(), x, create_graph=True)
        return [
            packed.data.detach(),
            padded.detach(),
            grad.detach(),
            torch.autograd.grad(grad.square().sum(), x)[0],
        ]

    assert_close(run("ftm"), run("cpu"), 1e-9)
    for lengths in ([1, 2, 3, 4], [0, 0, 0, 0], [2, 1]):
        for device in ("cpu", "ftm"):
            with pytest.raises(RuntimeError):
                nn.utils.rnn.pack_padded_sequence(
                    torch.randn(4, 5, 2).to(device), torch.tensor(lengths), batch_first=True
                )


def test_what_lies_behind_a_sequence_reaches_nothing() -> None:
    cpu, device = pair("LSTM", 3, 4, dtype=torch.float64)
    data, lengths = torch.randn(4, 2, 3, dtype=torch.float64), torch.tensor([4, 2])
    data[0, 0] = torch.inf
    first = states("LSTM", (1, 2, 4), torch.float64)
    ours, theirs = (
        packed(device, data.to("ftm"), lengths, moved(first, "ftm")),
        packed(cpu, data, lengths, first),
    )
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.cpu(), b, equal_nan=True)


def test_a_program_for_all_packed_batches() -> None:
    _, net = pair("LSTM", 8, 16)
    before = ftm_lazy.metrics.counters()["compiles"]
    counts = []
    source = torch.Generator().manual_seed(0)
    for longest in (40, 23, *range(18, 64, 5)):
        lengths = torch.randint(1, longest, (20,), generator=source)
        lengths[3] = longest
        data = torch.randn(longest, 20, 8).to("ftm")
        net.zero_grad()
        net(nn.utils.rnn.pack_padded_sequence(data, lengths, enforce_sorted=False))[1][
            0
        ].square().mean().backward()
        torch.ftm.synchronize()
        counts.append(ftm_lazy.metrics.counters()["compiles"] - before)
    assert counts[-1] <= 8, counts


def test_a_program_for_all_lengths() -> None:
    _, net = pair("LSTM", 8, 16, num_layers=2)
    before = ftm_lazy.metrics.counters()["compiles"]
    counts = []
    for steps in (40, 23, *range(18, 64, 5)):
        x = torch.randn(steps, 4, 8).to("ftm")
        net.zero_grad()
        net(x)[0].square().mean().backward()
        torch.ftm.synchronize()
        counts.append(ftm_lazy.metrics.counters()["compiles"] - before)
    assert counts[-1] == counts[1] <= 2


def test_the_loop_is_not_unrolled() -> None:
    _, net = pair("GRU", 8, 16)
    lengths = []
    for steps in (20, 200):
        output = net(torch.randn(steps, 4, 8).to("ftm"))[0]
        lengths.append(ftm_lazy.debug.text(output, "asm").count("@call"))
    assert lengths[0] == lengths[1] < 10


@pytest.mark.parametrize("kind", KINDS)
def test_second_derivatives(kind: str) -> None:
    cpu, device = pair(kind, 3, 4, dtype=torch.float64)

    def second(net: nn.Module, x: Tensor, first: Any) -> list[Tensor]:
        x = x.clone().requires_grad_()
        loss = sum(r.pow(3).sum() for r in flat(*net(x, first)))
        first_order = torch.autograd.grad(loss, [x, *net.parameters()], create_graph=True)
        return list(
            torch.autograd.grad(sum(g.sin().sum() for g in first_order), [x, *net.parameters()])
        )

    x, first = torch.randn(3, 2, 3, dtype=torch.float64), states(kind, (1, 2, 4), torch.float64)
    assert_close(second(device, x.to("ftm"), moved(first, "ftm")), second(cpu, x, first), 1e-8)


def test_transforms_of_functions() -> None:
    cpu, device = pair("GRU", 3, 4)
    x, direction = torch.randn(2, 5, 3), torch.randn(2, 5, 3)

    def results(net: nn.Module, on: str) -> list[Tensor]:
        given, along = x.to(on), direction.to(on)

        def loss(sample: Tensor) -> Tensor:
            return net(sample)[0].square().sum()

        _, tangent = torch.func.jvp(loss, (given,), (along,))
        return [torch.func.grad(loss)(given), tangent]

    assert_close(
        [r.detach() for r in results(device, "ftm")],
        [r.detach() for r in results(cpu, "cpu")],
        1e-4,
    )


def test_what_is_returned_may_be_written_to() -> None:
    cpu, device = pair("GRU", 3, 4)

    def run(net: nn.Module, x: Tensor) -> list[Tensor]:
        output, hidden = net(x)
        output.mul_(2)
        hidden.add_(1)
        loss = output.square().sum() + hidden.prod()
        return list(torch.autograd.grad(loss, list(net.parameters())))

    x = torch.randn(5, 2, 3)
    assert_close(run(device, x.to("ftm")), run(cpu, x), 1e-4)


def test_states_without_gradient_and_unused_results() -> None:
    cpu, device = pair("LSTM", 3, 4)

    def run(net: nn.Module, x: Tensor) -> list[Tensor]:
        _, (_, cell) = net(x)
        return list(torch.autograd.grad(cell.sum(), list(net.parameters())))

    x = torch.randn(5, 2, 3)
    assert_close(run(device, x.to("ftm")), run(cpu, x), 1e-4)
    with torch.inference_mode():
        assert_close(flat(*device(x.to("ftm"))), flat(*cpu(x)), 1e-4)


def test_unbatched_and_projected() -> None:
    cpu, device = pair("LSTM", 3, 4)
    x = torch.randn(5, 3)
    assert_close(
        [r.detach() for r in flat(*device(x.to("ftm")))], [r.detach() for r in flat(*cpu(x))], 1e-4
    )
    batch = torch.randn(5, 3, 3)
    cpu, device = pair("LSTM", 3, 4, proj_size=2)
    assert_close(
        [r.detach() for r in flat(*device(batch.to("ftm")))],
        [r.detach() for r in flat(*cpu(batch))],
        1e-4,
    )


def test_dropout_between_layers() -> None:
    _, net = pair("GRU", 3, 64, num_layers=2, dropout=0.5)
    x = torch.randn(4, 2, 3).to("ftm")
    with torch.no_grad():
        trained = [net(x)[0].cpu() for _ in range(2)]
        assert not torch.equal(*trained)
        net.eval()
        assert torch.equal(net(x)[0].cpu(), net(x)[0].cpu())


def test_autocast() -> None:
    _, net = pair("LSTM", 3, 4)
    x = torch.randn(5, 2, 3).to("ftm")
    with torch.autocast("ftm", dtype=torch.bfloat16):
        output = net(x)[0]
    torch.testing.assert_close(output.float().cpu(), net(x)[0].cpu(), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("wrong", ["hidden size", "batch", "parameters", "dtype"])
def test_wrong_calls_raise_what_the_cpu_raises(wrong: str) -> None:
    def call(device: str) -> None:
        net = nn.GRU(3, 4).to(device)
        x, first, weights = (
            torch.randn(5, 2, 3, device=device),
            torch.zeros(1, 2, 4, device=device),
            list(net.parameters()),
        )
        if wrong == "hidden size":
            first = torch.zeros(1, 2, 6, device=device)
        elif wrong == "batch":
            first = torch.zeros(1, 3, 4, device=device)
        elif wrong == "parameters":
            weights.pop()
        else:
            x = x.double()
        torch.gru(x, first, weights, True, 1, 0.0, False, False, False)

    messages = []
    for device in ("cpu", "ftm"):
        with pytest.raises(RuntimeError) as caught:
            call(device)
        messages.append(type(caught.value))
    assert messages[0] is messages[1]


def test_several_cores_and_checked_mode() -> None:
    code = (
        "import torch; from torch import nn; torch.manual_seed(0)\n"
        "net = nn.LSTM(64, 160); x = torch.randn(6, 24, 64); want = net(x)[0]; want.sum().backward(); grads = [p.grad for p in net.parameters()]\n"
        "other = nn.LSTM(64, 160); other.load_state_dict(net.state_dict()); other = other.to('ftm')\n"
        "got = other(x.to('ftm'))[0]; got.sum().backward()\n"
        "torch.testing.assert_close(got.detach().cpu(), want.detach(), rtol=1e-4, atol=1e-4)\n"
        "for p, g in zip(other.parameters(), grads): torch.testing.assert_close(p.grad.cpu(), g, rtol=1e-3, atol=1e-3)\n"
    )
    done = run_python(code, FTM_CORES="4", FTM_CHECKED="1", FTM_STRICT="1")
    assert done.returncode == 0, done.stderr
