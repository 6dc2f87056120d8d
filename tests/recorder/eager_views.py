"""Programs that observe the same of views, writes through them, and shared storages on every
device."""

import warnings

import torch
from torch import Tensor

from recorder.eager_program import iota, program


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
        z.expand(2, 4)[put(torch.tensor([1, 1])), put(torch.tensor([0, 3]))] = put(
            torch.tensor([8.0, 6.0])
        )
        w.expand(3).index_put_(
            (put(torch.tensor([0, 2])),), put(torch.tensor([3.0, 4.0])), accumulate=True
        )
    said = [
        str(warning.message).partition(" (Triggered")[0]
        for warning in seen
        if "expanded tensors" in str(warning.message)
    ]
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
def windows_of_windows_inside_one_program(put):
    x = put(iota(1, 6, 3)).requires_grad_()
    padded = torch.nn.functional.pad(x.unsqueeze(1), (0, 0, 1, 0))
    (x * torch.nn.functional.avg_pool2d(padded, (2, 1), stride=1).squeeze(1)).sum().backward()
    return [x.grad]


@program
def rotations(put):
    x = put(iota(3, 4))
    y = x.rot90()
    z = x.clone()
    z.t_().mul_(2)
    return [y, z, z.stride(), x.clone().unsqueeze_(0).squeeze_(0)]


def _written_by_script(x: Tensor, rows: Tensor) -> Tensor:
    x[x < 3] = 1.0
    x[:, rows] = 9.0
    return x


@program
def torchscript_writes_by_index(put):
    return [torch.jit.script(_written_by_script)(put(iota(3, 4)), put(torch.tensor([0, 2])))]
