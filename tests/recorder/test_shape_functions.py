"""What calls return is known from functions in C++, and is what the CPU returns: dtypes, sizes,
strides, errors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from python_process import run_python

PLAIN = """
import sys, torch, torch.nn.functional as F
x = torch.randn(6, 8).to("ftm")
for n in (3, 4):
    y = torch.where(x[:n] > 0, x[:n], 0.5) @ x[:n].t()
    y = F.layer_norm(F.dropout(F.relu(y), 0.5), [n]).roll(1, 0).softmax(1) + y.sum(1, keepdim=True)
    y = F.embedding(y.argmax(1), F.scaled_dot_product_attention(y[None], y[None], y[None])[0])
    F.cross_entropy(y.tril(), y.argmax(1)).item()
assert "torch._dynamo" not in sys.modules, "some shape was asked for in Python"
nn = torch.nn
image = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.Hardswish(), nn.Conv2d(8, 8, 3, 2, groups=8), nn.GroupNorm(2, 8),
    nn.ReLU6(), nn.MaxPool2d(2), nn.Dropout(0.1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.BatchNorm1d(8), nn.Linear(8, 4)
)
words = nn.Sequential(nn.Embedding(9, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), nn.LSTM(8, 4, batch_first=True))
for model in (image.to("ftm"), words.to("ftm")):
    for n in (6, 5):
        given = torch.randn(n, 3, 16, 16) if model is image else torch.arange(2 * n, device="ftm").view(2, n) % 9
        y = model(given.to("ftm"))
        y = y if model is image else y[0]
        (F.mse_loss(y, torch.zeros_like(y)) + F.huber_loss(y, torch.zeros_like(y))).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.addcmul_(parameter.grad, parameter.grad, value=-0.1)
    model.eval()(given.to("ftm"))
