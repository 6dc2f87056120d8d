"""What calls return is known from functions in C++, and is what the CPU returns: dtypes, sizes, strides, errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

PLAIN = """
import sys, torch, torch.nn.functional as F
x = torch.randn(6, 8).to("ftm")
for n in (3, 4):
    y = torch.where(x[:n] > 0, x[:n], 0.5) @ x[:n].t()
    y = F.layer_norm(F.dropout(F.relu(y), 0.5), [n]).roll(1, 0).softmax(1) + y.sum(1, keepdim=True)
    y = F.embedding(y.argmax(1), F.scaled_dot_product_attention(y[None], y[None], y[None])[0])
    F.cross_entropy(y.tril(), y.argmax(1)).item()
assert "torch._dynamo" not in sys.modules, "some shape was asked for in Python"
"""


def test_no_shape_of_common_calls_is_asked_for_in_python() -> None:
    subprocess.run([sys.executable, "-c", PLAIN], check=True, timeout=120)


def _like(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return (torch.arange(torch.Size(shape).numel()).reshape(shape) % 5 - 2).to(dtype)


CALLS: dict[str, Callable[[Callable[[Tensor], Tensor]], Any]] = {
    "where broadcasts": lambda to: torch.where(to(_like(4, 1) > 0), to(_like(3)), to(_like(2, 4, 3))),
    "where promotes": lambda to: torch.where(to(_like(3) > 0), to(_like(3, dtype=torch.int32)), to(_like(3, dtype=torch.float16))),
    "where takes numbers": lambda to: torch.where(to(_like(3) > 0), to(_like(3, dtype=torch.int32)), 1.5),
    "where of two numbers": lambda to: torch.where(to(_like(3) > 0), 1, 2.5),
    "where takes 0-d tensors": lambda to: torch.where(to(_like(3) > 0), to(_like(3)), to(torch.tensor(2.0, dtype=torch.float64))),
    "where keeps strides": lambda to: torch.where(to(_like(4, 3) > 0).t(), to(_like(4, 3)).t(), to(_like(4, 3)).t()),
    "where of channels_last": lambda to: torch.where(
        to(torch.tensor(True)), to(_like(2, 3, 4, 4)).contiguous(memory_format=torch.channels_last), to(_like(2, 3, 4, 4))
    ),
    "where of nothing": lambda to: torch.where(to(_like(0, 3) > 0), to(_like(0, 3)), to(_like(1, 3))),
    "where does not fit": lambda to: torch.where(to(_like(4) > 0), to(_like(3)), to(_like(3))),
    "where of a float": lambda to: torch.where(to(_like(3)), to(_like(3)), to(_like(3))),
    "where into": lambda to: torch.where(to(_like(4, 1) > 0), to(_like(3)), to(_like(4, 3)), out=to(torch.empty(0))),
    "where into a view": lambda to: torch.where(to(_like(3) > 0), to(_like(3)), to(_like(3)), out=to(torch.ones(3, 2))[:, 1]),
    "where into another dtype": lambda to: torch.where(
        to(_like(3) > 0), to(_like(3)), to(_like(3)), out=to(torch.empty(3, dtype=torch.float64))
    ),
    "safe_softmax": lambda to: torch._safe_softmax(to(_like(4, 3)).masked_fill(to(_like(4, 1) > 0), -torch.inf), 1),
    "safe_softmax of a transposed": lambda to: torch._safe_softmax(to(_like(4, 3)).t(), 0),
    "safe_softmax to a dtype": lambda to: torch._safe_softmax(to(_like(4, 3)), 1, torch.float64),
    "embedding": lambda to: F.embedding(to(_like(2, 3, dtype=torch.int32).abs()), to(_like(4, 3)).t().contiguous().t()),
    "embedding of one": lambda to: F.embedding(to(torch.tensor(2)), to(_like(4, 3, dtype=torch.float16))),
    "embedding of nothing": lambda to: F.embedding(to(_like(0, 3, dtype=torch.int64)), to(_like(4, 3))),
    "embedding by floats": lambda to: F.embedding(to(_like(3)), to(_like(4, 3))),
    "embedding of a vector": lambda to: F.embedding(to(_like(3, dtype=torch.int64).abs()), to(_like(4))),
    "relu of integers": lambda to: torch.relu(to(_like(3, dtype=torch.int8))),
    "relu of bool": lambda to: torch.relu(to(_like(3) > 0)),
    "relu keeps strides": lambda to: torch.relu(to(_like(4, 3)).t()),
    "roll": lambda to: torch.roll(to(_like(4, 3)), -5, 1),
    "roll of a transposed": lambda to: torch.roll(to(_like(4, 3)).t(), 2, 0),
    "roll of channels_last": lambda to: torch.roll(to(_like(2, 3, 4, 4)).contiguous(memory_format=torch.channels_last), 1, 2),
    "roll of nothing": lambda to: torch.roll(to(_like(0, 3)), 1, 1),
    "roll of all": lambda to: torch.roll(to(_like(4, 3)), 7),
    "roll of two dims": lambda to: torch.roll(to(_like(4, 3)), (1, 2), (0, 1)),
    "roll of a 0-d tensor along a dim": lambda to: torch.roll(to(torch.tensor(2.0)), 1, 0),
    "roll of a 0-d tensor": lambda to: torch.roll(to(torch.tensor(2.0)), 1),
    "roll along a dim that is not there": lambda to: torch.roll(to(_like(4, 3)), 1, 2),
    "layer_norm": lambda to: torch.native_layer_norm(to(_like(2, 4, 3)), [4, 3], to(_like(4, 3)), None, 1e-5),
    "layer_norm of float64": lambda to: torch.native_layer_norm(to(_like(4, 3, dtype=torch.float64)), [3], None, None, 1e-5),
    "layer_norm of bfloat16": lambda to: torch.native_layer_norm(to(_like(4, 3, dtype=torch.bfloat16)), [3], None, None, 1e-5),
    "layer_norm of a transposed": lambda to: torch.native_layer_norm(to(_like(4, 3)).t(), [4], None, None, 1e-5),
    "layer_norm of no rows": lambda to: torch.native_layer_norm(to(_like(0, 3)), [3], None, None, 1e-5),
    "layer_norm of another shape": lambda to: F.layer_norm(to(_like(4, 3)), [4]),
    "layer_norm of integers": lambda to: F.layer_norm(to(_like(4, 3, dtype=torch.int64)), [3]),
    "dropout of nothing dropped": lambda to: torch.native_dropout(to(_like(4, 3)).t(), 0.0, True),
    "dropout at rest": lambda to: torch.native_dropout(to(_like(4, 3)), 0.5, False),
    "dropout of integers": lambda to: torch.native_dropout(to(_like(4, 3, dtype=torch.int64)), 0.5, True),
}


def _facts(call: Callable[[Callable[[Tensor], Tensor]], Any], device: str) -> Any:
    try:
        made = call(lambda tensor: tensor.to(device))
    except Exception as error:
        return type(error)
    return [(t.dtype, t.shape, t.stride(), t.cpu().nan_to_num(7).tolist()) for t in (made if isinstance(made, tuple) else (made,))]


@pytest.mark.parametrize("name", CALLS)
def test_a_call_returns_what_the_cpu_returns(name: str) -> None:
    found, wanted = _facts(CALLS[name], "ftm"), _facts(CALLS[name], "cpu")
    if isinstance(wanted, type):
        assert found is wanted
        return
    for (*facts, values), (*wanted_facts, wanted_values) in zip(found, wanted, strict=True):
        assert facts == wanted_facts
        torch.testing.assert_close(torch.tensor(values), torch.tensor(wanted_values), rtol=1e-2 if "bfloat16" in name else 1e-5, atol=1e-5)


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
    for x in (_like(4, 3).t(), _like(6, 4)[::2, 1:], _like(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)[0, 0]):
        made, wanted = function(x.to("ftm").clone()), function(x.clone())
        assert (made.dtype, made.shape, made.stride()) == (wanted.dtype, wanted.shape, wanted.stride())
        torch.testing.assert_close(made.cpu(), wanted)
