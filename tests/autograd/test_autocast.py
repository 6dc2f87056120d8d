"""torch.autocast("ftm") decides op by op as CUDA's does (by PyTorch's own lists of them), runs in
float32 what has no kernel in lower precision, as the CPU's does, and trains with a scaler."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.amp import custom_bwd, custom_fwd
from torch.testing._internal.autocast_test_lists import AutocastTestLists
from torch.utils._pytree import tree_leaves, tree_map_only

from autograd.both import same

LISTS = AutocastTestLists(torch.device("cpu"))
ABSENT = {
    "einsum",
    "cudnn_convolution",
    "cudnn_convolution_transpose",
    "_thnn_fused_lstm_cell",
    "_thnn_fused_gru_cell",
}
HALVES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])


def entries(name: str) -> Iterable[tuple[str, tuple, dict[str, Any]]]:
    """(op, arguments on the device, keyword arguments) of a list in PyTorch's autocast tests."""
    for op, args, *rest in getattr(LISTS, name):
        if op not in ABSENT:
            kwargs = next((r for r in rest if isinstance(r, dict)), {})
            yield op, tree_map_only(torch.Tensor, lambda x: x.to("ftm"), args), kwargs


def cast(tree: Any, dtype: torch.dtype) -> Any:
    return tree_map_only(torch.Tensor, lambda x: x.to(dtype) if x.is_floating_point() else x, tree)


def assert_policy(name: str, runs_in: torch.dtype, amp: torch.dtype) -> None:
    """Each op of the list gives floats of `runs_in`, equal to those of arguments that were cast by
    hand."""
    module = {"t": torch, "n": torch._C._nn, "l": torch._C._linalg, "m": None}[name[0]]
    pairs = []
    for op, args, kwargs in entries(name):
        args = cast(args, amp) if runs_in == torch.float32 else args
        if module is None or not hasattr(module, op):
            call = lambda a, op=op, kwargs=kwargs: getattr(a[0], op)(*a[1:], **kwargs)
        else:
            call = lambda a, op=op, kwargs=kwargs: getattr(module, op)(*a, **kwargs)
        with torch.autocast("ftm", dtype=amp):
            actual = tree_leaves(call(args))
        for got, want in zip(actual, tree_leaves(call(cast(args, runs_in))), strict=True):
            if isinstance(got, Tensor) and want.is_floating_point():
                assert got.dtype == runs_in, f"{op} ran in {got.dtype}"
                pairs.append((op, got, want))
    assert pairs
    for op, got, want in pairs:
        assert torch.equal(got.cpu().nan_to_num(), want.cpu().nan_to_num()), op


@pytest.mark.parametrize("name", ["torch_fp16", "nn_fp16", "linalg_fp16", "methods_fp16"])
@HALVES
def test_lower_precision(name: str, dtype: torch.dtype) -> None:
    if getattr(LISTS, name):
        assert_policy(name, dtype, dtype)


@pytest.mark.parametrize("name", ["torch_fp32", "nn_fp32", "methods_fp32"])
def test_full_precision(name: str) -> None:
    if getattr(LISTS, name):
        assert_policy(name, torch.float32, torch.float16)


def test_a_loss_is_as_exact_as_in_float32() -> None:
    """CUDA's list would round the logarithms of the probabilities to 8 bits."""
    logits, labels = torch.randn(32, 10).bfloat16(), torch.randint(0, 10, (32,))
    with torch.autocast("ftm", dtype=torch.bfloat16):
        loss = F.cross_entropy(logits.to("ftm"), labels.to("ftm"))
    assert loss.dtype == torch.float32
    assert abs(loss.item() - F.cross_entropy(logits.double(), labels).item()) < 1e-6


