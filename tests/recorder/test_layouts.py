"""Results and gradients have eager's strides, for operands of every memory format."""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

Case = tuple[str, Callable[..., Tensor], tuple[Tensor, ...]]

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
CONV_TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG_POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
ADAPTIVE_AVG_POOL = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
ADAPTIVE_MAX_POOL = {1: F.adaptive_max_pool1d, 2: F.adaptive_max_pool2d, 3: F.adaptive_max_pool3d}
CHANNELS_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def formats(x: Tensor) -> Iterator[tuple[str, Tensor]]:
    """``x`` row-major, with its channels last, and permuted in another way."""
    yield "contiguous", x
    if (channels_last := CHANNELS_LAST.get(x.dim() - 2)) is not None:
        yield "channels last", x.to(memory_format=channels_last)
    yield "permuted", x.transpose(-1, 1).contiguous().transpose(-1, 1)


def inputs(dims: int) -> Iterator[tuple[str, Tensor]]:
    return formats(torch.randn((2, 4, 5, 6, 7)[: dims + 2]))


def convolutions(dims: int) -> Iterator[Case]:
    conv, conv_transpose = CONV[dims], CONV_TRANSPOSE[dims]
    for name, x in inputs(dims):
        for weight_name, weight in formats(torch.randn(6, 4, *[3] * dims)):
            if dims == 1 and weight_name == "permuted":
                continue  # for 1-d the CPU library chooses a layout that is no memory format
            label = f"{name}, weight {weight_name}"
            yield f"plain, {label}", conv, (x, weight, torch.randn(6))
            yield f"strided, {label}", functools.partial(conv, stride=2, padding=1), (x, weight)
            yield f"double, {label}", conv, (x.double(), weight.double())
        for weight_name, weight in formats(torch.randn(4, 6, *[3] * dims)):
            if dims == 1 and weight_name == "permuted":
                continue
            yield f"transposed, {name}, weight {weight_name}", conv_transpose, (x, weight)
        yield (
            f"dilated, {name}",
            functools.partial(conv, dilation=2),
            (x, torch.randn(6, 4, *[2] * dims)),
        )
        yield (
            f"depthwise, {name}",
            functools.partial(conv, groups=4),
            (x, torch.randn(4, 1, *[3] * dims)),
        )
        yield f"pointwise, {name}", conv, (x, torch.randn(6, 4, *[1] * dims))


def unpool(x: Tensor) -> Tensor:
    return F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)


def statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.zeros(4, device=x.device), torch.ones(4, device=x.device)


def layers(dims: int) -> Iterator[Case]:
    weight, bias = torch.randn(4), torch.randn(4)
    for name, x in inputs(dims):
        for mode in ("reflect", "replicate", "circular", "constant"):
            yield (
                f"pad {mode}, {name}",
                functools.partial(F.pad, pad=(1, 2) * dims, mode=mode),
                (x,),
            )
        yield (
            f"batch norm, {name}",
            lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
            (x, weight, bias),
        )
        yield (
            f"batch norm, running, {name}",
            lambda x, w, b: F.batch_norm(x, *statistics(x), w, b, True),
            (x, weight, bias),
        )
        yield (
            f"batch norm, eval, {name}",
            lambda x, w, b: F.batch_norm(x, *statistics(x), w, b),
            (x, weight, bias),
        )
        if name != "channels last":  # whose gradient is row-major on every device but the CPU
            yield f"group norm, {name}", lambda x, w, b: F.group_norm(x, 2, w, b), (x, weight, bias)
        yield f"instance norm, {name}", F.instance_norm, (x,)
        yield f"layer norm, {name}", lambda x: F.layer_norm(x, x.shape[1:]), (x,)
        if name == "contiguous":  # it makes views that need that
            yield (
                f"local response norm, {name}",
                functools.partial(F.local_response_norm, size=2),
                (x,),
            )
        yield f"normalize, {name}", F.normalize, (x,)
        yield f"glu, {name}", functools.partial(F.glu, dim=1), (x,)
        yield f"gelu, {name}", F.gelu, (x,)
        yield f"softmax, {name}", functools.partial(F.softmax, dim=1), (x,)
        yield f"dropout, {name}", F.dropout, (x,)
        yield f"dropout of a sum, {name}", lambda x: F.dropout(x).sum(), (x,)
        yield f"max pool, {name}", functools.partial(MAX_POOL[dims], kernel_size=2), (x,)
        yield f"avg pool, {name}", functools.partial(AVG_POOL[dims], kernel_size=2), (x,)
        for size in (1, 2):
            yield (
                f"adaptive avg pool {size}, {name}",
                functools.partial(ADAPTIVE_AVG_POOL[dims], output_size=size),
                (x,),
            )
        yield (
            f"adaptive max pool, {name}",
            functools.partial(ADAPTIVE_MAX_POOL[dims], output_size=2),
            (x,),
        )
        for mode in ("nearest", LINEAR[dims], *(("bicubic",) if dims == 2 else ())):
            yield (
                f"interpolate {mode}, {name}",
                functools.partial(F.interpolate, scale_factor=2, mode=mode),
                (x,),
            )
        if dims == 2:
            yield f"unpool, {name}", unpool, (x,)
            yield (
                f"pixel shuffle, {name}",
                functools.partial(F.pixel_shuffle, upscale_factor=2),
                (x,),
            )
            yield f"pixel unshuffle, {name}", lambda x: F.pixel_unshuffle(x[..., :4, :4], 2), (x,)
            yield (
                f"grid sample, {name}",
                lambda x: F.grid_sample(x, torch.zeros(2, 3, 3, 2, device=x.device)),
                (x,),
            )


