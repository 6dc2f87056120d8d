"""Training loops: regions, closures, random numbers, loaders, mixed precision, loops."""

from __future__ import annotations

import copy
import inspect
import threading
import time

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import ftm_lazy
import ftm_lazy.torch_xla as torch_xla
import ftm_lazy.torch_xla.amp as amp
import ftm_lazy.torch_xla.core.xla_model as xm
import ftm_lazy.torch_xla.distributed.parallel_loader as pl
from ftm_lazy.torch_xla.amp import syncfree
from ftm_lazy.torch_xla.distributed.data_parallel import DataParallel
from ftm_lazy.torch_xla.experimental.assume_pure import PureModule, assume_pure
from ftm_lazy.torch_xla.experimental.fori_loop import fori_loop, while_loop
from ftm_lazy.torch_xla.experimental.gradient_accumulation import gradient_accumulation
from ftm_lazy.torch_xla.experimental.gru import GRU
from ftm_lazy.torch_xla.experimental.scan_layers import scan_layers
from ftm_lazy.torch_xla.utils.checkpoint import checkpoint


def executions() -> int:
    ftm_lazy.sync(wait=True)
    return ftm_lazy.metrics.counters()["executions"]


def on_device(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes))).to("ftm")


# --- regions
# ------------------------------------------------------------------------------------------------


def test_compile_is_function_decorator_and_context():
    @torch_xla.compile
    def twice(x):
        return x * 2

    @torch_xla.compile(full_graph=True, name="thrice")
    def thrice(x):
        return x * 3

    assert twice(on_device(2)).cpu().equal(on_device(2).cpu() * 2) and thrice.__name__ == "thrice"
    assert torch_xla.compile(nn.Linear(2, 1).to("ftm"))(on_device(2)).shape == (1,)
    optimizer = torch.optim.SGD([nn.Parameter(on_device(2))], lr=1.0)
    x = on_device(3)
    before = executions()
    with torch_xla.compile():  # the end of the optimizer's step does not cut
        optimizer.param_groups[0]["params"][0].grad = on_device(2)
        optimizer.step()
        y = x + 1
    assert executions() == before + 1 and y.shape == (3,)


def test_compile_full_graph_refuses_a_read():
    @torch_xla.compile(full_graph=True)
    def reads(x):
        return x + x.sum().item()

    with pytest.raises(
        RuntimeError, match=r"Unexpected execution happens inside the compiled function.*reads"
    ):
        reads(on_device(2))
    # nothing stays forbidden
    assert (on_device(2) + 1).sum().item() == pytest.approx((on_device(2).cpu() + 1).sum().item())


def test_compile_refuses_too_many_programs():
    def add(x):
        return x + 1

    compiled = torch_xla.compile(add, max_different_graphs=1)
    compiled(on_device(2))
    compiled(on_device(2))
    with pytest.raises(
        RuntimeError,
        match="Maximum number of different graphs allowed per function exceeded: 1.*add",
    ):
        compiled(on_device(2, 2) * 3)


def test_sync_takes_reset_scope():
    torch_xla.sync(wait=True, reset_scope=False)
    with pytest.warns(DeprecationWarning, match="Use torch_xla.sync instead"):
        xm.mark_step(wait=True, reset_scope=False)


# --- closures
# -----------------------------------------------------------------------------------------------


def test_closures_run_after_the_step_in_order():
    said = []
    x = on_device(2)
    xm.add_step_closure(lambda value: said.append(("first", value.tolist())), args=(x * 2,))
    xm.add_step_closure(said.append, args=("second",))
    assert said == []
    torch_xla.sync()
    assert said == [("first", (x * 2).tolist()), "second"]
    torch_xla.sync()
    assert len(said) == 2


def test_closures_run_aside():
    done, threads = threading.Event(), []

    def note(value):
        threads.append((threading.current_thread(), value.item()))
        done.set()

    xm.add_step_closure(note, args=(on_device(2).sum() * 0 + 5,), run_async=True)
    torch_xla.sync()
    assert done.wait(30) and threads[0][0] is not threading.current_thread() and threads[0][1] == 5

    def fail():
        raise KeyError("in a closure")

    xm.add_step_closure(fail, run_async=True)
    torch_xla.sync()
    with pytest.raises(RuntimeError) as error:  # the next closure says it
        for _ in range(600):
            xm.add_step_closure(time.sleep, args=(0.05,), run_async=True)
            torch_xla.sync()
            time.sleep(0.05)
    assert isinstance(error.value.__cause__, KeyError)


# --- random numbers
# -----------------------------------------------------------------------------------------


def test_random_numbers_are_apart_from_torchs():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    xm.set_rng_state(7)
    first = torch.rand(3, device="ftm").tolist()
    assert torch.rand(3).equal(expected)  # the device's numbers take none of the CPU's
    state = xm.get_rng_state()
    second = torch.rand(3, device="ftm").tolist()
    xm.set_rng_state(state)
    assert torch.rand(3, device="ftm").tolist() == second != first
    torch_xla.manual_seed(7)
    assert torch.rand(3, device="ftm").tolist() == first
    with xm.fork_rng():
        torch.rand(3, device="ftm").cpu()
    assert torch.rand(3, device="ftm").tolist() == second