def test_ops_without_lower_precision_are_those_of_the_cpu() -> None:
    """What the CPU runs in float32 is run in float32, or in lower precision where both can."""
    x, ones = torch.randn(4, 4), torch.ones(16)
    square = x @ x.T + 4 * torch.eye(4)
    calls = {
        "rfft": lambda d: torch.fft.rfft(x.bfloat16().to(d)),
        "inv": lambda d: torch.linalg.inv(square.bfloat16().to(d)),
        "cholesky": lambda d: torch.linalg.cholesky(square.bfloat16().to(d)),
        "eigvalsh": lambda d: torch.linalg.eigvalsh(square.bfloat16().to(d)),
        "svdvals": lambda d: torch.linalg.svdvals(square.bfloat16().to(d)),
        "solve": lambda d: torch.linalg.solve(square.bfloat16().to(d), x.bfloat16().to(d)),
        "lstsq": lambda d: torch.linalg.lstsq(square.bfloat16().to(d), x.bfloat16().to(d))[0],
        "quantile": lambda d: torch.quantile(x.bfloat16().to(d), 0.3),
        "trace": lambda d: torch.trace(x.bfloat16().to(d)),
        "polar": lambda d: torch.polar(x.abs().bfloat16().to(d), x.bfloat16().to(d)),
        "stft": lambda d: torch.stft(
            torch.arange(64.0).bfloat16().to(d), 16, window=ones.to(d), return_complex=True
        ),
        "ctc_loss": lambda d: F.ctc_loss(
            x.reshape(4, 1, 4).log_softmax(-1).bfloat16().to(d),
            torch.tensor([[1, 2]]).to(d), torch.tensor([4]), torch.tensor([2])
        ),
    }  # fmt: skip
    for name, call in calls.items():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            want = call("cpu")
        with torch.autocast("ftm", dtype=torch.bfloat16):
            got = call("ftm")
        assert got.dtype == want.dtype, name
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-4, msg=name)


def test_promotion() -> None:
    """Where operands of both widths meet, the wider wins; other ops promote as they always do."""
    with torch.autocast("ftm", dtype=torch.float16):
        for op, args, kwargs in entries("torch_need_autocast_promote"):
            out = getattr(torch, op)(*args, **kwargs)
            assert out.dtype == torch.float32, op
        for op, args, dtype in LISTS.torch_expect_builtin_promote:
            args = tree_map_only(torch.Tensor, lambda x: x.to("ftm"), args)
            if op != "equal":  # the CPU's, too, wants one dtype
                assert getattr(torch, op)(*args).dtype == dtype, op
        x, y = torch.ones(2, 3, device="ftm"), torch.ones(2, 3, device="ftm").half()
        assert torch.cat([x, y]).dtype == torch.stack([y, x]).dtype == torch.float32
        assert (y + y).dtype == torch.float16
        # left alone
        assert x.double().exp().dtype == (x.double() @ x.double().t()).dtype == torch.float64


def test_binary_cross_entropy_is_refused() -> None:
    """As on CUDA: the logarithm of a rounded probability is no loss to train with."""
    p, t = torch.rand(4, device="ftm").half(), torch.rand(4, device="ftm").half()
    with (
        torch.autocast("ftm", dtype=torch.float16),
        pytest.raises(RuntimeError, match="unsafe to autocast"),
    ):
        F.binary_cross_entropy(p, t)
    with torch.autocast("ftm", dtype=torch.float16):
        F.binary_cross_entropy_with_logits(p, t)


def test_modules_and_losses() -> None:
    """What people rely on: matrix products and attention in the lower precision; norms, softmax and
    losses in float32."""
    x = torch.randn(2, 4, 8, device="ftm")
    with torch.autocast("ftm", dtype=torch.bfloat16):
        y = nn.Linear(8, 8).to("ftm")(x)
        assert y.dtype == F.scaled_dot_product_attention(y, y, y).dtype == torch.bfloat16
        assert (
            F.relu(y).dtype
            == F.conv1d(x, torch.randn(3, 4, 3, device="ftm")).dtype
            == torch.bfloat16
        )
        for out in (
            F.softmax(y, -1),
            F.layer_norm(y, (8,)),
            F.cross_entropy(y[0], torch.zeros(4, dtype=torch.long, device="ftm")),
            y.sum(),
            y.exp(),
            y.pow(2),
            y.cumsum(0),
            F.mse_loss(y, x),
            y.norm(),
        ):
            assert out.dtype == torch.float32