def tensor_functions(dims: int) -> Iterator[Case]:
    for name, x in inputs(dims):
        yield f"cat, {name}", lambda x: torch.cat([x, x], 1), (x,)
        yield f"cumsum, {name}", lambda x: x.cumsum(1), (x,)
        yield f"sort, {name}", lambda x: x.sort(1)[0], (x,)
        yield f"topk, {name}", lambda x: x.topk(2, 1)[0], (x,)
        yield f"where, {name}", lambda x: torch.where(x > 0, x, 0.0), (x,)
        yield f"sum, {name}", lambda x: x.sum(1, keepdim=True), (x,)
        yield (
            f"index_select, {name}",
            lambda x: x.index_select(1, torch.tensor([0, 2], device=x.device)),
            (x,),
        )
        yield f"index, {name}", lambda x: x[:, torch.tensor([0, 2], device=x.device)], (x,)
        yield f"flip, {name}", lambda x: x.flip(1), (x,)
        yield f"roll, {name}", lambda x: x.roll(1, 1), (x,)
        yield f"roll two dims, {name}", lambda x: x.roll((1, 2), (0, 2)), (x,)
        yield f"roll as a row, {name}", lambda x: x.roll(1), (x,)
        yield f"like, {name}", lambda x: torch.zeros_like(x) + 0 * x, (x,)
        yield f"clone, {name}", lambda x: x.clone(), (x,)
        yield f"double, {name}", lambda x: x.double(), (x,)
        yield f"tril, {name}", lambda x: x.tril(), (x,)
        yield f"masked_fill, {name}", lambda x: x.masked_fill(x > 0, 0.0), (x,)
        yield f"repeat, {name}", lambda x: x.repeat(2, *[1] * (x.dim() - 1)), (x,)