# --- loaders
# ------------------------------------------------------------------------------------------------


def batches(count: int = 5) -> DataLoader:
    return DataLoader(
        TensorDataset(torch.arange(2.0 * count).reshape(count, 2), torch.arange(count)),
        batch_size=1,
    )


@pytest.fixture(params=[0.0, float("inf")], ids=["threads", "here"])
def by_threads(request, monkeypatch):
    """Whether threads take over the reading after the second batch, or never."""
    monkeypatch.setattr(pl, "_THREAD_THRESHOLD", request.param)
    return request.param == 0


def test_a_loader_moves_and_ends_steps(by_threads):
    loader = pl.MpDeviceLoader(
        batches(), torch_xla.device(), loader_prefetch_size=2, device_prefetch_size=1
    )
    assert len(loader) == 5 and loader.dataset is loader._loader.dataset and loader.batch_size == 1
    for _ in range(2):  # an epoch, and another
        said, seen = [], []
        for x, y in loader:
            assert x.device.type == y.device.type == "ftm"
            assert len(said) == len(seen)  # the batch before has ended its step
            seen.append(y.item())
            xm.add_step_closure(said.append, args=(0,))
        assert seen == list(range(5)) and len(said) == 5
    said, ended = [], []
    for _ in pl.MpDeviceLoader(batches(), torch_xla.device(), batches_per_execution=2):
        ended.append(len(said))
        xm.add_step_closure(said.append, args=(0,))
    assert ended == [0, 1, 1, 3, 3] and len(said) == 5  # torch_xla's count begins with the second


def test_a_loader_raises_what_its_data_raise(by_threads):
    class Broken(torch.utils.data.Dataset):
        def __len__(self):
            return 9

        def __getitem__(self, index):
            if index == 4:
                raise ValueError("a broken sample")
            return torch.ones(1)

    seen = []
    with pytest.raises(ValueError, match="a broken sample"):
        seen.extend(pl.MpDeviceLoader(DataLoader(Broken()), torch_xla.device()))
    assert len(seen) == 4
    early = iter(
        pl.MpDeviceLoader(
            batches(50), torch_xla.device(), loader_prefetch_size=1, device_prefetch_size=1
        )
    )
    for _ in range(4):
        next(early)
    assert len(early._loader._threads) == (2 if by_threads else 0)
    early._loader.close()  # left early: the threads end
    assert not any(thread.is_alive() for thread in early._loader._threads)


def test_data_parallel_runs_a_loop():
    def loop(model, loader, device, context, scale):
        context.getattr_or("epochs", list).append(scale)
        return [model(x).sum().item() * scale for x, _ in loader]

    parallel = DataParallel(nn.Linear(2, 1), device_ids=[torch_xla.device()])
    first, second = parallel(loop, batches(), scale=1.0), parallel(loop, batches(), scale=2.0)
    assert [2 * each for each in first[0]] == pytest.approx(
        second[0]
    ) and parallel._context.epochs == [1.0, 2.0]


# --- mixed precision
# ----------------------------------------------------------------------------------------


def test_autocast_and_a_scaler():
    model = nn.Linear(4, 4).to("ftm")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = amp.GradScaler(init_scale=4.0)
    with amp.autocast(torch_xla.device()):
        assert model(on_device(2, 4)).dtype == torch.bfloat16
    with amp.autocast(torch_xla.device(), dtype=torch.float16):
        loss = model(on_device(2, 4)).float().sum()
    scaler.scale(loss).backward()
    before = model.weight.detach().cpu()
    scaler.step(optimizer)
    scaler.update()
    assert not model.weight.cpu().equal(before) and scaler.get_scale() == 4.0
    before = model.weight.detach().cpu()
    scaler.scale(loss * 0 + 1)
    model.weight.grad.fill_(float("inf"))
    scaler.step(optimizer)
    scaler.update()
    assert model.weight.cpu().equal(before) and scaler.get_scale() == 2.0


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_syncfree_optimizers_skip_on_the_device(name):
    arguments = {"lr": 0.1, "momentum": 0.9} if name == "SGD" else {"lr": 0.1}
    parameters = {kind: nn.Parameter(torch.ones(3, device=kind)) for kind in ("cpu", "ftm")}
    plain = getattr(torch.optim, name)([parameters["cpu"]], **arguments)
    free = getattr(syncfree, name)([parameters["ftm"]], **arguments)
    for step in range(4):
        for kind, parameter in parameters.items():
            parameter.grad = torch.full((3,), 0.5 + step, device=kind)
        skipped = step in (0, 2)
        free.step(found_inf=torch.tensor(float(skipped), device="ftm"))
        if not skipped:
            plain.step()
        torch.testing.assert_close(parameters["ftm"].detach().cpu(), parameters["cpu"].detach())


