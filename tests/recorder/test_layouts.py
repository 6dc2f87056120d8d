"""Results and gradients have the strides that eager gives them, whatever the memory format of what goes in."""

import functools
from collections.abc import Callable, Iterator

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
                continue  # in one dimension the CPU's library picks a format of its own
            label = f"{name}, weight {weight_name}"
            yield f"plain, {label}", conv, (x, weight, torch.randn(6))
            yield f"strided, {label}", functools.partial(conv, stride=2, padding=1), (x, weight)
            yield f"double, {label}", conv, (x.double(), weight.double())
        for weight_name, weight in formats(torch.randn(4, 6, *[3] * dims)):
            if dims == 1 and weight_name == "permuted":
                continue
            yield f"transposed, {name}, weight {weight_name}", conv_transpose, (x, weight)
        yield f"dilated, {name}", functools.partial(conv, dilation=2), (x, torch.randn(6, 4, *[2] * dims))
        yield f"depthwise, {name}", functools.partial(conv, groups=4), (x, torch.randn(4, 1, *[3] * dims))
        yield f"pointwise, {name}", conv, (x, torch.randn(6, 4, *[1] * dims))


def unpool(x: Tensor) -> Tensor:
    return F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)


def statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.zeros(4, device=x.device), torch.ones(4, device=x.device)


def layers(dims: int) -> Iterator[Case]:
    weight, bias = torch.randn(4), torch.randn(4)
    for name, x in inputs(dims):
        for mode in ("reflect", "replicate", "circular", "constant"):
            yield f"pad {mode}, {name}", functools.partial(F.pad, pad=(1, 2) * dims, mode=mode), (x,)
        yield f"batch norm, {name}", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), (x, weight, bias)
        yield f"batch norm, running, {name}", lambda x, w, b: F.batch_norm(x, *statistics(x), w, b, True), (x, weight, bias)
        yield f"batch norm, eval, {name}", lambda x, w, b: F.batch_norm(x, *statistics(x), w, b), (x, weight, bias)
        if name != "channels last":  # whose gradient is row-major on every device but the CPU
            yield f"group norm, {name}", lambda x, w, b: F.group_norm(x, 2, w, b), (x, weight, bias)
        yield f"instance norm, {name}", F.instance_norm, (x,)
        yield f"layer norm, {name}", lambda x: F.layer_norm(x, x.shape[1:]), (x,)
        if name == "contiguous":  # it makes views that need that
            yield f"local response norm, {name}", functools.partial(F.local_response_norm, size=2), (x,)
        yield f"normalize, {name}", F.normalize, (x,)
        yield f"glu, {name}", functools.partial(F.glu, dim=1), (x,)
        yield f"gelu, {name}", F.gelu, (x,)
        yield f"softmax, {name}", functools.partial(F.softmax, dim=1), (x,)
        yield f"dropout, {name}", F.dropout, (x,)
        yield f"dropout of a sum, {name}", lambda x: F.dropout(x).sum(), (x,)
        yield f"max pool, {name}", functools.partial(MAX_POOL[dims], kernel_size=2), (x,)
        yield f"avg pool, {name}", functools.partial(AVG_POOL[dims], kernel_size=2), (x,)
        for size in (1, 2):
            yield f"adaptive avg pool {size}, {name}", functools.partial(ADAPTIVE_AVG_POOL[dims], output_size=size), (x,)
        yield f"adaptive max pool, {name}", functools.partial(ADAPTIVE_MAX_POOL[dims], output_size=2), (x,)
        for mode in ("nearest", LINEAR[dims], *(("bicubic",) if dims == 2 else ())):
            yield f"interpolate {mode}, {name}", functools.partial(F.interpolate, scale_factor=2, mode=mode), (x,)
        if dims == 2:
            yield f"unpool, {name}", unpool, (x,)
            yield f"pixel shuffle, {name}", functools.partial(F.pixel_shuffle, upscale_factor=2), (x,)
            yield f"pixel unshuffle, {name}", lambda x: F.pixel_unshuffle(x[..., :4, :4], 2), (x,)
            yield f"grid sample, {name}", lambda x: F.grid_sample(x, torch.zeros(2, 3, 3, 2, device=x.device)), (x,)


def tensor_functions(dims: int) -> Iterator[Case]:
    for name, x in inputs(dims):
        yield f"cat, {name}", lambda x: torch.cat([x, x], 1), (x,)
        yield f"cumsum, {name}", lambda x: x.cumsum(1), (x,)
        yield f"sort, {name}", lambda x: x.sort(1)[0], (x,)
        yield f"topk, {name}", lambda x: x.topk(2, 1)[0], (x,)
        yield f"where, {name}", lambda x: torch.where(x > 0, x, 0.0), (x,)
        yield f"sum, {name}", lambda x: x.sum(1, keepdim=True), (x,)
        yield f"index_select, {name}", lambda x: x.index_select(1, torch.tensor([0, 2], device=x.device)), (x,)
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
    # The stride of a dimension of one element says nothing.
    return [tuple(stride for stride, size in zip(x.stride(), x.shape) if size > 1) for x in (result, *gradients)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("cases", [convolutions, layers, tensor_functions])
def test_strides_as_eager(cases: Callable[[int], Iterator[Case]], dims: int) -> None:
    for name, call, arguments in cases(dims):
        on_ftm = tuple(argument.to("ftm") for argument in arguments)
        assert [x.stride() for x in on_ftm] == [x.stride() for x in arguments]
        assert strides(call, on_ftm) == strides(call, arguments), name


ELEMENTWISE = "abs absolute isinf isposinf isneginf isnan isfinite logical_not sign signbit neg square frac relu exp angle".split()


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_dense_results_keep_the_order_of_memory(name: str) -> None:
    dense = torch.randn(3, 5, 2)
    for order in ((1, 0, 2), (2, 0, 1), (0, 2, 1)):
        x = dense.permute(order)
        expected, actual = getattr(torch, name)(x), getattr(torch, name)(x.to("ftm"))
        assert actual.stride() == expected.stride()
        assert torch.equal(actual.cpu(), expected)
        out = getattr(torch, name)(x.to("ftm"), out=torch.empty(0, dtype=expected.dtype, device="ftm")) if name in OUT else actual
        assert out.stride() == expected.stride()


OUT = {"abs", "isposinf", "isneginf", "logical_not", "sign", "signbit", "neg", "exp"}
"""Of these, which take out=."""


def test_clones_that_are_made_late() -> None:
    x = torch.arange(6.0, device="ftm").view(2, 3).t()
    copy = torch._lazy_clone(x)
    x += 1
    assert copy.tolist() == [[0, 3], [1, 4], [2, 5]] and copy.stride() == x.stride()
