"""What a program observes on `ftm` is what it observes on the CPU: values, strides, aliasing,
versions."""

import pytest
import torch
from torch import Tensor

from recorder import eager_autograd, eager_results, eager_views  # noqa: F401  (register their programs)
from recorder.eager_program import PROGRAMS


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
