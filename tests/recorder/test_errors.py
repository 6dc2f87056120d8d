"""Bad calls fail at the line that makes them, with eager's exception type and message."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ftm_lazy import _C

Call = Callable[[Callable[[Tensor], Tensor]], object]


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.ones(shape, dtype=dtype)


def at(*numbers: int) -> Tensor:
    return torch.tensor(numbers)


def _assign(x: Tensor, where: Any, values: Any) -> None:
    x[where] = values


BYTES = ones(3, dtype=torch.uint8)
BITS = ones(3, dtype=torch.bool)
BAD_CALLS: dict[str, Call] = {
    "shapes": lambda put: put(ones(2, 3)) + put(ones(4)),
    "matrix product": lambda put: put(ones(2, 3)) @ put(ones(2, 3)),
    "in-place broadcast": lambda put: put(ones(3)).add_(put(ones(2, 3))),
    "in-place comparison": lambda put: put(ones(1, 3)).eq_(put(ones(2, 3))),
    "in-place power": lambda put: put(ones(1)).pow_(put(ones(3))),
    "in-place angle": lambda put: put(ones(2, 1)).atan2_(put(ones(2, 3))),
    "in-place dtype": lambda put: put(ones(3, dtype=torch.int64)).add_(put(ones(3))),
    "in-place division of integers": lambda put: put(ones(3, dtype=torch.int64)).div_(2),
    "out dtype": lambda put: torch.add(put(ones(3)), 1, out=put(ones(3, dtype=torch.int64))),
    "alpha": lambda put: torch.add(put(ones(3, dtype=torch.int64)), 1, alpha=0.5),
    "copy to nothing": lambda put: put(ones(0)).copy_(put(ones(3))),
    "copy to rows of nothing": lambda put: put(ones(2, 0)).copy_(put(ones(2, 3))),
    "scatter into nothing": lambda put: put(ones(0)).scatter_(0, put(at(0, 0)), 2),
    "scatter and add into nothing": lambda put: put(ones(0, 3)).scatter_add_(
        0, put(at(0, 0).view(2, 1)), put(ones(2, 1))
    ),
    "layer norm of no bools": lambda put: F.layer_norm(put(ones(2, 0, dtype=torch.bool)), (0,)),
    "out that is read": lambda put: (lambda x: torch.add(x, put(ones(3)), out=x))(put(ones(1))),
    "copy": lambda put: put(ones(3)).copy_(put(ones(4))),
    "view": lambda put: put(ones(4, 3)).t().view(12),
    "reshape": lambda put: put(ones(4, 3)).reshape(5, 2),
    "dim": lambda put: put(ones(4, 3)).sum(2),
    "index": lambda put: put(ones(4, 3))[4],
    "item": lambda put: put(ones(4)).item(),
    "expanded in place": lambda put: put(ones(3, 1)).expand(3, 4).add_(1),
    "overlap in place": lambda put: (lambda x: x[1:].add_(x[:-1]))(put(ones(5))),
    "negative power": lambda put: put(ones(3, dtype=torch.int64)) ** -1,
    "cat": lambda put: torch.cat([put(ones(2, 3)), put(ones(2, 4))]),
    "leaf in place": lambda put: put(ones(3)).requires_grad_().add_(1),
    "heaviside of two dtypes": lambda put: torch.heaviside(
        put(ones(3)), put(ones(3, dtype=torch.float64))
    ),
    "embedding bag of three dimensions": lambda put: F.embedding_bag(
        put(at(0, 1).view(1, 2)), put(ones(3, 3, 3))
    ),
    "nothing at a mask": lambda put: _assign(put(ones(3)), put(ones(3)) > 0, put(ones(0))),
    "set out of bounds": lambda put: put(ones(3)).as_strided((4, 4), (4, 1)),
    "convolution": lambda put: torch.nn.functional.conv2d(
        put(ones(1, 3, 8, 8)), put(ones(4, 2, 3, 3))
    ),
    "padding of conv1d": lambda put: F.conv1d(put(ones(1, 2, 8)), put(ones(4, 2, 3)), padding=-1),
    "padding of conv2d": lambda put: F.conv2d(
        put(ones(1, 2, 8, 8)), put(ones(4, 2, 3, 3)), padding=-1
    ),
    "padding of conv3d": lambda put: F.conv3d(
        put(ones(1, 2, 8, 8, 8)), put(ones(4, 2, 3, 3, 3)), padding=(0, -1, 0)
    ),
    "padding of conv_transpose2d": lambda put: F.conv_transpose2d(
        put(ones(1, 2, 8, 8)), put(ones(2, 4, 3, 3)), padding=-1
    ),
    "stride of conv2d": lambda put: F.conv2d(
        put(ones(1, 2, 8, 8)), put(ones(4, 2, 3, 3)), stride=-1
    ),
    "sort dim": lambda put: put(ones(2, 3)).sort(2),
    "stable sort dim": lambda put: put(ones(2, 3)).sort(stable=True, dim=-3),
    "argsort dim": lambda put: put(ones(2, 3)).argsort(2),
    "median dim": lambda put: put(ones(2, 3)).median(2),
    "median of an empty dim": lambda put: put(ones(0, 3)).median(0),
    "nanmedian of an empty dim": lambda put: put(ones(0, 3)).nanmedian(0),
    "mode of an empty dim": lambda put: put(ones(0, 3)).mode(0),
    "mode dim": lambda put: put(ones(2, 3)).mode(2),
    "max of an empty dim": lambda put: put(ones(0, 3)).max(0),
    "min of an empty dim": lambda put: put(ones(0, 3)).min(0),
    "max of nothing": lambda put: put(ones(0)).max(),
    "min of nothing": lambda put: put(ones(0)).min(),
    "aminmax of nothing": lambda put: put(ones(0)).aminmax(),
    "aminmax out dtype": lambda put: torch.aminmax(
        put(ones(3)), out=(put(ones(1).double()), put(ones(1).double()))
    ),
    "difference of bools": lambda put: (
        put(ones(3, dtype=torch.bool)) - put(ones(3, dtype=torch.bool))
    ),
    "bool subtracted": lambda put: put(ones(3)) - True,
    "subtracted from bool": lambda put: True - put(ones(3)),
    "values of an index": lambda put: put(ones(3, 4)).index_put((put(at(0, 1)),), put(ones(3, 4))),
    "values of too many dimensions": lambda put: _assign(
        put(ones(2, 3)), put(torch.tensor(True)), put(ones(5, 1, 2, 3))
    ),
    "values of a mask": lambda put: _assign(put(ones(4)), put(ones(4) > 0), put(ones(5))),
    "values of another dtype": lambda put: put(ones(3)).index_put((put(at(0)),), put(at(1))),
    "indices that do not broadcast": lambda put: _assign(
        put(ones(3, 3)), (put(at(0, 1)), put(at(0, 1, 2))), put(ones(1))
    ),
    "index of floats": lambda put: put(ones(3)).index_put((put(ones(1)),), put(ones(1))),
    "mask of another shape": lambda put: _assign(put(ones(3, 4)), put(ones(2) > 0), 1.0),
    "too many indices": lambda put: put(ones(3)).index_put((put(at(0)), put(at(0))), put(ones(1))),
    "no index": lambda put: put(ones(3)).index_put((), put(ones(1))),
    "index of an empty dim": lambda put: put(ones(3, 0))[:, put(at(0, 1))],
    "index written to itself": lambda put: (lambda x: x.index_put_((put(at(1, 2)),), x[:2]))(
        put(ones(3))
    ),
    "index_fill of itself": lambda put: (lambda x: x.index_fill_(0, x, 1))(put(at(0, 1))),
    "index outside": lambda put: put(ones(3))[put(at(0, 3))],
    "list outside": lambda put: put(ones(3))[[0, 3]],
    "written outside": lambda put: _assign(put(ones(2, 3)), (slice(None), put(at(-4))), 0.0),
    "gather outside": lambda put: put(ones(3)).gather(0, put(at(-1))),
    "scatter outside": lambda put: put(ones(3)).scatter_(0, put(at(1, 3)[1:]), 1.0),
    "index_select outside": lambda put: put(ones(2, 3)).index_select(1, put(at(3))),
    "index_add outside": lambda put: put(ones(3)).index_add_(0, put(at(-1)), put(ones(1))),
    "take outside": lambda put: put(ones(2, 3)).take(put(at(6))),
    "embedding outside": lambda put: F.embedding(put(at(7)), put(ones(7, 2))),
    "class outside": lambda put: F.cross_entropy(put(ones(3, 4)), put(at(-100, 0, 4))),
    "permutation of bytes": lambda put: torch.randperm(
        300, dtype=torch.uint8, device=put(ones(1)).device
    ),
    "permutation of halves": lambda put: torch.randperm(
        3000, dtype=torch.half, device=put(ones(1)).device
    ),
    "dropout of more than all": lambda put: torch.native_dropout(put(ones(3)), 1.5, True),
    "dropout of less than nothing": lambda put: torch.native_dropout(put(ones(3)), -0.5, None),
    "layer_norm of two types": lambda put: F.layer_norm(
        put(ones(2, 4)), (4,), put(ones(4, dtype=torch.float64))
    ),
    "group_norm of two types": lambda put: F.group_norm(
        put(ones(2, 4)), 2, put(ones(4, dtype=torch.float16))
    ),
    "batch_norm of two types": lambda put: F.batch_norm(
        put(ones(2, 4)), put(ones(4, dtype=torch.float64)), put(ones(4))
    ),
    "polar of two types": lambda put: torch.polar(put(ones(3)), put(ones(3, dtype=torch.float64))),
    "loss of integers": lambda put: F.nll_loss(put(ones(2, 4, dtype=torch.int64)), put(at(0, 1))),
    "loss with weights of another type": lambda put: F.nll_loss(
        put(ones(2, 4)), put(at(0, 1)), put(ones(4, dtype=torch.float64))
    ),
    "more samples than there are": lambda put: torch.multinomial(put(ones(3)), 4),
    "no samples": lambda put: torch.multinomial(put(ones(3)), 0, replacement=True),
    "samples of integers": lambda put: torch.multinomial(put(at(1, 2)), 1),
    "dropout by no number": lambda put: torch.native_dropout(put(ones(3)), math.nan, True),
    "chance above 1": lambda put: torch.ops.aten.bernoulli.p(put(ones(3)), 1.5),
    "chance above 1 in place": lambda put: put(ones(3)).bernoulli_(1.5),
    "normal numbers of less than no width": lambda put: torch.normal(
        put(ones(3)), -1.0, out=put(ones(3))
    ),
    "normal numbers as integers": lambda put: torch.normal(
        put(ones(3)), 1.0, out=put(ones(3, dtype=torch.int64))
    ),
    "normal numbers without room": lambda put: torch.normal(put(ones(3)), 1.0, out=put(ones(0))),
    "probabilities as integers": lambda put: torch.bernoulli(put(ones(3, dtype=torch.int64))),
    "index_select by a matrix": lambda put: put(ones(3)).index_select(
        0, put(at(0, 1).reshape(1, 2))
    ),
    "index_select by floats": lambda put: put(ones(3)).index_select(0, put(ones(2))),
    "index_fill by floats": lambda put: put(ones(3)).index_fill(0, put(ones(2)), 1.0),
    "index_add of another shape": lambda put: put(ones(3, 4)).index_add(
        0, put(at(0, 1)), put(ones(2, 3))
    ),
    "index_add of another dtype": lambda put: put(ones(3)).index_add(
        0, put(at(0)), put(ones(1, dtype=torch.float64))
    ),
    "index_copy of another dtype": lambda put: put(ones(3)).index_copy_(
        0, put(at(0)), put(ones(1, dtype=torch.float64))
    ),
    "index_reduce by another name": lambda put: put(ones(3)).index_reduce(
        0, put(at(0)), put(ones(1)), "sum"
    ),
    "index_reduce of more": lambda put: put(ones(3)).index_reduce(
        0, put(at(0, 1)), put(ones(3)), "amax"
    ),
    "put of more": lambda put: put(ones(3)).put(put(at(0, 1)), put(ones(3))),
    "put of another dtype": lambda put: put(ones(3)).put_(put(at(0)), put(at(0))),
    "take out dtype": lambda put: torch.take(
        put(ones(3)), put(at(0)), out=put(ones(1, dtype=torch.float64))
    ),
    "slice_scatter of another shape": lambda put: put(ones(3)).slice_scatter(put(ones(3)), 0, 1),
    "select_scatter of another shape": lambda put: put(ones(3, 3)).select_scatter(
        put(ones(2)), 0, 0
    ),
    "softmax dim": lambda put: put(ones(3)).softmax(2),
    "log_softmax dim": lambda put: put(ones(3)).log_softmax(-2),
    "factor of integers": lambda put: torch.addr(
        put(ones(2, 2).int()), put(ones(2).int()), put(ones(2).int()), beta=0.5
    ),
    "factor of integers in place": lambda put: put(ones(2, 2).int()).addr_(
        put(ones(2).int()), put(ones(2).int()), alpha=2.0
    ),
    "bool factor": lambda put: torch.addr(put(ones(2, 2)), put(ones(2)), put(ones(2)), beta=True),
    "rsub of bool": lambda put: torch.rsub(put(ones(3, dtype=torch.bool)), 1),
    "65 dimensions": lambda put: put(ones(*[1] * 65)).argmax(0),
    "alpha of bools": lambda put: torch.add(put(BITS), put(BITS), alpha=1.5),
    "alpha is a bool": lambda put: torch.add(put(BYTES), put(BYTES), alpha=True),
    "logsumexp of no dims": lambda put: put(ones(2, 3)).logsumexp([]),
    "histc without a range": lambda put: put(ones(3)).histc(4, min=5, max=1),
    "running sum as bools": lambda put: torch.cumsum(put(ones(3)), 0, dtype=torch.bool),
    "running product as bools": lambda put: torch.cumprod(put(ones(3)), 0, dtype=torch.bool),
    "range of bools": lambda put: torch.arange(0, 2, out=put(BITS)),
    "line of bools": lambda put: torch.linspace(0, 2, 3, out=put(BITS)),
    "all of two dims": lambda put: torch.all(put(ones(2, 2)), dim=(0, 1), out=put(ones())),
    "neg out dtype": lambda put: torch.neg(put(ones(3)), out=put(ones(3).double())),
    "round out dtype": lambda put: torch.round(put(ones(3)), out=put(ones(3).double())),
    "bitwise_not out dtype": lambda put: torch.bitwise_not(
        put(BYTES), out=put(ones(3, dtype=torch.int64))
    ),
    "conj_physical out dtype": lambda put: torch.conj_physical(
        put(ones(3)), out=put(ones(3).double())
    ),
    "clamp of bytes": lambda put: put(BYTES).clamp(max=300),
    "power of bytes": lambda put: put(BYTES) ** 300,
    "bytes full of": lambda put: put(BYTES).fill_(300),
    "bytes filled": lambda put: put(BYTES).masked_fill(put(BITS), 300),
    "half filled": lambda put: put(ones(3).half()).masked_fill(put(BITS), -1e9),
    "integers filled": lambda put: put(ones(3, dtype=torch.int64)).index_fill(
        0, put(ones(1, dtype=torch.int64)), 1e20
    ),
    "complex number among real ones": lambda put: torch.addcmul(
        put(ones(3)), put(ones(3)), put(ones(3)), value=2j
    ),
    "filled with a complex number": lambda put: put(ones(3)).masked_fill(put(BITS), 2j),
    "alpha of bytes": lambda put: torch.sub(put(BYTES), put(BYTES), alpha=300),
    "indices of an embedding bag": lambda put: torch.embedding_bag(
        put(ones(2, 2)), put(ones(2, 1, 1).long()), put(ones(1).long())
    ),
    "samples of a fractional pool": lambda put: F.fractional_max_pool3d(
        put(ones(2, 2, 4, 4, 4)), 2, output_size=2, _random_samples=put(ones(1, 2, 3))
    ),
    "mask of scores": lambda put: torch._masked_softmax(
        put(ones(2, 2, 3, 3)), put(ones(3, 3).bool()), 3, 1
    ),
}


def gradient_after(change: Callable[[Tensor], Tensor], put: Callable[[Tensor], Tensor]) -> Tensor:
    leaf = put(ones(3)).requires_grad_()
    change(leaf.clone()).sum().backward()
    return leaf.grad


# The values of scalars are not part of a call's spec, so each call is made with a valid one first.
BAD_SCALARS: dict[
    str, tuple[Callable[[Callable[[Tensor], Tensor], float], object], float, float]
] = {
    "softshrink": (lambda put, value: F.softshrink(put(ones(3)), value), 0.5, -0.5),
    "renorm": (lambda put, value: put(ones(2, 3)).renorm(2, 0, value), 1.0, -1.0),
    "histc": (lambda put, value: put(ones(3)).histc(4, 0, value), 1, -1),
    "slope of elu_": (
        lambda put, value: gradient_after(lambda x: F.elu_(x, value), put),
        1.0,
        -1.0,
    ),
    "slope of leaky_relu_": (
        lambda put, value: gradient_after(lambda x: F.leaky_relu_(x, value), put),
        1.0,
        -1.0,
    ),
    "bound of bytes": (lambda put, value: put(ones(3).byte()).clamp(max=value), 2, 1000),
    "bound of halves": (lambda put, value: put(ones(3).half()).clamp(max=value), 2.0, 1e9),
    "fill": (lambda put, value: put(ones(3).half()).fill_(value), -1.0, -1e9),
    "full": (
        lambda put, value: torch.full((3,), value, dtype=torch.int8, device=put(ones(1)).device),
        1,
        1000,
    ),
    "masked_fill": (
        lambda put, value: put(ones(3).half()).masked_fill(put(ones(3)) > 0, value),
        -1.0,
        -1e9,
    ),
    "masked_fill of bytes": (
        lambda put, value: put(ones(3).byte()).masked_fill(put(ones(3)) > 0, value),
        1.0,
        1e9,
    ),
    "index_fill": (
        lambda put, value: put(ones(3).char()).index_fill(0, put(torch.tensor([1])), value),
        1,
        1000,
    ),
    "scatter": (
        lambda put, value: put(ones(3).char()).scatter(0, put(torch.tensor([1])), value),
        1,
        1000,
    ),
    "padding": (lambda put, value: F.pad(put(ones(3).char()), (1, 1), value=value), 1, 1000),
}


def _failure(call: Call, put: Callable[[Tensor], Tensor]) -> Exception:
    with pytest.raises(Exception) as caught:
        call(put)
    return caught.value


def _plain(error: Exception) -> str:
    return str(error).split("\n")[0].replace("ftm", "cpu").replace("meta", "cpu")


@pytest.mark.parametrize("name", BAD_CALLS)
def test_same_error_as_eager(name: str) -> None:
    expected = _failure(BAD_CALLS[name], lambda tensor: tensor.clone())
    actual = _failure(BAD_CALLS[name], lambda tensor: tensor.to("ftm"))
    assert type(actual) is type(expected)
    assert _plain(actual) == _plain(expected)


@pytest.mark.parametrize("name", BAD_SCALARS)
def test_scalars_are_looked_at_in_each_call(name: str) -> None:
    call, good, bad = BAD_SCALARS[name]
    call(lambda tensor: tensor.to("ftm"), good)
    expected = _failure(lambda put: call(put, bad), lambda tensor: tensor.clone())
    actual = _failure(lambda put: call(put, bad), lambda tensor: tensor.to("ftm"))
    assert type(actual) is type(expected)
    assert _plain(actual) == _plain(expected)


def test_version_counter() -> None:
    x = torch.ones(3, device="ftm", requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize(
    "mixed",
    [
        lambda a, b: a + b,
        lambda a, b: a @ b,
        lambda a, b: a.add_(b),
        lambda a, b: torch.cat([a, b]),
    ],
)
def test_devices_do_not_mix(mixed: Callable[[Tensor, Tensor], Tensor]) -> None:
    with pytest.raises(
        RuntimeError, match="Expected all tensors to be on the same device, .* ftm:0 and cpu"
    ):
        mixed(torch.ones(2, 2, device="ftm"), torch.ones(2, 2))


def test_no_second_device() -> None:
    with pytest.raises(RuntimeError, match="ftm:1"):
        torch.ones(2, device="ftm:1")


def test_generator_of_another_device() -> None:
    with pytest.raises(
        RuntimeError, match="Expected a 'ftm' device type for generator but found 'cpu'"
    ):
        torch.ones(2, device="ftm").uniform_(generator=torch.Generator())


@pytest.mark.filterwarnings("ignore")
def test_strict_forbids_fallback() -> None:
    x = torch.ones(3, device="ftm")
    _C._set_strict(True)
    with pytest.raises(NotImplementedError, match="aten::_ctc_loss is not compiled .* FTM_STRICT"):
        torch.ops.aten._ctc_loss(x.view(3, 1, 1), x.view(1, 3).long(), [3], [1])
    assert (x + 1).tolist() == [2, 2, 2]


def test_fallback_counts_and_warns_once() -> None:
    _C._set_native_ops({"aten::full": ["f32"]})
    _C._reset_counters()
    x = torch.full((3,), 0.5, device="ftm")
    with pytest.warns(UserWarning, match="aten::acos is not compiled for device ftm"):
        y = x.acos()
    y.acos_()
    assert _C._counters()["fallback::aten::acos"] == 1
    assert _C._counters()["fallback::aten::acos_"] == 1
    torch.testing.assert_close(y.cpu(), torch.full((3,), 0.5).acos().acos(), equal_nan=True)


WRITING_CALLS: dict[str, Call] = {
    "elementwise": lambda put: torch.add(put(ones(3)), 1, out=put(ones(2))),
    "product": lambda put: torch.mm(put(ones(3, 3)), put(ones(3, 3)), out=put(ones(2))),
    "gather": lambda put: torch.gather(
        put(ones(3, 3)), 0, put(ones(2, 2).long()), out=put(ones(3))
    ),
    "two results": lambda put: torch.sort(put(ones(3)), out=(put(ones(2)), put(ones(2).long()))),
    "search": lambda put: torch.max(put(ones(3, 3)), 0, out=(put(ones(2)), put(ones(2).long()))),
    "dtype of out": lambda put: torch.any(put(ones(3, 3)), 0, out=put(ones(2).bool())),
    "on the CPU": lambda put: torch.linalg.eigvalsh(put(ones(2, 2)), out=put(ones(3))),
    "of the right size": lambda put: torch.add(put(ones(3)), 1, out=put(ones(3))),
}


@pytest.mark.parametrize("name", WRITING_CALLS)
def test_a_resized_result_is_warned_of_once(name: str) -> None:
    def warnings_of(put: Callable[[Tensor], Tensor]) -> list[str]:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            WRITING_CALLS[name](put)
        return [
            str(warning.message)
            for warning in seen
            if "is not compiled" not in str(warning.message)
        ]

    expected = warnings_of(lambda tensor: tensor.clone())
    assert warnings_of(lambda tensor: tensor.to("ftm")) == expected
    assert warnings_of(lambda tensor: tensor.to("ftm")) == expected, "the call is known by now"


def test_bad_memory_is_not_dereferenced() -> None:
    address = torch.ones(3, device="ftm").data_ptr()
    assert address >= 1 << 56


def test_cpu_tensors_are_not_indexed_by_the_device() -> None:
    indices = at(0, 2).to("ftm")
    for call in (
        lambda: torch.arange(4.0)[indices],
        lambda: _assign(torch.arange(4.0), indices, 1.0),
    ):
        with pytest.raises(
            RuntimeError,
            match="indices should be either on cpu or on the same device as the indexed tensor",
        ):
            call()
    # the other way round is eager's custom
    assert torch.arange(4.0, device="ftm")[at(0, 2)].tolist() == [0.0, 2.0]


MORE_THAN_MEMORY: dict[str, Callable[[], object]] = {
    "empty": lambda: torch.empty(1 << 44, device="ftm"),
    "random": lambda: torch.rand(1024, 1024, 1024, 1024, 1024, device="ftm"),
    "a broadcast sum": lambda: (
        torch.ones(1 << 22, 1, device="ftm") + torch.ones(1 << 22, device="ftm")
    ),
    "a copy of an expanded tensor": lambda: (
        torch.ones(1, device="ftm").expand(1 << 44).contiguous()
    ),
    "a resized tensor": lambda: torch.ones(1, device="ftm").resize_(1 << 44),
    "a resized storage": lambda: torch.ones(1, device="ftm").untyped_storage().resize_(1 << 44),
}


@pytest.mark.parametrize("case", MORE_THAN_MEMORY)
def test_more_than_the_memory_is_refused_at_once(case: str) -> None:
    limit = f"The device has {torch.ftm.mem_get_info()[1] / 2**30:.2f} GiB, of which programs hold"
    with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate \d+\.00 [TP]iB. " + limit):
        MORE_THAN_MEMORY[case]()
    assert torch.ones(2, device="ftm").sum().item() == 2


def test_every_call_names_its_line_if_asked() -> None:
    """The op accepts all indices: everything is recorded, and the error occurs when it runs."""

    def message() -> str:
        drawn = torch.poisson(-torch.ones(2, device="ftm"))
        with pytest.raises(RuntimeError, match="invalid Poisson rate") as caught:
            drawn.cpu()
        return str(caught.value)

    assert "FTM_DEBUG=locations tells the line that recorded it" in message()
    _C._set_debug_locations(True)
    try:
        assert f"recorded at {__file__}:{message.__code__.co_firstlineno + 1})" in message()
    finally:
        _C._set_debug_locations(False)


UNSUPPORTED_INTEGERS: dict[str, Callable[[str], object]] = {
    "clamp of bools": lambda d: torch.ones(3, dtype=torch.bool, device=d).clamp(False, True),
    "lower clamp of bools": lambda d: torch.ones(3, dtype=torch.bool, device=d).clamp(min=True),
    "replicated bools": lambda d: torch.nn.functional.pad(
        torch.ones(1, 2, 3, dtype=torch.bool, device=d), (1, 1), mode="replicate"
    ),
    "reflected bools": lambda d: torch.nn.functional.pad(
        torch.ones(1, 2, 3, dtype=torch.bool, device=d), (1, 1), mode="reflect"
    ),
    "histogram of integers": lambda d: torch.ones(3, dtype=torch.int64, device=d).histc(4),
    "unpooled integers": lambda d: torch.nn.functional.max_unpool2d(
        torch.ones(1, 1, 2, 2, dtype=torch.int32, device=d),
        torch.arange(4, device=d).reshape(1, 1, 2, 2),
        2,
    ),
}


@pytest.mark.parametrize("case", UNSUPPORTED_INTEGERS)
def test_integers_that_the_cpu_does_not_support_are_refused(case: str) -> None:
    call = UNSUPPORTED_INTEGERS[case]
    with pytest.raises(NotImplementedError) as eager:
        call("cpu")
    assert torch.ones(2, dtype=torch.bool, device="ftm").clamp(0, 1).tolist() == [1, 1]
    for _ in range(2):  # a second call is refused as well
        with pytest.raises(NotImplementedError) as ours:
            call("ftm")
        assert str(ours.value) == str(eager.value)