def test_checkpoint_computes_again_the_same():
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1)).to("ftm")
    gradients = []
    for run in (
        model,
        lambda x: checkpoint(model, x, use_reentrant=True),
        lambda x: checkpoint(model, x, use_reentrant=False),
    ):
        x = on_device(3, 4).requires_grad_()
        xm.set_rng_state(3)
        run(x).sum().backward()
        gradients.append(x.grad.cpu())
    assert gradients[0].equal(gradients[1]) and gradients[0].equal(gradients[2])


# --- loops
# --------------------------------------------------------------------------------------------------


def test_loops_of_experimental():
    count, total = while_loop(
        lambda i, s: i < 4,
        lambda i, s: (i + 1, s + i),
        (torch.tensor(0, device="ftm"), torch.tensor(0.0, device="ftm")),
    )
    assert (count.item(), total.item()) == (4, 6.0)
    assert fori_loop(0, 5, lambda x: x * 2, torch.ones((), device="ftm")).item() == 32
    layers = [nn.Linear(3, 3) for _ in range(4)]
    x = on_device(2, 3)
    expected = x.cpu()
    for layer in layers:
        expected = layer(expected)
    torch.testing.assert_close(
        scan_layers([layer.to("ftm") for layer in layers], x).cpu(), expected
    )
    with pytest.raises(
        ValueError, match=r"Shape mismatch for 'weight' in layer 1: expected \(3, 3\), got \(2, 3\)"
    ):
        scan_layers([nn.Linear(3, 3).to("ftm"), nn.Linear(3, 2).to("ftm")], x)
    assert PureModule(layers[0])(x).shape == (2, 3) and assume_pure(torch.sin)(x).cpu().allclose(
        x.cpu().sin()
    )
    seeded = assume_pure(
        lambda x, *, rng_seed=None: x + torch.rand(3, device="ftm"), add_rng_seed_argument=True
    )
    assert seeded(x, rng_seed=1).cpu().equal(seeded(x, rng_seed=1).cpu())


def test_a_gru_by_scan():
    torch.manual_seed(0)
    own, x = nn.GRU(3, 5, num_layers=2, batch_first=True), torch.randn(2, 20, 3)
    by_scan = GRU(3, 5, num_layers=2, batch_first=True)
    by_scan.load_state_dict(own.state_dict())
    by_scan.to("ftm")
    expected, last = own(x)
    found, found_last = by_scan(x.to("ftm"))
    torch.testing.assert_close(found.cpu(), expected)
    torch.testing.assert_close(found_last.cpu(), last)
    expected.square().sum().backward()
    found.square().sum().backward()
    for (name, parameter), other in zip(own.named_parameters(), by_scan.parameters(), strict=True):
        torch.testing.assert_close(other.grad.cpu(), parameter.grad, msg=name, rtol=1e-4, atol=1e-5)


def test_a_gru_by_scan_replaces_a_gru():
    assert type(GRU(3, 5, bidirectional=True)) is nn.GRU
    assert type(GRU(3, 5, 1, True, False, 0.0, True)) is nn.GRU
    members = [dict(inspect.getmembers(kind, inspect.isroutine)) for kind in (nn.GRU, GRU)]
    assert members[0].keys() == members[1].keys()
    for name in filter(lambda name: inspect.isfunction(members[0][name]), members[0]):
        assert inspect.signature(members[0][name]) == inspect.signature(members[1][name]), name
    by_scan = GRU(3, 5, bias=False, dtype=torch.float64)
    assert type(copy.deepcopy(by_scan)) is GRU and by_scan.weight_hh_l0.dtype == torch.float64


def test_gradient_accumulation_of_experimental():
    torch.manual_seed(0)
    model, x, y = nn.Linear(4, 2), torch.randn(3, 8, 4), torch.randint(2, (3, 8))
    expected = nn.functional.cross_entropy(model(x.flatten(0, 1)), y.flatten())
    expected.backward()
    gradient, model.weight.grad = model.weight.grad, None
    model.to("ftm")
    loss, seen = gradient_accumulation(
        lambda a, b, seen: (nn.functional.cross_entropy(model(a), b), seen + len(b)),
        (x.to("ftm"), y.to("ftm")),
        model,
        torch.tensor(0, device="ftm"),
    )
    torch.testing.assert_close(loss.cpu(), expected.detach())
    torch.testing.assert_close(model.weight.grad.cpu(), gradient)
    assert seen.item() == 24
    with pytest.raises(ValueError, match="iterable_tensors cannot be empty"):
        gradient_accumulation(lambda: None, (), model)


def test_eager_mode_launches_each_operation():
    torch_xla.experimental.eager_mode(True)
    try:
        before = executions()
        x = on_device(2)
        y = (x * 2) + 1
        assert executions() >= before + 2 and y.shape == (2,)
    finally:
        torch_xla.experimental.eager_mode(False)
