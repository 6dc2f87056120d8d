"""Ops that autograd calls, called by hand: with the dtypes, indices and shapes that it never gives
them, as on the CPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import ftm_lazy
from e2e.counting import fallbacks

ATEN = torch.ops.aten
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)

GRADIENTS: dict[str, Callable[[Tensor, Tensor], object]] = {
    "threshold": lambda g, x: ATEN.threshold_backward(g, x, 0),
    "tanh": ATEN.tanh_backward,
    "sigmoid": ATEN.sigmoid_backward,
    "silu": ATEN.silu_backward,
    "mish": ATEN.mish_backward,
    "hardswish": ATEN.hardswish_backward,
    "elu": lambda g, x: ATEN.elu_backward(g, 1.0, 1.0, 1.0, False, x),
    "leaky_relu": lambda g, x: ATEN.leaky_relu_backward(g, x, 0.1, False),
    "hardtanh": lambda g, x: ATEN.hardtanh_backward(g, x, -1, 1),
    "softplus": lambda g, x: ATEN.softplus_backward(g, x, 1, 20),
    "glu": lambda g, x: ATEN.glu_backward(g[:2], x, 0),
    "softmax": lambda g, x: ATEN._softmax_backward_data(g, x, 0, x.dtype),
    "log_softmax": lambda g, x: ATEN._log_softmax_backward_data(g, x, 0, x.dtype),
    "log_sigmoid": lambda g, x: ATEN.log_sigmoid_backward(g, x, x),
    "prelu": lambda g, x: ATEN._prelu_kernel_backward(g, x, x)[0],
    "mse": lambda g, x: ATEN.mse_loss_backward(g, x, x * 2, 0),
    "bce": lambda g, x: ATEN.binary_cross_entropy_backward(g, x.abs(), x.abs(), None, 0),
}


def outcome(call: Callable[[], object]) -> object:
    """The result on the CPU, or the type of the error."""
    try:
        made = call()
    except (RuntimeError, NotImplementedError) as error:
        return type(error)
    return made.cpu() if isinstance(made, Tensor) else [m.cpu() for m in made]


def agree(call: Callable[[str], object], **tolerance: float) -> None:
    """The call on ftm, given the device, is what it is on the CPU."""
    want, got = outcome(lambda: call("cpu")), outcome(lambda: call("ftm"))
    if isinstance(want, type):
        assert got is want, (got, want)
        return
    torch.testing.assert_close(got, want, equal_nan=True, **tolerance)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_several_dtypes(name: str) -> None:
    gradient, x = torch.tensor([1.0, 2, 3, -1]), torch.tensor([0.25, -1.0, 2.0, 0.5])
    for of, given in itertools.product(FLOATS, (*FLOATS, torch.int64)):
        if of != given:
            agree(
                lambda d, of=of, given=given: GRADIENTS[name](gradient.to(d, given), x.to(d, of)),
                rtol=0.02,
                atol=0.02,
            )


@pytest.mark.parametrize("dims", [2, 3])
def test_gradients_of_maxima_go_where_the_indices_say(dims: int) -> None:
    side, out = 4, 2
    index = torch.tensor([15, 0, 1, 2, 2, 2, 7, 5])[: out**dims].view(1, *[out] * dims)
    name = f"max_pool{dims}d_with_indices_backward"

    def call(device: str) -> Tensor:
        x = torch.zeros(1, *[side] * dims, device=device)
        grad = torch.arange(1.0, 1 + index.numel(), device=device).view(index.shape)
        of = [[2] * dims, [2] * dims, [0] * dims, [1] * dims]
        return getattr(ATEN, name)(grad, x, *of, False, index.to(device))

    agree(call)


def test_gradients_of_maxima_found_by_another_program() -> None:
    def call(device: str) -> Tensor:
        x = torch.arange(98.0, device=device).sin().view(1, 2, 7, 7).requires_grad_()
        y = F.max_pool2d(x, 3, 2, 1)
        y.detach().sum().item()
        y.square().sum().backward()
        return x.grad

    agree(call)


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("label", [1, 2])
def test_loss_of_one_sample_knows_its_weight(reduction: int, label: int) -> None:
    for weight in (None, torch.tensor([0.5, 2.0, 3.0])):
        agree(
            lambda d, w=weight: ATEN.nll_loss_forward(
                torch.tensor([-0.5, -1, -2], device=d),
                torch.tensor(label, device=d),
                w if w is None else w.to(d),
                reduction,
                2,
            )
        )


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_bags_say_of_themselves_what_the_cpu_does(
    mode: int, last: bool, dtype: torch.dtype
) -> None:
    def bags(device: str, padding: int) -> list[Tensor]:
        return list(
            ATEN._embedding_bag(
                torch.arange(8.0).view(4, 2).to(device, dtype),
                torch.tensor([0, 1, 3, 2], device=device),
                torch.tensor([0, 2, 4] if last else [0, 2], device=device),
                False,
                mode,
                False,
                None,
                last,
                padding,
            )
        )

    for padding in (-1, 2):
        for wanted, found in zip(bags("cpu", padding), bags("ftm", padding), strict=True):
            torch.testing.assert_close(found.cpu(), wanted)


def test_slices_are_replaced_by_another_dtype() -> None:
    agree(
        lambda d: torch.zeros(2, 3, device=d).select_scatter(
            torch.tensor([1, 2, 3], device=d), 0, 1
        )
    )
    agree(lambda d: torch.zeros(4, device=d).slice_scatter(torch.tensor([1, 2], device=d), 0, 1, 3))
    agree(
        lambda d: torch.zeros(4, device=d, dtype=torch.int64).slice_scatter(
            torch.tensor([1.5, 2], device=d), 0, 1, 3
        )
    )
    torch.accelerator.synchronize()
    assert not ftm_lazy.metrics.counters()["compile_failures"]


@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str
)
def test_convolutions_of_integers(dtype: torch.dtype) -> None:
    agree(
        lambda d: F.conv2d(
            torch.arange(32).view(1, 2, 4, 4).to(d, dtype),
            torch.arange(18).view(1, 2, 3, 3).to(d, dtype),
        )
    )
    agree(
        lambda d: F.conv1d(
            torch.arange(8).view(1, 2, 4).to(d, dtype),
            torch.arange(6).view(1, 2, 3).to(d, dtype),
            torch.ones(1, device=d, dtype=dtype),
        )
    )
    agree(
        lambda d: F.conv_transpose2d(
            torch.arange(32).view(1, 2, 4, 4).to(d, dtype),
            torch.arange(18).view(2, 1, 3, 3).to(d, dtype),
        )
    )
    assert not fallbacks(ftm_lazy.metrics.counters())


def test_convolution_without_input_channels_has_gradients() -> None:
    def call(device: str) -> list[Tensor]:
        weight, bias, x = (
            torch.ones(*shape, device=device, requires_grad=True)
            for shape in ((12, 0, 3, 3), (12,), (2, 0, 5, 5))
        )
        F.conv2d(x, weight, bias, padding=1).sum().backward()
        return [weight.grad, bias.grad, x.grad]

    agree(call)
    torch.accelerator.synchronize()
    assert not ftm_lazy.metrics.counters()["compile_failures"]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8], ids=str)
def test_integers_divided_by_zero_raise_where_zero_is_known(dtype: torch.dtype) -> None:
    x, zeros = torch.tensor([4, 5], dtype=dtype), torch.tensor([0, 2], dtype=dtype)
    for divide in (
        torch.floor_divide,
        torch.remainder,
        torch.fmod,
        lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        lambda a, b: a.clone().floor_divide_(b),
        lambda a, b: torch.remainder(5, b) if isinstance(b, Tensor) else a % b,
    ):
        for divisor in (zeros.to("ftm"), 0, torch.tensor(0, dtype=dtype)):
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                divide(x.to("ftm"), divisor)
        # a divisor that the device computes: 0, as documented
        assert divide(x.to("ftm"), x.to("ftm") - 4).shape == (2,)
    assert torch.equal((x.float().to("ftm") // 0).cpu(), x.float() // 0)


def test_numbers_wrap_to_the_type_of_the_integers_that_they_divide() -> None:
    """In int8, 256 is 0 and 257 is 1."""
    x = torch.tensor([4, 5, -7], dtype=torch.int8)
    divides = (
        torch.floor_divide, torch.remainder, torch.fmod,
        lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    )  # fmt: skip
    for divide in divides:
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            divide(x, 256)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            divide(x.to("ftm"), 256)
        assert torch.equal(divide(x.to("ftm"), 257).cpu(), divide(x, 257))
    assert torch.equal(torch.remainder(257, x.to("ftm")).cpu(), torch.remainder(257, x))
    assert torch.equal((257 % x.to("ftm")).cpu(), 257 % x)


def test_draws_refuse_what_is_no_distribution_at_the_line() -> None:
    for weights in ([-0.5, 0.5], [float("inf"), 0.5], [0.0, 0.0], [float("nan"), 1.0]):
        with pytest.raises(RuntimeError) as expected:
            torch.multinomial(torch.tensor(weights), 1)
        with pytest.raises(RuntimeError) as found:
            torch.multinomial(torch.tensor(weights).to("ftm"), 1)
        assert str(found.value) == str(expected.value)
    with pytest.raises(RuntimeError, match="expects Long tensor out, got: Double"):
        torch.multinomial(
            torch.tensor([0.5, 0.5]).to("ftm"),
            1,
            out=torch.empty(1, dtype=torch.double, device="ftm"),
        )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_signs_of_zero(dtype: torch.dtype) -> None:
    zeros = torch.tensor([-0.0, 0.0, -1.0, float("nan")] * 20, dtype=dtype)
    calls = (
        torch.relu,
        F.relu6,
        lambda x: x.clamp(min=0),
        lambda x: x.clamp(0, 6),
        lambda x: F.hardtanh(x, 0, 1),
        lambda x: x.clone().relu_(),
        lambda x: x[:1].expand(5).nanmedian(),
        lambda x: x[[0, 3, 3]].nanmedian(0).values,
        lambda x: x[[0, 3]].nanmedian(),
    )
    for number, call in enumerate(calls):
        got, want = call(zeros.to("ftm")).cpu(), call(zeros)
        assert torch.equal(got.signbit() & ~got.isnan(), want.signbit() & ~want.isnan()), number


def test_strides_tell_memory_formats_apart() -> None:
    last, last3d = torch.channels_last, torch.channels_last_3d
    calls: tuple[Callable[[str], Tensor], ...] = (
        lambda d: (
            torch.ones(10, 3, 1, 1, device=d).to(memory_format=last) + torch.ones(3, 1, 1, device=d)
        ),
        lambda d: (
            torch.ones(3, 1, 1, device=d) + torch.ones(10, 3, 1, 1, device=d).to(memory_format=last)
        ),
        lambda d: torch.ones(10, 3, 1, 1, device=d).to(memory_format=last).relu(),
        lambda d: F.conv2d(
            torch.ones(2, 3, 4, 4, device=d).to(memory_format=last),
            torch.ones(5, 3, 4, 4, device=d),
        ),
        lambda d: F.max_pool3d(torch.ones(2, 3, 4, 4, 4, device=d).to(memory_format=last3d)[0], 2),
        lambda d: F.max_pool3d(torch.ones(2, 3, 4, 4, 4, device=d).to(memory_format=last3d), 2),
        lambda d: F.max_pool3d(torch.ones(3, 4, 4, 4, device=d), 2),
    )
    for number, call in enumerate(calls):
        assert call("ftm").stride() == call("cpu").stride(), number
