"""Trace -> torch dialect, and the words that views are spelled in."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ftm_backend import mlir
from ftm_backend.frontend import Trace, import_trace
from ftm_backend.ir.linalg.strided_view import Strided, decompose


def imported(body: str, locations: list[str] | None = None) -> str:
    """The torch dialect of a trace whose lines are ``body``."""
    trace = Trace.parse("trace\n" + body)
    trace.verify()
    with mlir.context():
        module = import_trace(trace, locations)
        module.operation.verify()
        return module.operation.get_asm(enable_debug_info=locations is not None)


def test_ops_take_the_dialects_operands() -> None:
    """Arguments that the recorder leaves out come back, in the dialect's order; numbers become
    tensors."""
    text = imported("""%0 = param f32[2]
        $0 = scalar f64
        $1 = scalar i64
        %1 = aten::_to_copy(self=%0, dtype=bf16, memory_format="preserve_format") : bf16[2]
        %2 = aten::add.Tensor(self=%1, other=$0, alpha=$1) : bf16[2]
        return %2""")
    assert "torch.aten._to_copy %arg0, %int15, %none, %none, %none, %false, %int1" in text
    assert "torch.prim.NumToTensor.Scalar %arg1 : !torch.float -> !torch.vtensor<[],f64>" in text
    assert "torch.aten.add.Tensor" in text
    assert "!torch.vtensor<[],f64>, !torch.int -> !torch.vtensor<[2],bf16>" in text


def test_scalar_operands_stay_scalars() -> None:
    text = imported("""%0 = param f32[2]
        $0 = scalar f64
        %1 = aten::pow.Scalar(self=$0, exponent=%0) : f32[2]
        return %1""")
    assert "torch.aten.pow.Scalar %arg1, %arg0 : !torch.float" in text


def test_unknown_ops_keep_their_argument_names() -> None:
    text = imported("""%0 = param f32[2]
        $0 = scalar i64
        $1 = scalar i64
        %1 = aten::bernoulli.p(self=%0, p=0.5, seed=$0, offset=$1) : f32[2]
        %2 = other::op(x=%1, flags=[true,false], y=[%0,none]) : i1[2]
        return %2""")
    assert 'torch.operator "aten.bernoulli.p"' in text
    assert 'args = ["self", "p", "seed", "offset"]' in text
    assert 'torch.operator "other.op"' in text
    assert "!torch.list<optional<vtensor>>" in text


def test_undefined_results_have_type_none() -> None:
    text = imported("""%0 = param f32[1,1,3,3]
        %1 = param f32[1,1,3,3]
        %2 = param f32[1,1,1,1]
        %3, %4, %5 = aten::convolution_backward(grad_output=%0, input=%1, weight=%2, bias_sizes=none, stride=[1,1], padding=[0,0], dilation=[1,1], transposed=false, output_padding=[0,0], groups=1, output_mask=[false,true,false]) : none, f32[1,1,1,1], none
        return %4""")
    assert "-> !torch.none, !torch.vtensor<[1,1,1,1],f32>, !torch.none" in text


def test_locations_are_kept() -> None:
    text = imported(
        """%0 = param f32[2]
        %1 = aten::relu(self=%0) : f32[2]
        return %1""",
        ["train.py:12"],
    )
    assert 'loc("train.py:12")' in text


@pytest.mark.parametrize(
    ("view", "words"),
    [
        ("sizes=[6,4], strides=[4,1], offset=0", ["aten.view"]),
        ("sizes=[4,6], strides=[1,4], offset=0", ["aten.view", "aten.transpose.int"]),
        ("sizes=[2,2,4], strides=[12,4,1], offset=4", ["aten.slice.Tensor"]),
        ("sizes=[5,2,3,4], strides=[0,12,4,1], offset=0", ["aten.view", "aten.expand"]),
        ("sizes=[2,3,3], strides=[12,4,1], offset=0", ["aten.slice.Tensor"]),
        ("sizes=[3,3], strides=[5,1], offset=0", ["ftm.view"]),
        ("sizes=[], strides=[], offset=7", ["aten.view", "aten.slice.Tensor"]),
    ],
)
def test_views_are_spelled_in_torchs_words(view: str, words: list[str]) -> None:
    shape = view.split("sizes=[")[1].split("]", maxsplit=1)[0]
    text = imported(f"""%0 = param f32[2,3,4]
        %1 = ftm.view(base=%0, {view}) : f32[{shape}]
        return %1""")
    for word in words:
        assert word in text
    assert ("ftm.view" in text) == ("ftm.view" in words)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_decomposition_reads_the_same_elements(data: st.DataObject) -> None:
    """Reshape, slices, permutation and expansion together are the strided read that they stand
    for."""
    numel = data.draw(st.sampled_from([1, 6, 12, 24, 30]))
    rank = data.draw(st.integers(0, 3))
    sizes = tuple(data.draw(st.integers(1, 4)) for _ in range(rank))
    strides = tuple(data.draw(st.sampled_from([0, 1, 2, 3, 4, 6, 12])) for _ in range(rank))
    last = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    if last >= numel:
        return
    offset = data.draw(st.integers(0, numel - 1 - last))
    view = Strided(sizes, strides, offset)
    words = decompose(view, numel)
    if words is None:
        return
    flat = np.arange(numel)
    want = np.array(
        [
            offset + sum(i * s for i, s in zip(place, strides, strict=True))
            for place in itertools.product(*map(range, sizes))
        ]
    ).reshape(sizes)
    got = flat.reshape(words.shape)
    got = got[tuple(slice(a, a + n) for a, n in zip(words.starts, words.lengths, strict=True))]
    got = np.broadcast_to(got.transpose(words.order).reshape(words.insert), words.expand)
    assert (got == want).all()


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_reshape_of_a_strided_view(data: st.DataObject) -> None:
    """Strided.reshape agrees with numpy, and gives up only where numpy has to copy."""
    base = np.arange(48).reshape(2, 3, 2, 4)
    order = data.draw(st.permutations(range(4)))
    x = base.transpose(order)
    if data.draw(st.booleans()):
        x = x[1:]
    if x.size == 0:
        return
    view = Strided(
        x.shape,
        tuple(s // 8 for s in x.strides),
        (x.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // 8,
    )
    shape = data.draw(
        st.sampled_from(
            [(x.size,), (2, x.size // 2), (1, *x.shape), (*x.shape[:2], -1), (x.size // 4, 4)]
        )
    )
    want = x.reshape(shape)
    made = view.reshape(want.shape)
    if made is None:
        assert not np.shares_memory(want, base)
        return
    got = np.lib.stride_tricks.as_strided(
        base.reshape(-1)[made.offset :], made.sizes, tuple(s * 8 for s in made.strides)
    )
    assert (got == want).all()
