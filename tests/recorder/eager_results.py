"""Programs that observe the same values, dtypes and strides of results on every device."""

import torch

from recorder.eager_program import iota, program


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
    i, f, b = (
        put(torch.tensor([1, 2])),
        put(torch.tensor([0.5, 1.5])),
        put(torch.tensor([True, False])),
    )
    return [
        i + f,
        i / 2,
        i * 1.5,
        b + 1,
        f * put(torch.tensor(2, dtype=torch.float64)),
        i // 2,
        b & b,
        f > 1,
        -i,
    ]


@program
def zero_dim_cpu_tensor_mixes_in(put):
    x = put(iota(3))
    return [x * torch.tensor(2.5), torch.tensor(2) + x, torch.where(x > 1, x, torch.tensor(0.0))]


@program
def indexing(put):
    x = put(iota(4, 5))
    rows = put(torch.tensor([3, 0, 3]))
    y = x[rows]
    x[rows] = 0
    x[x > 15] = -1
    x[torch.tensor([1])] += 100
    z = put(torch.zeros(5)).index_add_(0, put(torch.tensor([0, 0, 4])), put(torch.ones(3)))
    return [
        y,
        x,
        z,
        x.gather(1, put(torch.tensor([[0], [1], [2], [3]]))),
        x[put(torch.tensor([True, False, True, False]))],
    ]


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
    return [
        x.nonzero(),
        x[x > 0],
        torch.unique(put(torch.tensor([2, 1, 2]))),
        x.equal(x.clone()),
        bool((x == 1).any()),
    ]


@program
def kernels_that_count_on_row_major_operands(put):
    """A copy of an expanded tensor is a value like the tensor itself, but the kernel reads it by
    address."""
    x = put(iota(4, 4).sin())
    _, mean, rstd = torch.native_layer_norm(x, [4], None, None, 1e-5)
    mean, rstd = (statistic.expand(2, 4, 1).contiguous() for statistic in (mean, rstd))
    return torch.ops.aten.native_layer_norm_backward(
        put(iota(2, 4, 4).cos()),
        x.expand(2, 4, 4).contiguous(),
        [4],
        mean,
        rstd,
        None,
        None,
        [True, False, False],
    )[0]


@program
def sums_over_no_dims(put):
    x = put(torch.tensor([[1.0, torch.nan], [2, 3]]))
    return [x.nansum([]), x.nansum([], keepdim=True), x.nanmean([]), x.sum([])]