causal = torch.arange(8, device="ftm")[:, None] >= torch.arange(8, device="ftm")
logits = torch.randn(2, 8).to("ftm")
logits[logits < logits.topk(3).values[:, -1:]] = -torch.inf
torch.multinomial(logits.softmax(1), 2).sum().item()
nn.init.normal_(torch.empty(3, device="ftm")).mul_(torch.ones(3, device="ftm")).sum().item()
torch.mul(logits, 2, out=torch.empty_like(logits)).sum().item()
torch.randn(8, 8).to("ftm").masked_fill(~causal, -1.0).abs().sum().item()
assert "torch._dynamo" not in sys.modules, "some shape was asked for in Python"
"""


def test_no_shape_of_common_calls_is_asked_for_in_python() -> None:
    done = run_python(PLAIN)
    assert done.returncode == 0, done.stderr


def _like(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return (torch.arange(torch.Size(shape).numel()).reshape(shape) % 5 - 2).to(dtype)


CALLS: dict[str, Callable[[Callable[[Tensor], Tensor]], Any]] = {
    "where broadcasts": lambda to: torch.where(
        to(_like(4, 1) > 0), to(_like(3)), to(_like(2, 4, 3))
    ),
    "where promotes": lambda to: torch.where(
        to(_like(3) > 0), to(_like(3, dtype=torch.int32)), to(_like(3, dtype=torch.float16))
    ),
    "where takes numbers": lambda to: torch.where(
        to(_like(3) > 0), to(_like(3, dtype=torch.int32)), 1.5
    ),
    "where of two numbers": lambda to: torch.where(to(_like(3) > 0), 1, 2.5),
    "where takes 0-d tensors": lambda to: torch.where(
        to(_like(3) > 0), to(_like(3)), to(torch.tensor(2.0, dtype=torch.float64))
    ),
    "where keeps strides": lambda to: torch.where(
        to(_like(4, 3) > 0).t(), to(_like(4, 3)).t(), to(_like(4, 3)).t()
    ),
    "where of channels_last": lambda to: torch.where(
        to(torch.tensor(True)),
        to(_like(2, 3, 4, 4)).contiguous(memory_format=torch.channels_last),
        to(_like(2, 3, 4, 4)),
    ),
    "where of nothing": lambda to: torch.where(
        to(_like(0, 3) > 0), to(_like(0, 3)), to(_like(1, 3))
    ),
    "where does not fit": lambda to: torch.where(to(_like(4) > 0), to(_like(3)), to(_like(3))),
    "where of a float": lambda to: torch.where(to(_like(3)), to(_like(3)), to(_like(3))),
    "where into": lambda to: torch.where(
        to(_like(4, 1) > 0), to(_like(3)), to(_like(4, 3)), out=to(torch.empty(0))
    ),
    "where into a view": lambda to: torch.where(
        to(_like(3) > 0), to(_like(3)), to(_like(3)), out=to(torch.ones(3, 2))[:, 1]
    ),
    "where into another dtype": lambda to: torch.where(
        to(_like(3) > 0), to(_like(3)), to(_like(3)), out=to(torch.empty(3, dtype=torch.float64))
    ),
    "safe_softmax": lambda to: torch._safe_softmax(
        to(_like(4, 3)).masked_fill(to(_like(4, 1) > 0), -torch.inf), 1
    ),
    "safe_softmax of a transposed": lambda to: torch._safe_softmax(to(_like(4, 3)).t(), 0),
    "safe_softmax to a dtype": lambda to: torch._safe_softmax(to(_like(4, 3)), 1, torch.float64),
    "embedding": lambda to: F.embedding(
        to(_like(2, 3, dtype=torch.int32).abs()), to(_like(4, 3)).t().contiguous().t()
    ),
    "embedding of one": lambda to: F.embedding(
        to(torch.tensor(2)), to(_like(4, 3, dtype=torch.float16))
    ),
    "embedding of nothing": lambda to: F.embedding(
        to(_like(0, 3, dtype=torch.int64)), to(_like(4, 3))
    ),
    "embedding by floats": lambda to: F.embedding(to(_like(3)), to(_like(4, 3))),
    "embedding of a vector": lambda to: F.embedding(
        to(_like(3, dtype=torch.int64).abs()), to(_like(4))
    ),
    "relu of integers": lambda to: torch.relu(to(_like(3, dtype=torch.int8))),
    "relu of bool": lambda to: torch.relu(to(_like(3) > 0)),
    "relu keeps strides": lambda to: torch.relu(to(_like(4, 3)).t()),
    "roll": lambda to: torch.roll(to(_like(4, 3)), -5, 1),
    "roll of a transposed": lambda to: torch.roll(to(_like(4, 3)).t(), 2, 0),
    "roll of channels_last": lambda to: torch.roll(
        to(_like(2, 3, 4, 4)).contiguous(memory_format=torch.channels_last), 1, 2
    ),
    "roll of nothing": lambda to: torch.roll(to(_like(0, 3)), 1, 1),
    "roll of all": lambda to: torch.roll(to(_like(4, 3)), 7),
    "roll of two dims": lambda to: torch.roll(to(_like(4, 3)), (1, 2), (0, 1)),
    "roll of a 0-d tensor along a dim": lambda to: torch.roll(to(torch.tensor(2.0)), 1, 0),
    "roll of a 0-d tensor": lambda to: torch.roll(to(torch.tensor(2.0)), 1),
    "roll along a dim that is not there": lambda to: torch.roll(to(_like(4, 3)), 1, 2),
    "layer_norm": lambda to: torch.native_layer_norm(
        to(_like(2, 4, 3)), [4, 3], to(_like(4, 3)), None, 1e-5
    ),
    "layer_norm of float64": lambda to: torch.native_layer_norm(
        to(_like(4, 3, dtype=torch.float64)), [3], None, None, 1e-5
    ),
    "layer_norm of bfloat16": lambda to: torch.native_layer_norm(
        to(_like(4, 3, dtype=torch.bfloat16)), [3], None, None, 1e-5
    ),
    "layer_norm of a transposed": lambda to: torch.native_layer_norm(
        to(_like(4, 3)).t(), [4], None, None, 1e-5
    ),
    "layer_norm of no rows": lambda to: torch.native_layer_norm(
        to(_like(0, 3)), [3], None, None, 1e-5
    ),
    "layer_norm of another shape": lambda to: F.layer_norm(to(_like(4, 3)), [4]),
    "layer_norm of integers": lambda to: F.layer_norm(to(_like(4, 3, dtype=torch.int64)), [3]),
    "dropout of nothing dropped": lambda to: torch.native_dropout(to(_like(4, 3)).t(), 0.0, True),
    "dropout at rest": lambda to: torch.native_dropout(to(_like(4, 3)), 0.5, False),
    "index_put": lambda to: (
        to(_like(4, 3)).t().index_put((to(torch.tensor([0, 2])),), to(_like(2, 4)))
    ),
    "index_put of another dtype": lambda to: to(_like(4, 3)).index_put(
        (to(torch.tensor([0, 2])),), to(_like(2, 3, dtype=torch.float64))
    ),
    "index_put that does not fit": lambda to: to(_like(4, 3)).index_put(
        (to(torch.tensor([0, 2])),), to(_like(3, 2))
    ),
    "multinomial of one": lambda to: torch.multinomial(
        to(torch.tensor([[0.0, 0, 1], [0, 1, 0]])), 1
    ),
    "multinomial of a row": lambda to: torch.multinomial(
        to(torch.tensor([0.0, 0, 1])), 2, replacement=True
    ),
    "multinomial of too many": lambda to: torch.multinomial(to(torch.tensor([0.5, 0.2])), 3),
    "multinomial of none": lambda to: torch.multinomial(to(torch.tensor([0.5, 0.2])), 0),
    "multinomial of integers": lambda to: torch.multinomial(to(torch.tensor([1, 2])), 1),
    "normal_ of a deviation below zero": lambda to: to(_like(4, 3)).normal_(0, -1),
    "normal_ of integers": lambda to: to(_like(4, 3, dtype=torch.int64)).normal_(),
    "mul into": lambda to: torch.mul(to(_like(4, 1)), to(_like(3)), out=to(torch.empty(0))),
    "mul into integers": lambda to: torch.mul(
        to(_like(4, 3)), to(_like(3)), out=to(torch.empty(4, 3, dtype=torch.int64))
    ),
    "mul by a number into a view": lambda to: torch.mul(
        to(_like(4)), 2.5, out=to(torch.zeros(4, 2))[:, 1]
    ),
    "mm into a transposed": lambda to: torch.mm(
        to(_like(4, 3)), to(_like(3, 5)), out=to(torch.zeros(5, 4)).t()
    ),
    "mm into another dtype": lambda to: torch.mm(
        to(_like(4, 3)), to(_like(3, 5)), out=to(torch.zeros(4, 5, dtype=torch.float64))
    ),
    "convolution with one number for all": lambda to: torch.convolution(
        to(_like(2, 4, 7, 6)), to(_like(6, 4, 3, 2)), None, [2], [1], [1], False, [0], 1
    ),
    "batch_norm of single pixels": lambda to: F.batch_norm(
        to(_like(4, 3, 1, 1)), None, None, training=True
    ),
    "batch_norm of one channel": lambda to: F.batch_norm(
        to(_like(4, 1, 3, 5)), None, None, training=True
    ),
    "batch_norm of a volume in channels_last": lambda to: F.batch_norm(
        to(_like(2, 3, 2, 4, 5)).contiguous(memory_format=torch.channels_last_3d),
        None,
        None,
        training=True,
    ),
    "dropout backward": lambda to: torch.ops.aten.native_dropout_backward(
        to(_like(4, 3)).t(), to(_like(4, 3) > 0).t(), 2.0
    ),
    "convolution": lambda to: F.conv2d(
        to(_like(2, 4, 7, 6)), to(_like(6, 2, 3, 2)), to(_like(6)), (2, 1), (1, 0), (1, 2), 2
    ),
    "convolution of a row": lambda to: F.conv1d(to(_like(2, 4, 7)), to(_like(6, 4, 3)), padding=1),
    "convolution of a volume": lambda to: F.conv3d(
        to(_like(1, 2, 4, 4, 4)), to(_like(3, 2, 3, 3, 3))
    ),
    "convolution of one image": lambda to: F.conv2d(to(_like(4, 7, 6)), to(_like(6, 4, 3, 2))),
    "convolution of channels_last": lambda to: F.conv2d(
        to(_like(2, 4, 7, 6)).contiguous(memory_format=torch.channels_last), to(_like(6, 4, 3, 2))
    ),
    "convolution of float64": lambda to: F.conv2d(
        to(_like(2, 4, 7, 6, dtype=torch.float64)), to(_like(6, 4, 3, 2, dtype=torch.float64))
    ),
    "convolution of two dtypes": lambda to: F.conv2d(
        to(_like(2, 4, 7, 6)), to(_like(6, 4, 3, 2, dtype=torch.float64))
    ),
    "convolution of other channels": lambda to: F.conv2d(
        to(_like(2, 4, 7, 6)), to(_like(6, 3, 3, 2))
    ),
    "convolution with a kernel that is too large": lambda to: F.conv2d(
        to(_like(2, 4, 7, 6)), to(_like(6, 4, 8, 2))
    ),
    "convolution with another bias": lambda to: F.conv2d(
        to(_like(2, 4, 7, 6)), to(_like(6, 4, 3, 2)), to(_like(5))
    ),
    "convolution of no images": lambda to: F.conv2d(to(_like(0, 4, 7, 6)), to(_like(6, 4, 3, 2))),
    "batch_norm": lambda to: F.batch_norm(
        to(_like(4, 3, 2)), to(torch.zeros(3)), to(torch.ones(3)), to(_like(3)), to(_like(3)), True
    ),
    "batch_norm of rows": lambda to: F.batch_norm(to(_like(4, 3)), None, None, training=True),
    "batch_norm of channels_last": lambda to: F.batch_norm(
        to(_like(2, 3, 4, 5)).contiguous(memory_format=torch.channels_last),
        to(torch.zeros(3)),
        to(torch.ones(3)),
        training=True,
    ),
    "batch_norm of a transposed": lambda to: F.batch_norm(
        to(_like(3, 4)).t(), None, None, training=True
    ),
    "batch_norm at rest": lambda to: F.batch_norm(
        to(_like(2, 3, 4, 5)), to(_like(3)), to(torch.ones(3))
    ),
    "batch_norm of bfloat16": lambda to: F.batch_norm(
        to(_like(4, 3, dtype=torch.bfloat16)), to(torch.zeros(3)), to(torch.ones(3)), training=True
    ),
    "batch_norm of integers": lambda to: F.batch_norm(
        to(_like(4, 3, dtype=torch.int64)), to(_like(3)), to(torch.ones(3))
    ),
    "batch_norm of complex numbers": lambda to: F.batch_norm(
        to(_like(4, 3, dtype=torch.complex64)), None, None, training=True
    ),
    "batch_norm with statistics of another dtype": lambda to: F.batch_norm(
        to(_like(4, 3)),
        to(torch.zeros(3, dtype=torch.float64)),
        to(torch.ones(3, dtype=torch.float64)),
        training=True,
    ),
    "batch_norm with other statistics": lambda to: F.batch_norm(
        to(_like(4, 3)), to(_like(4)), to(_like(4)), training=True
    ),
    "group_norm": lambda to: torch.native_group_norm(
        to(_like(2, 4, 3)), to(_like(4)), to(_like(4)), 2, 4, 3, 2, 1e-5
    ),
    "group_norm of channels that do not divide": lambda to: F.group_norm(to(_like(2, 4, 3)), 3),
    "grid_sample": lambda to: F.grid_sample(
        to(_like(2, 3, 4, 5)), to(_like(2, 6, 7, 2)) / 2, align_corners=False
    ),
    "grid_sample of another batch": lambda to: F.grid_sample(
        to(_like(2, 3, 4, 5)), to(_like(3, 6, 7, 2)), align_corners=False
    ),
    "masked_fill": lambda to: to(_like(2, 4, 3)).masked_fill(to(_like(4, 3) > 0), -1.0),
    "masked_fill of a transposed": lambda to: (
        to(_like(4, 3)).t().masked_fill(to(_like(3, 4) > 0), -1.0)
    ),
    "masked_fill grows": lambda to: to(_like(3)).masked_fill(to(_like(4, 3) > 0), -1.0),
    "masked_fill in place does not fit": lambda to: to(_like(3)).masked_fill_(
        to(_like(4, 3) > 0), -1.0
    ),
    "masked_fill by integers": lambda to: to(_like(4, 3)).masked_fill(to(_like(4, 3)), -1.0),
    "hardtanh of a transposed": lambda to: F.hardtanh(to(_like(4, 3)).t(), -1, 1),
    "huber_loss of each": lambda to: F.huber_loss(
        to(_like(4, 3)), to(_like(4, 3)) / 2, reduction="none"
    ),
    "huber_loss": lambda to: F.huber_loss(to(_like(4, 3)), to(_like(4, 3)) / 2),
    "mse_loss backward": lambda to: torch.ops.aten.mse_loss_backward(
        to(torch.tensor(2.0)), to(_like(4, 3)), to(_like(4, 3)) / 2, 1
    ),
    "binary_cross_entropy": lambda to: F.binary_cross_entropy(
        to(_like(4, 3)).sigmoid(), to(_like(4, 3)).sigmoid(), reduction="none"
    ),
    "binary_cross_entropy that does not fit": lambda to: F.binary_cross_entropy(
        to(_like(4, 3)).sigmoid(), to(_like(3)).sigmoid()
    ),
    "abs of complex numbers": lambda to: to(_like(4, 3, dtype=torch.complex64)).abs(),
    "logical_and broadcasts": lambda to: torch.logical_and(
        to(_like(4, 1)), to(_like(3, dtype=torch.int32))
    ),
    "arange": lambda to: torch.arange(2, 11, 3, device=to(_like(1)).device),
    "arange down": lambda to: torch.arange(5, -6, -2, device=to(_like(1)).device),
    "arange of floats": lambda to: torch.arange(0, 1, 0.1, device=to(_like(1)).device),
    "arange to floats": lambda to: torch.arange(5, device=to(_like(1)).device, dtype=torch.float64),
    "arange to halves": lambda to: torch.arange(5, device=to(_like(1)).device, dtype=torch.float16),
    "arange of floats to integers": lambda to: torch.arange(
        0.5, 6.7, 1.3, device=to(_like(1)).device, dtype=torch.int64
    ),
    "arange of nothing": lambda to: torch.arange(3, 3, device=to(_like(1)).device),
    "arange of bools": lambda to: torch.arange(True, device=to(_like(1)).device),
    "arange the other way": lambda to: torch.arange(3, 2, device=to(_like(1)).device),
    "arange that stands": lambda to: torch.arange(3, 5, 0, device=to(_like(1)).device),
    "arange to no number": lambda to: torch.arange(float("nan"), device=to(_like(1)).device),
    "arange to infinity": lambda to: torch.arange(float("inf"), device=to(_like(1)).device),
    "arange into": lambda to: torch.arange(5, out=to(torch.empty(5, dtype=torch.int32))),
    "arange into nothing": lambda to: torch.arange(5, out=to(torch.empty(0, dtype=torch.float32))),
    "arange into a matrix": lambda to: torch.arange(6, out=to(torch.empty(2, 3))),
    "dropout of integers": lambda to: torch.native_dropout(
        to(_like(4, 3, dtype=torch.int64)), 0.5, True
    ),
}


def _facts(call: Callable[[Callable[[Tensor], Tensor]], Any], device: str) -> Any:
    try:
        made = call(lambda tensor: tensor.to(device))
    except Exception as error:
        return type(error)
    return [
        (t.dtype, t.shape, t.stride(), t.cpu().nan_to_num(7).tolist())
        for t in (made if isinstance(made, tuple) else (made,))
    ]


@pytest.mark.parametrize("name", CALLS)
def test_a_call_returns_what_the_cpu_returns(name: str) -> None:
    found, wanted = _facts(CALLS[name], "ftm"), _facts(CALLS[name], "cpu")
    if isinstance(wanted, type):
        assert found is wanted
        return
    for (*facts, values), (*wanted_facts, wanted_values) in zip(found, wanted, strict=True):
        assert facts == wanted_facts
        torch.testing.assert_close(
            torch.tensor(values),
            torch.tensor(wanted_values),
            rtol=1e-2 if "bfloat16" in name else 1e-5,
            atol=1e-5,
        )


@pytest.mark.parametrize(
    "function",
    [
        torch.sin,
        torch.neg,
        torch.sum,
        torch.argmax,
        lambda x: x.clamp(min=0),
        lambda x: x.cumsum(0),
        lambda x: x.add_(1),
        lambda x: x.mul(x),
        lambda x: x.tril(),
        lambda x: torch.cat([x, x]),
        lambda x: torch.topk(x, 2).values,
        lambda x: x.gelu() if hasattr(x, "gelu") else F.gelu(x),
    ],
)
def test_structured_functions_of_views(function: Callable[[Tensor], Tensor]) -> None:
    for x in (
        _like(4, 3).t(),
        _like(6, 4)[::2, 1:],
        _like(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)[0, 0],
    ):
        made, wanted = function(x.to("ftm").clone()), function(x.clone())
        assert (made.dtype, made.shape, made.stride()) == (
            wanted.dtype,
            wanted.shape,
            wanted.stride(),
        )
        torch.testing.assert_close(made.cpu(), wanted)


def _steps(tensor: Tensor) -> list[int]:
    """The strides that lead from one element to another."""
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


def _gradients(
    module: torch.nn.Module,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    memory_format: torch.memory_format,
    device: str,
) -> Any:
    module = copy.deepcopy(module).to(device, dtype)
    x = (
        (_like(*shape, dtype=dtype) + _like(*shape[::-1], dtype=dtype).reshape(shape) / 7)
        .to(device)
        .contiguous(memory_format=memory_format)
    )
    x.requires_grad_()
    (module(x) ** 2).sum().backward()
    return [x.grad, *(parameter.grad for parameter in module.parameters())]


@pytest.mark.parametrize(
    "module",
    [
        torch.nn.Conv2d(4, 6, 3, 2, 1),
        torch.nn.Conv2d(4, 4, 3, groups=4, bias=False),
        torch.nn.ConvTranspose2d(4, 6, 3, 2),
        torch.nn.BatchNorm2d(4),
        torch.nn.BatchNorm2d(4).eval(),
        torch.nn.BatchNorm2d(4, affine=False),
        torch.nn.GroupNorm(2, 4),
        torch.nn.GroupNorm(2, 4, affine=False),
        torch.nn.LayerNorm([6, 5]),
        torch.nn.LayerNorm(5, bias=False),
        torch.nn.Hardswish(),
        torch.nn.Mish(),
        torch.nn.ReLU6(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
def test_gradients_are_the_cpus(
    module: torch.nn.Module, dtype: torch.dtype, memory_format: torch.memory_format
) -> None:
    found, wanted = (
        _gradients(module, (3, 4, 6, 5), dtype, memory_format, device) for device in ("ftm", "cpu")
    )
    for mine, theirs in zip(found, wanted, strict=True):
        assert (mine.dtype, mine.shape, _steps(mine)) == (
            theirs.dtype,
            theirs.shape,
            _steps(theirs),
        )
        close = (
            {"rtol": 5e-2, "atol": 5e-1}
            if dtype == torch.bfloat16
            else {"rtol": 1e-4, "atol": 1e-3}
        )
        torch.testing.assert_close(mine.cpu(), theirs, **close)