def test_regions() -> None:
    a = torch.randn(4, 4, device="ftm")
    assert not torch.is_autocast_enabled("ftm")
    with torch.autocast("ftm", dtype=torch.float16):
        assert torch.is_autocast_enabled("ftm")
        half = a @ a
        with torch.autocast("ftm", enabled=False):
            assert (a @ a).dtype == torch.float32
            assert (half @ half).dtype == torch.float16
            with pytest.raises(RuntimeError, match="same dtype"):
                a @ half
        with torch.autocast("ftm", dtype=torch.bfloat16):
            assert torch.get_autocast_dtype("ftm") == (a @ half).dtype == torch.bfloat16
        assert (a @ half).dtype == torch.float16
    assert torch.get_autocast_dtype("ftm") in (torch.bfloat16, torch.float16)
    with pytest.warns(UserWarning, match="ftm"), torch.autocast("ftm", dtype=torch.float64):
        assert (a @ a).dtype == torch.float32

    @torch.autocast("ftm", dtype=torch.bfloat16)
    def decorated(x: Tensor) -> Tensor:
        return x @ x

    assert decorated(a).dtype == torch.bfloat16


def test_weights_are_cast_once() -> None:
    import ftm_lazy

    w, x = torch.randn(8, 8, device="ftm", requires_grad=True), torch.randn(2, 8, device="ftm")

    def casts(cache: bool) -> int:
        with torch.autocast("ftm", dtype=torch.bfloat16, cache_enabled=cache):
            y = x
            for _ in range(3):
                y = y @ w
        return ftm_lazy.debug.text(y, "trace").count("%2 = ") and ftm_lazy.debug.text(
            y, "trace"
        ).count("aten::_to_copy")

    assert casts(True) == 2  # w and x
    assert casts(False) == 4


def test_gradients_are_those_of_the_cpu() -> None:
    net = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))

    def run(x: Tensor, y: Tensor, state: dict[str, Tensor]) -> list[Tensor]:
        model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4)).to(
            x.device
        )
        model.load_state_dict(state)
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        assert all(p.grad.dtype == torch.float32 for p in model.parameters())
        return [loss.float(), *(p.grad for p in model.parameters())]

    same(
        run,
        torch.randn(6, 8),
        torch.tensor([0, 1, 2, 3, 0, 1]),
        dict(net.state_dict()),
        rtol=5e-2,
        atol=2e-2,
    )


class Product(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="ftm")
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        assert torch.is_autocast_enabled("ftm")
        return a @ b

    @staticmethod
    @custom_bwd(device_type="ftm")
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
        assert torch.is_autocast_enabled("ftm")
        a, b = ctx.saved_tensors
        return g @ b.t(), a.t() @ g


class InFloat32(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="ftm", cast_inputs=torch.float32)
    def forward(ctx: Any, a: Tensor) -> Tensor:
        assert not torch.is_autocast_enabled("ftm")
        assert a.dtype == torch.float32
        return a @ a

    @staticmethod
    @custom_bwd(device_type="ftm")
    def backward(ctx: Any, g: Tensor) -> Tensor:
        assert not torch.is_autocast_enabled("ftm")
        return g


def test_custom_functions() -> None:
    a = torch.randn(3, 3, device="ftm", requires_grad=True)
    with torch.autocast("ftm", dtype=torch.float16):
        out = Product.apply(a, a)
        assert out.dtype == torch.float16
        wide = InFloat32.apply(out)
        assert wide.dtype == torch.float32
    (out.sum() + wide.sum()).backward()
    assert a.grad.dtype == torch.float32


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_scaler(optimizer: type[torch.optim.Optimizer]) -> None:
    """A training loop with loss scaling; the step whose gradients overflow is left out, and the
    scale falls."""
    model = nn.Linear(8, 4).to("ftm")
    steps = optimizer(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("ftm", init_scale=2.0**10, growth_interval=3)
    x, scales, losses = torch.randn(16, 8, device="ftm"), [], []
    for step in range(6):
        before = model.weight.detach().clone()
        with torch.autocast("ftm", dtype=torch.float16):
            loss = model(x * (1e6 if step == 2 else 1)).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(steps)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(steps)
        scaler.update()
        steps.zero_grad()
        assert torch.equal(before.cpu(), model.weight.detach().cpu()) == (step == 2)
        scales.append(scaler.get_scale())
        losses.append(loss.item())
    assert scales == [2.0**10, 2.0**10, 2.0**9, 2.0**9, 2.0**9, 2.0**10]
    assert losses[-1] < losses[0]
    again = torch.amp.GradScaler("ftm")
    again.load_state_dict(scaler.state_dict())
    assert again.get_scale() == scales[-1]
