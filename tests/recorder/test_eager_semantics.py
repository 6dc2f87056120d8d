"""What a program observes on `ftm` is what it observes on the CPU: values, strides, aliasing, versions."""

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

Program = Callable[[Callable[[Tensor], Tensor]], list[object]]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """Registers a program: it takes `put`, which brings a CPU tensor to the device, and returns what it saw."""
    PROGRAMS[function.__name__] = function
    return function


def iota(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.arange(torch.Size(shape).numel(), dtype=dtype).reshape(shape)


@program
def views_of_views_written_in_place(put):
    x = put(iota(4, 6))
    rows = x[1:3]
    rows.t()[2:4].mul_(10)
    rows[0].view(2, 3)[1] += 100
    return [x, rows]


@program
def transposed_in_place(put):
    x = put(iota(3, 5))
    x.t().mul_(2).add_(1)
    return [x, x.t()]


@program
def copy_into_slice(put):
    x = put(iota(5, 4))
    x[1:3].copy_(put(-iota(2, 4)))
    x[:, 1].copy_(x[:, 3])
    return [x]


@program
def as_strided_windows(put):
    x = put(iota(12))
    windows = x.as_strided((4, 3), (2, 1))
    total = windows.sum(1)
    x.add_(1)
    return [total, windows, windows.stride(), x.as_strided((2, 2), (1, 3), 2)]


@program
def overlapping_windows_written_one_by_one(put):
    x = put(iota(8))
    a, b = x[0:5], x[3:8]
    a.mul_(2)
    b.add_(1)
    return [x, a, b]


@program
def expanded_reads(put):
    x = put(iota(3, 1))
    wide = x.expand(3, 4)
    result = wide + put(iota(4))
    x.zero_()
    return [result, wide, wide.stride(), wide.is_contiguous()]


@program
def expanded_tensors_may_be_filled(put):
    x = put(iota(3, 1))
    x[1:].expand(2, 4).fill_(5)
    y = put(iota(2))
    y.expand(3, 2).zero_()
    return [x, y]


@program
def expanded_tensors_may_be_filled_in_places(put):
    x, y, z, w = put(iota(3, 1)), put(iota(2)), put(iota(2, 1)), put(iota())
    mask = put(torch.tensor([[False, True, False], [False, False, False], [True, True, False]]))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        x.expand(3, 3).masked_fill_(mask, 5)
        y.expand(3, 2).index_fill_(1, put(torch.tensor([1])), put(torch.tensor(7.0)))
        y.expand(3, 2).index_fill_(0, put(torch.tensor([], dtype=torch.int64)), 9)
        z.expand(2, 4)[put(torch.tensor([1, 1])), put(torch.tensor([0, 3]))] = put(torch.tensor([8.0, 6.0]))
        w.expand(3).index_put_((put(torch.tensor([0, 2])),), put(torch.tensor([3.0, 4.0])), accumulate=True)
    said = [str(warning.message).partition(" (Triggered")[0] for warning in seen if "expanded tensors" in str(warning.message)]
    return [x, y, z, w, said]


@program
def expanded_tensors_are_not_written_from_themselves(put):
    said = []
    for write in (
        lambda e: e.index_put_((put(torch.tensor([0, 1, 2])),), e),
        lambda e: e.index_put_((e,), put(torch.tensor([7]))),
        lambda e: e.index_fill_(0, e, 5),
    ):
        x = put(torch.zeros(1, dtype=torch.int64))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                said.append(write(x.expand(3)))
            except RuntimeError as error:
                said += [str(error), x]
    return said


@program
def a_number_may_lie_in_what_it_fills(put):
    mask, places = put(torch.tensor([True, False, True])), put(torch.tensor([0, 2]))
    x, y, z, w, v, s, t = (put(iota(3) + 1) for _ in range(7))
    x.masked_fill_(mask, x[1])
    y.index_fill_(0, places, y[1])
    z.fill_(z[1])
    w[:2].fill_(w[1])
    s[0].index_fill_(0, put(torch.tensor([0])), s[0])
    t[0].masked_fill_(put(torch.tensor(True)), t[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        v[:1].expand(3).index_fill_(0, places, v[1])
        v[2:].expand(3).masked_fill_(mask, v[1])
    try:
        x.add_(x[1])
    except RuntimeError as error:
        return [x, y, z, w, v, s, t, str(error)]
    return [x, y, z, w, v, s, t]


@program
def slices_that_overlap_are_not_shifted(put):
    x = put(torch.arange(8))
    try:
        x[1:].__ilshift__(x[:-1])
    except RuntimeError as error:
        return [x, str(error)]
    return [x]


@program
def strides_of_a_broadcast_with_channels_last(put):
    x, bias = put(iota(10, 3, 1, 1).to(memory_format=torch.channels_last)), put(iota(3, 1, 1))
    return [(x + bias).stride(), (bias * x).stride(), x + bias]


@program
def strides_of_pooling_one_channels_last_image(put):
    x = put(iota(2, 3, 4, 4, 4).to(memory_format=torch.channels_last_3d))[0]
    pooled, places = torch.nn.functional.max_pool3d(x, 2, return_indices=True)
    return [pooled, pooled.stride(), places.stride(), torch.nn.functional.avg_pool3d(x, 2).stride()]


@program
def data_and_detach_share_storage(put):
    x = put(iota(3)).requires_grad_()
    x.data.mul_(3)
    x.detach()[0:1].zero_()
    return [x.detach(), x.detach().data_ptr() == x.data_ptr()]


@program
def data_assignment(put):
    x = put(iota(2, 2)).requires_grad_()
    alias = x.detach()
    x.data = put(iota(2, 2) + 10)
    return [x.detach(), alias]


@program
def set_to_another_storage(put):
    x, y = put(iota(4)), put(iota(6) * 2)
    x.set_(y)
    x.add_(1)
    z = put(torch.empty(0)).set_(y.untyped_storage(), 1, (2, 2), (2, 1))
    z.mul_(5)
    return [x, y, z, z.storage_offset(), z.stride()]


@program
def resize_keeps_and_shrinks(put):
    x = put(iota(6))
    view = x[2:4]
    x.resize_(2, 2)
    x.add_(1)
    y = put(iota(4))
    y.resize_(8)
    y[4:].fill_(7)
    return [x, view, y, y.untyped_storage().nbytes()]


@program
def out_arguments(put):
    a, b = put(iota(3, 3)), put(iota(3, 3) + 1)
    out = put(torch.empty(0))
    torch.add(a, b, out=out)
    strided = put(torch.zeros(3, 3)).t()
    torch.mul(a, b, out=strided)
    half = put(torch.zeros(3, 3, dtype=torch.float64))
    torch.sub(a, b, out=half)
    part = put(torch.zeros(5, 3))
    torch.mm(a, b, out=part[1:4])
    return [out, strided, strided.stride(), half, part]


@program
def arange_and_linspace(put):
    device = put(torch.zeros(())).device
    return [
        torch.arange(5, device=device),
        torch.arange(1.0, 2.0, 0.25, device=device),
        torch.arange(0, device=device),
        torch.linspace(0, 1, 5, device=device),
        torch.eye(3, device=device),
        torch.tril(torch.ones(3, 3, device=device)),
        torch.full((2, 2), 7, device=device),
        torch.full((2,), True, device=device),
    ]


@program
def copies_across_dtypes(put):
    x = put(torch.tensor([1.9, -1.9, 0.0]))
    integers = put(torch.zeros(3, dtype=torch.int64))
    integers.copy_(x)
    halves = x.half()
    return [integers, halves, x.bool(), x.to(torch.bfloat16).double(), x.int() + 0.5]


@program
def copies_to_and_from_the_cpu(put):
    x = put(iota(4, 3))
    cpu = torch.zeros(3, 4)
    cpu.t().copy_(x)
    x.t().copy_(cpu * 2)
    x[0] = torch.tensor([7.0, 8.0, 9.0])
    x[1, 1] = 5
    wide = put(torch.zeros(2, 3))
    wide.copy_(torch.tensor([1, 2, 3]))
    return [cpu, x, wide]


@program
def zero_dimensional(put):
    x = put(torch.tensor(3.0))
    y = x * 2 + put(torch.ones(2))
    x.add_(1)
    x.fill_(x * 2)
    return [x, y, x.item(), x.shape, (x > 2).item(), put(torch.tensor(5)).item()]


@program
def zero_sized(put):
    x = put(torch.zeros(0, 3))
    return [
        x + 1,
        x.sum(),
        x.sum(0),
        torch.cat([x, put(iota(2, 3))]),
        x.t(),
        put(iota(3, 2)) @ put(torch.zeros(2, 0)),
        put(torch.zeros(3, 0)) @ put(torch.zeros(0, 2)),
        x.data_ptr(),
    ]


@program
def permuted_results_keep_eager_strides(put):
    x = put(iota(2, 3, 4)).permute(2, 0, 1)
    y = x + 1
    z = (y * 2).relu()
    z[0].zero_()
    clone = z.clone()
    return [y, y.stride(), z, z.stride(), clone, clone.stride(), z.contiguous().stride()]


@program
def channels_last(put):
    x = put(iota(2, 3, 4, 5)).to(memory_format=torch.channels_last)
    y = x * 2
    return [y, y.stride(), y.is_contiguous(memory_format=torch.channels_last)]


@program
def result_dtype_promotion(put):
    i, f, b = put(torch.tensor([1, 2])), put(torch.tensor([0.5, 1.5])), put(torch.tensor([True, False]))
    return [i + f, i / 2, i * 1.5, b + 1, f * put(torch.tensor(2, dtype=torch.float64)), i // 2, b & b, f > 1, -i]


@program
def zero_dim_cpu_tensor_mixes_in(put):
    x = put(iota(3))
    return [x * torch.tensor(2.5), torch.tensor(2) + x, torch.where(x > 1, x, torch.tensor(0.0))]


@program
def bitcast_views(put):
    x = put(torch.tensor([1.0, -2.0, 0.5, 4.0]))
    bits = x.view(torch.int32)
    y = bits.bitwise_and(0x7FFFFFFF).view(torch.float32)
    (x + 1).view(torch.uint8)
    z = (x * 2).view(torch.int32)
    return [bits, y, z, z.view(torch.int16)]


@program
def writing_through_another_dtype(put):
    x = put(torch.tensor([1.0, 2.0, 3.0]))
    x.mul_(2)
    x.view(torch.int32)[1] = 0
    return [x]


@program
def complex_as_real(put):
    x = put(torch.tensor([1 + 2j, 3 - 1j]))
    pairs = torch.view_as_real(x)
    return [pairs.sum(0), pairs, x.conj(), torch.view_as_complex(pairs * 2)]


@program
def indexing(put):
    x = put(iota(4, 5))
    rows = put(torch.tensor([3, 0, 3]))
    y = x[rows]
    x[rows] = 0
    x[x > 15] = -1
    x[torch.tensor([1])] += 100
    z = put(torch.zeros(5)).index_add_(0, put(torch.tensor([0, 0, 4])), put(torch.ones(3)))
    return [y, x, z, x.gather(1, put(torch.tensor([[0], [1], [2], [3]]))), x[put(torch.tensor([True, False, True, False]))]]


@program
def unsafe_splits_and_stacks(put):
    x = put(iota(6, 2))
    a, b, c = x.chunk(3)
    a.add_(1)
    stacked = torch.stack([a, b, c], 1)
    p, q = torch.split(stacked, 1, dim=0)
    return [x, stacked, p, q, torch.unbind(x)[2]]


@program
def several_results(put):
    x = put(torch.tensor([[3.0, 1.0], [2.0, 9.0]]))
    values, indices = x.max(1)
    top = x.topk(1)
    ordered = x.sort(descending=True)
    return [values, indices, top.values, top.indices, ordered.values, torch.aminmax(x)[0]]


@program
def data_dependent(put):
    x = put(torch.tensor([0.0, 1.0, 0.0, 2.0]))
    return [x.nonzero(), x[x > 0], torch.unique(put(torch.tensor([2, 1, 2]))), x.equal(x.clone()), bool((x == 1).any())]


@program
def reads_between_writes(put):
    x = put(iota(3))
    seen = []
    for _ in range(3):
        x.add_(1)
        seen.append(x.sum().item())
    return [x, seen]


@program
def version_counters(put):
    x = put(iota(3))
    before = x._version
    x.add_(1)
    x[0:1].mul_(2)
    return [x._version - before]


@program
def swapped_values(put):
    x, y = put(iota(3)), put(iota(3) + 10)
    temporary = x.clone()
    x.copy_(y)
    y.copy_(temporary)
    x[0:2].copy_(y[1:3])
    return [x, y]


@program
def autograd_through_views(put):
    x = put(iota(4, 4)).requires_grad_()
    y = x[1:3].t().reshape(-1) * x.diagonal().sum()
    (y.sum() + x.expand(2, 4, 4).mean()).backward()
    return [x.grad, x.grad.stride()]


@program
def windows_of_windows_inside_one_program(put):
    x = put(iota(1, 6, 3)).requires_grad_()
    padded = torch.nn.functional.pad(x.unsqueeze(1), (0, 0, 1, 0))
    (x * torch.nn.functional.avg_pool2d(padded, (2, 1), stride=1).squeeze(1)).sum().backward()
    return [x.grad]


@program
def kernels_that_count_on_row_major_operands(put):
    """A copy of an expanded tensor is a value like the tensor itself, but the kernel reads it by address."""
    x = put(iota(4, 4).sin())
    _, mean, rstd = torch.native_layer_norm(x, [4], None, None, 1e-5)
    mean, rstd = (statistic.expand(2, 4, 1).contiguous() for statistic in (mean, rstd))
    return torch.ops.aten.native_layer_norm_backward(
        put(iota(2, 4, 4).cos()), x.expand(2, 4, 4).contiguous(), [4], mean, rstd, None, None, [True, False, False]
    )[0]


@program
def rotations(put):
    x = put(iota(3, 4))
    y = x.rot90()
    z = x.clone()
    z.t_().mul_(2)
    return [y, z, z.stride(), x.clone().unsqueeze_(0).squeeze_(0)]


@program
def non_contiguous_gradients(put):
    x = put(iota(3, 4)).requires_grad_()
    (x.t() * put(iota(4, 3)).t().t()).backward(put(iota(3, 4)).t())
    return [x.grad, x.grad.stride()]


@program
def in_place_on_autograd_views(put):
    x = put(iota(4)).requires_grad_()
    y = x * 2
    y[1:3].mul_(y[2:4].detach().clone())
    y.sum().backward()
    return [y.detach(), x.grad]


@program
def hooks_run(put):
    seen = []
    x = put(iota(3)).requires_grad_()
    x.register_hook(lambda grad: seen.append(grad.sum().item()) or grad * 2)
    (x * x).sum().backward()
    return [x.grad, seen]


@program
def batch_norm_statistics(put):
    layer = torch.nn.BatchNorm2d(3)
    device = put(torch.zeros(())).device
    layer.to(device)
    x = put(torch.sin(iota(4, 3, 2, 2))).requires_grad_()
    y = layer(x)
    (y * put(torch.cos(iota(4, 3, 2, 2)))).sum().backward()  # y's own square would have a gradient of zero: noise
    layer.eval()
    return [y.detach(), layer.running_mean, layer.running_var, layer.num_batches_tracked, x.grad, layer(x).detach()]


@program
def batch_norm_into_given_tensors(put):
    x, weight, bias = put(torch.sin(iota(4, 3))), put(iota(3)), put(iota(3))
    seen = []
    for training in (True, False):
        for op in (torch.ops.aten.native_batch_norm.out, torch.ops.aten._native_batch_norm_legit.out):
            mean, var = put(torch.zeros(3)), put(torch.ones(3))
            out = [put(torch.zeros(0)), put(torch.zeros(0)), put(torch.zeros(0))]
            op(x, weight, bias, mean, var, training, 0.1, 1e-5, out=out[0], save_mean=out[1], save_invstd=out[2])
            seen += [*out, mean, var]
    return seen


@program
def recurrent_cells(put):
    seen = []
    for kind in (torch.nn.LSTM, torch.nn.GRU):
        torch.manual_seed(3)
        layer = kind(3, 4, num_layers=2)
        x = put(torch.sin(iota(5, 2, 3))).requires_grad_()
        layer.to(x.device)
        y, _ = layer(x)
        y.square().sum().backward()
        seen += [y.detach(), x.grad, *(p.grad for p in layer.parameters())]
    return seen


@program
def evaluation_of_batch_norm_has_gradients(put):
    x = put(torch.sin(iota(4, 3))).requires_grad_()
    layer = torch.nn.BatchNorm1d(3).to(x.device).eval()
    layer(x).square().sum().backward()
    return [x.grad, layer.weight.grad, layer.bias.grad]


def _written_by_script(x: Tensor, rows: Tensor) -> Tensor:
    x[x < 3] = 1.0
    x[:, rows] = 9.0
    return x


@program
def torchscript_writes_by_index(put):
    return [torch.jit.script(_written_by_script)(put(iota(3, 4)), put(torch.tensor([0, 2])))]


@program
def undefined_results(put):
    x = put(torch.sin(iota(2, 3, 8, 8)))
    layer = torch.nn.Conv2d(3, 4, 3, stride=2, padding=1)
    with torch.no_grad():
        layer.weight.copy_(torch.cos(iota(4, 3, 3, 3)))
        layer.bias.zero_()
    layer.to(x.device)
    layer(x).sum().backward()
    return [layer.weight.grad, layer.bias.grad, x.grad]


@program
def sums_over_no_dims(put):
    x = put(torch.tensor([[1.0, torch.nan], [2, 3]]))
    return [x.nansum([]), x.nansum([], keepdim=True), x.nanmean([]), x.sum([])]


def _seen(value: object) -> object:
    if isinstance(value, Tensor):
        return value.detach().cpu()
    if isinstance(value, (list, tuple)):
        return [_seen(item) for item in value]
    return value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("observe", ["at the end", "always"])
def test_like_the_cpu(name: str, observe: str) -> None:
    def put(tensor: Tensor) -> Tensor:
        moved = tensor.to("ftm")
        if observe == "always":
            torch.ftm.synchronize()
        return moved

    expected = [_seen(item) for item in PROGRAMS[name](lambda tensor: tensor.clone())]
    results = PROGRAMS[name](put)
    for tensor in results:
        if isinstance(tensor, Tensor) and name != "copies_to_and_from_the_cpu":
            assert tensor.device.type == "ftm"
    actual = [_seen(item) for item in results]
    assert len(actual) == len(expected)
    for mine, theirs in zip(actual, expected, strict=True):
        if isinstance(theirs, Tensor):
            assert mine.dtype == theirs.dtype
            torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6, equal_nan=True)
        else:
            assert mine == theirs