def strides(call: Callable[..., Tensor], arguments: tuple[Tensor, ...]) -> list[tuple[int, ...]]:
    leaves = [argument.detach().requires_grad_() for argument in arguments]
    result = call(*leaves)
    gradients = torch.autograd.grad(result, leaves, torch.ones_like(result))
    # The stride of a dimension of size 1 does not matter.
    return [
        tuple(stride for stride, size in zip(x.stride(), x.shape) if size > 1)
        for x in (result, *gradients)
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("cases", [convolutions, layers, tensor_functions])
def test_strides_as_eager(cases: Callable[[int], Iterator[Case]], dims: int) -> None:
    for name, call, arguments in cases(dims):
        on_ftm = tuple(argument.to("ftm") for argument in arguments)
        assert [x.stride() for x in on_ftm] == [x.stride() for x in arguments]
        assert strides(call, on_ftm) == strides(call, arguments), name


def _zeros(x: Tensor) -> Tensor:
    return torch.zeros((), device=x.device)


UNUSUAL: dict[str, Callable[[Tensor], Tensor]] = {
    "logsigmoid": F.logsigmoid,
    "mse_loss": lambda x: F.mse_loss(x, _zeros(x).expand(x.shape)),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x.detach() + 1, reduction="none"),
    "floor_divide by a number's tensor": lambda x: torch.floor_divide(x.detach(), _zeros(x) + 2),
    "logical_or with a row": lambda x: torch.logical_or(x, x.detach()[:1]),
    "logical_or, resizing its output": lambda x: torch.logical_or(
        x, x.detach()[:1], out=_zeros(x)[None][:0].bool()
    ),
    "slice_scatter": lambda x: x.slice_scatter(x.detach()[:, :1], 1, 0, 1),
    "select_scatter": lambda x: x.select_scatter(x.detach()[:, 0], 1, 0),
    "diagonal_scatter": lambda x: x.diagonal_scatter(x.detach().diagonal()),
    "flip of nothing": lambda x: x[:, :0].flip(0),
    "relu6 of nothing": lambda x: F.relu6(x[:, :0]),
    "rfft2": lambda x: torch.view_as_real(torch.fft.rfft2(x)),
    "rfftn": lambda x: torch.view_as_real(torch.fft.rfftn(x)),
    "irfft": lambda x: torch.fft.irfft(torch.complex(x, x), dim=0),
    "hfftn": lambda x: torch.fft.hfftn(torch.complex(x, x)),
    "nonzero_static": lambda x: torch.nonzero_static(x.detach(), size=0),
    "conv1d": lambda x: (
        F.conv1d(x.flatten(2), torch.ones(3, x.shape[1], 2, device=x.device))
        if x.dim() > 3
        else x * 1
    ),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2) if x.dim() > 3 else x * 1,
    "new_empty_strided, repeating": lambda x: x.detach().new_empty_strided((2, 3), (0, 1)),
    "new_empty_strided, overlapping": lambda x: x.detach().new_empty_strided((2, 3), (1, 1)),
    "lstsq": lambda x: (
        torch.linalg.lstsq(x.detach().flatten(0, -2), x.detach().flatten(0, -2)).solution
    ),
}
VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "whole": lambda x: x,
    "permuted": lambda x: (
        x.permute(tuple(range(x.dim()))[::-1]).contiguous().permute(tuple(range(x.dim()))[::-1])
    ),
    "transposed": lambda x: x.mT.contiguous().mT,
    "channels last": lambda x: (
        x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
    ),
    "expanded": lambda x: x[:1].expand(x.shape),
    "sliced": lambda x: F.pad(x, (1, 1) * x.dim())[tuple(slice(1, -1) for _ in x.shape)],
    "stepped": lambda x: x.repeat_interleave(2, -1)[..., ::2],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", UNUSUAL)
def test_layouts_that_only_the_cpu_kernel_knows(name: str) -> None:
    for base, view in itertools.product(
        (torch.rand(3, 4, 5) + 1, torch.rand(2, 4, 3, 5) + 1), VIEWS.values()
    ):

        def geometries(
            device: str, base: Tensor = base, view: Callable[[Tensor], Tensor] = view
        ) -> list[tuple[Any, ...]]:
            x = view(base.to(device)).requires_grad_()
            made = UNUSUAL[name](x)
            found = [made.stride(), made.is_contiguous()]
            if made.requires_grad and x.numel():
                (gradient,) = torch.autograd.grad(made, x, torch.ones_like(made))
                found += [gradient.stride()]
            return found

        assert geometries("ftm") == geometries("cpu"), view(base).stride()


def test_a_result_with_gaps_holds_its_elements() -> None:
    base = torch.arange(48.0).view(4, 12)
    for device in ("cpu", "ftm"):
        x = base.to(device)[:, ::2]
        made = x.slice_scatter(torch.zeros(4, 1, device=device), 1, 2, 3)
        made[1, 1] = 7
        assert (
            made.stride() == (12, 2)
            and made[0].tolist() == [0, 2, 0, 6, 8, 10]
            and made[1].tolist() == [12, 7, 0, 18, 20, 22]
        )


ELEMENTWISE = "abs absolute isinf isposinf isneginf isnan isfinite logical_not sign signbit neg square frac relu exp angle".split()


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_dense_results_keep_the_order_of_memory(name: str) -> None:
    dense = torch.randn(3, 5, 2)
    for order in ((1, 0, 2), (2, 0, 1), (0, 2, 1)):
        x = dense.permute(order)
        expected, actual = getattr(torch, name)(x), getattr(torch, name)(x.to("ftm"))
        assert actual.stride() == expected.stride()
        assert torch.equal(actual.cpu(), expected)
        out = (
            getattr(torch, name)(
                x.to("ftm"), out=torch.empty(0, dtype=expected.dtype, device="ftm")
            )
            if name in OUT
            else actual
        )
        assert out.stride() == expected.stride()


OUT = {"abs", "isposinf", "isneginf", "logical_not", "sign", "signbit", "neg", "exp"}
"""Of these, which take out=."""


def test_clones_that_are_made_late() -> None:
    x = torch.arange(6.0, device="ftm").view(2, 3).t()
    copy = torch._lazy_clone(x)
    x += 1
    assert copy.tolist() == [[0, 3], [1, 4], [2, 5]] and copy.stride() == x.stride()
