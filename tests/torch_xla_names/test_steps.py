"""Device, steps and saving, as torch_xla's programs use them."""

import importlib.util
import inspect
from collections import OrderedDict

import pytest
import torch
from functorch.compile import min_cut_rematerialization_partition
from torch import nn

import ftm_lazy
import ftm_lazy.torch_xla as torch_xla
import ftm_lazy.torch_xla.core.xla_model as xm


def executions() -> int:
    return ftm_lazy.metrics.counters()["executions"]


def test_nothing_is_called_torch_xla():
    assert importlib.util.find_spec("torch_xla") is None
    assert torch_xla.core.xla_model is xm


def test_device():
    assert torch_xla.device() == xm.xla_device() == xm.xla_device(0) == torch.device("ftm:0")
    with pytest.raises(IndexError, match="Device index 3 out of range"):
        torch_xla.device(3)


@pytest.mark.parametrize("cut", [torch_xla.sync, xm.mark_step, xm.wait_device_ops])
def test_cuts(cut):
    ftm_lazy.sync(wait=True)
    before = executions()
    tensor = torch.ones(3, device=xm.xla_device()) * 2
    cut()
    ftm_lazy.sync(wait=True)
    assert executions() == before + 1 and tensor.tolist() == [2.0] * 3


def test_step():
    ftm_lazy.sync(wait=True)
    before = executions()
    outside = torch.ones(3, device="ftm") * 2
    with torch_xla.step():
        inside = outside * 3
    assert inside.tolist() == [6.0] * 3 and executions() == before + 2
    with pytest.raises(ZeroDivisionError), torch_xla.step():
        raise ZeroDivisionError
    assert inspect.signature(xm.mark_step).parameters["wait"].default is False


def test_optimizer_step():
    parameter = torch.nn.Parameter(torch.ones(3, device="ftm"))
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    parameter.grad = torch.ones(3, device="ftm")
    assert xm.optimizer_step(optimizer, barrier=True) is None
    assert parameter.tolist() == [0.5] * 3
    assert xm.optimizer_step(optimizer, optimizer_args={"closure": lambda: 5}) == 5


def test_save(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).to("ftm")
    base = torch.arange(6.0, device="ftm").reshape(2, 3)
    data = {
        "model": model.state_dict(),
        "views": [base.t(), base[1]],
        "pair": (1, base.bfloat16()),
        "name": "x",
    }
    xm.save(data, tmp_path / "x.pt")
    back = torch.load(tmp_path / "x.pt")
    assert (
        isinstance(back["model"], OrderedDict)
        and back["model"]._metadata == data["model"]._metadata
    )
    for name, tensor in data["model"].items():
        assert back["model"][name].device.type == "cpu" and torch.equal(
            back["model"][name], tensor.cpu()
        )
    transposed, row = back["views"]
    assert (
        transposed.stride() == (1, 3)
        and transposed.untyped_storage()._cdata == row.untyped_storage()._cdata
    )
    assert (
        row.tolist() == [3, 4, 5]
        and back["pair"][1].dtype == torch.bfloat16
        and back["name"] == "x"
    )


def test_a_long_scan_is_few_programs():
    """One for the pieces, whether the tensor that it walks along was written over or not."""
    from ftm_lazy.torch_xla.experimental.scan import scan

    def step(carry, x):
        carry = torch.tanh(carry * 0.5 + x)
        return carry, carry.sum()

    xs = torch.randn(600, 4)
    expected = torch.zeros(4)
    for x in xs:
        expected, _ = step(expected, x)
    for walked in (xs.to("ftm"), torch.empty(600, 4, device="ftm").zero_().copy_(xs)):
        before = ftm_lazy.metrics.counters()
        carry, sums = scan(step, torch.zeros(4, device="ftm"), walked)
        torch.testing.assert_close(carry.cpu(), expected)
        torch.testing.assert_close(sums[-1].cpu(), expected.sum())
        after = ftm_lazy.metrics.counters()
        found = sum(after[name] - before[name] for name in ("compiles", "cache_hits_disk"))
        assert found <= 6 < after["executions"] - before["executions"]


@pytest.mark.parametrize(
    "options",
    [{}, {"is_fn_pure": True}, {"partition_fn": min_cut_rematerialization_partition}],
    ids=["called", "pure", "partitioned"],
)
def test_a_step_of_scan_may_write_its_arguments(options):
    """Earlier results and the caller's tensors keep their values."""
    from ftm_lazy.torch_xla.experimental.scan import scan

    def running_sum(total, x):
        x *= 2
        total += x
        return total, total

    init = torch.tensor([1.0], device="ftm", requires_grad=True)
    xs = torch.tensor([[1.0], [2.0], [3.0]], device="ftm", requires_grad=True)
    last, sums = scan(running_sum, init, xs, **options)
    sums.sum().backward()
    assert last.tolist() == [13] and sums.tolist() == [[3], [7], [13]]
    assert init.tolist() == [1] and xs.tolist() == [[1], [2], [3]]
    assert init.grad.tolist() == [3] and xs.grad.tolist() == [[6], [4], [2]]


def test_loops_leave_their_arguments():
    from ftm_lazy.torch_xla.experimental.fori_loop import fori_loop, while_loop
    from ftm_lazy.torch_xla.experimental.gradient_accumulation import gradient_accumulation

    init = torch.ones(1, device="ftm")
    xs = torch.ones(3, 1, device="ftm")
    assert fori_loop(0, 3, lambda x: x.mul_(2), init).tolist() == [8]
    assert while_loop(lambda x: x < 5, lambda x: (x.mul_(2),), (init,))[0].tolist() == [8]
    model = nn.Linear(1, 1, device="ftm")

    def train_step(x, steps):
        return model(x.mul_(2)).sum(), steps.add_(1)

    _, steps = gradient_accumulation(train_step, (xs,), model, init)
    assert steps.tolist() == [4] and model.weight.grad.tolist() == [[2]]
    assert init.tolist() == [1] and xs.tolist() == [[1], [1], [1]]
