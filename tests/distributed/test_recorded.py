"""Collectives that are part of programs: one program for a step, in order with other collectives."""

from __future__ import annotations

import pytest

from distributed.test_collectives import START

COUNT = """
import ftm_lazy
from ftm_lazy import _C

def programs():
    torch.ftm.synchronize()
    return _C._counters().get("executions", 0)
"""

STEPS = (
    START
    + COUNT
    + """
dist.init_process_group("ftm", device_id=device)
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(40, 40) for _ in range(4))).to(device)
model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.01)
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(8, 40, generator=torch.Generator().manual_seed(rank)).to(device)

def step():
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss

for _ in range(3):
    step()
before, recorded = programs(), _C._counters()["recorded_collectives"]
for _ in range(4):
    step()
assert programs() == before + 4, programs() - before
assert _C._counters()["recorded_collectives"] >= recorded + 4 * 2  # two buckets or more
for _ in range(3):
    step().item()
before = programs()
for _ in range(4):
    step().item()
assert programs() == before + 4, programs() - before
with ftm_lazy.profile() as profile:
    step()
spans = [e for e in profile.events.host if e.kind == "collective" and e.name == "all_reduce"]
assert len(spans) >= 2 and all(e.end > e.begin and e.bytes and e.line for e in spans), spans
with model.no_sync():
    model(x).square().mean().backward()
step()
for _ in range(20):
    step()
for parameter in model.parameters():
    for tensor in (parameter.detach(), parameter.grad):
        first = tensor.clone()
        dist.broadcast(first, 0)
        assert torch.equal(tensor, first), "replicas are equal bit for bit"
dist.destroy_process_group()
print("ok\\n", end="")  # in one write
"""
)


def test_a_step_is_one_program(torchrun) -> None:
    """Also with a metric that is read in each step."""
    assert torchrun(STEPS) == "ok\nok\n"


ORDER = (
    START
    + COUNT
    + """
dist.init_process_group("cpu:gloo,ftm:ftm")
store = dist.distributed_c10d._get_default_store()
mine = float(rank + 1)
before = programs()
x, y = full(mine), full(mine)
dist.all_reduce(x)
dist.all_reduce(y)  # an equal call, which is not shared
dist.all_reduce(x, dist.ReduceOp.MAX)
check("three", torch.stack([x, y]), [[3.0] * 3] * 2)
assert programs() == before + 1
assert _C._counters()["collectives"] == 3

x, y = full(mine), full(mine)
dist.all_reduce(x)
dist.broadcast(y, 1)
dist.all_reduce(full(rank, dtype=torch.uint8))  # a task, behind what is recorded
dist.all_reduce(x)
if rank == 0:
    check("a rank that logs", x.sum(), 18.0)
dist.all_reduce(y)
check("mixed", torch.stack([x, y]), [[6.0] * 3, [4.0] * 3])

dead = full(mine)
dist.all_reduce(dead)  # the result is never read
del dead
x = full(mine, 2 + rank * 0)
dist.all_reduce(x, dist.ReduceOp.AVG)
check("after a dead one", x, [1.5] * 2)

view = torch.zeros(4, 4, device=device)
dist.all_reduce(view[1:3, 1:].add_(mine))
check("temporary view", view.sum(), 18.0)
for k in range(6):  # small decisions, which the CPU would compute otherwise
    n = torch.tensor(k + rank, device=device)
    dist.all_reduce(n)
    assert n.item() == 2 * k + 1

# A pending collective is launched while its process waits for a message.
x = full(mine)
dist.all_reduce(x)
if rank == 0:
    check("idle", x, [3.0] * 3)
    store.set("seen", "1")
else:
    store.wait(["seen"])
    assert _C._counters()["idle_launches"] == 1
work = dist.all_reduce(x, async_op=True)
work.wait()
check("async", x, [6.0] * 3)

# Programs differ; the collectives do not.
total = full(mine)
for k in range(3):
    y = full(mine) if k != 1 else full(mine) * full(2.0) - mine
    if rank == 1:
        y = y + y.sin() * 0
    dist.all_reduce(y)
    if rank == 0 and k == 1:
        check("a rank that logs", y, [3.0] * 3)
    parts = torch.empty(6, device=device)
    dist.all_gather_into_tensor(parts, y)
    total += parts[:3]
check("programs that differ", total, [9.0 + mine] * 3)
dist.destroy_process_group()
print("ok\\n", end="")  # in one write
"""
)


def test_order_and_number_are_kept(torchrun) -> None:
    assert torchrun(ORDER) == "ok\nok\n"


KINDS = (
    START
    + COUNT
    + """
import torch.distributed._functional_collectives as functional
dist.init_process_group("ftm", device_id=device)
group = dist.group.WORLD

def each():
    x = torch.arange(4.0, device=device) + 10 * rank
    empty = lambda *shape: torch.empty(shape, device=device)
    gathered, part, exchanged, uneven = empty(8), empty(2), empty(4), empty(3 + rank)
    work = dist.all_gather_into_tensor(gathered, x, async_op=True)
    dist.reduce_scatter_tensor(part, x + 1)
    dist.all_to_all_single(exchanged, x)
    dist.all_to_all_single(uneven, x if rank == 0 else x[:3], [2, 1] if rank == 0 else [2, 2], [2, 2] if rank == 0 else [1, 2])
    work.wait()
    sent, summed, view = x + 1, x * 2, torch.zeros(2, 6, device=device)
    dist.broadcast(sent, 1)
    dist.reduce(summed, 0)
    dist.all_gather_into_tensor(view[:, 2:], x)  # into a part of a tensor
    parts, uneven_parts = [empty(4), empty(4)], [empty(1), empty(2)]
    dist.all_gather(parts, x)
    dist.all_gather(uneven_parts, x[:1 + rank])
    reduced = empty(2)
    dist.reduce_scatter(reduced, [x[:2], x[2:]])
    with dist._coalescing_manager(group=group, device=device, async_ops=True) as several:
        a, b = x + 0, x[:2] * 2
        dist.all_reduce(a)
        dist.all_reduce(b)
    several.wait()
    weight = torch.ones(4, device=device, requires_grad=True)
    y = functional.all_gather_tensor_autograd(weight * x, 0, group)
    y = functional.reduce_scatter_tensor_autograd(y * y, "sum", 0, group)
    y.sum().backward()
    return [gathered, part, exchanged, uneven, sent, summed, view, *parts, *uneven_parts, reduced, a, b,
            functional.all_reduce(x, "max", group) + 1, functional.all_to_all_single(x, [2, 2], [2, 2], group) * 2,
            functional.all_gather_into_tensor_coalesced([x, x + 1], group)[1] * 1,
            functional.broadcast(x, 1, group) * 1, weight.grad]

x, others = [[float(k + 10 * r) for k in range(4)] for r in (rank, 1 - rank)]
zero, one = (x, others) if rank == 0 else (others, x)
expected = [
    zero + one, [[12.0, 14.0], [16.0, 18.0]][rank], [[0.0, 1.0, 10.0, 11.0], [2.0, 3.0, 12.0, 13.0]][rank],
    [[0.0, 1.0, 10.0], [2.0, 3.0, 11.0, 12.0]][rank], [11.0, 12.0, 13.0, 14.0],
    [20.0, 24.0, 28.0, 32.0] if rank == 0 else [20.0, 22.0, 24.0, 26.0], [[0.0, 0.0, *zero], [0.0, 0.0, *one]],
    zero, one, [0.0], [10.0, 11.0], [[10.0, 12.0], [14.0, 16.0]][rank], [10.0, 12.0, 14.0, 16.0], [20.0, 24.0],
    [11.0, 12.0, 13.0, 14.0], [[0.0, 2.0, 20.0, 22.0], [4.0, 6.0, 24.0, 26.0]][rank],
    [v + 1 for v in zero + one], one, [4 * v * v for v in x]]
before = programs()
for turn in range(4):  # the first turn also computes constants
    found = each()
    before += 1
    assert turn == 0 or programs() == before, (turn, programs() - before)
    for name, (value, wanted) in enumerate(zip(found, expected, strict=True)):
        check(name, value, wanted)
    before = programs()
    if turn == 1:
        compiles = ftm_lazy.metrics.counters()["compiles"]
assert ftm_lazy.metrics.counters()["compiles"] == compiles
counters = _C._counters()
assert counters["collectives"] == counters["recorded_collectives"], counters
dist.destroy_process_group()
print("ok\\n", end="")  # in one write
"""
)


def test_all_kinds_are_one_program(torchrun) -> None:
    """Also on a part of a tensor, into lists, coalesced, and functional ones with gradients."""
    assert torchrun(KINDS) == "ok\nok\n"


MESSAGES = (
    START
    + COUNT
    + """
dist.init_process_group("cpu:gloo,ftm:ftm", device_id=device)
store = dist.distributed_c10d._get_default_store()
other, mine = 1 - rank, float(rank + 1)

def exchange():
    now, later = full(0.0), torch.zeros(4, 3, device=device)
    works = [dist.irecv(now, other), dist.irecv(later[1], other, tag=1)]  # before this rank sends
    works += [dist.isend(full(mine), other), dist.isend(full(10 * mine), other, tag=1)]
    works[0].wait()
    doubled = now * 2
    batch = [dist.P2POp(dist.irecv, now, other), dist.P2POp(dist.isend, doubled, other)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    works[1].wait()
    parts, part = [torch.empty(3, device=device) for _ in range(2)], torch.empty(3, device=device)
    dist.gather(doubled, parts if rank == 0 else None)
    dist.scatter(part, [p + 1 for p in parts] if rank == 0 else None)
    if rank == 0:  # there and back
        dist.send(part, 1)
        dist.recv(part, 1)
    else:
        got = torch.empty(3, device=device)
        dist.recv(got, 0)
        dist.send(got * part, 0)
    return now, later, part

theirs = 3 - mine
for turn in range(3):
    before = programs()
    now, later, part = exchange()
    assert turn == 0 or programs() == before + 1, programs() - before
    check("now", now, [2 * mine] * 3)
    check("later", later, [[0.0] * 3, [10 * theirs] * 3, [0.0] * 3, [0.0] * 3])
    check("part", part, [15.0 if rank == 0 else 3.0] * 3)
    if turn == 1:
        compiles = ftm_lazy.metrics.counters()["compiles"]
assert ftm_lazy.metrics.counters()["compiles"] == compiles
counters = _C._counters()
assert counters["collectives"] == counters["recorded_collectives"], counters

# A program does not wait until its message is received.
x, y = full(mine), full(2.0) * 3
if rank == 0:
    dist.send(x, 1)
    check("not received yet", y, [6.0] * 3)
    store.set("read", "1")
else:
    store.wait(["read"])
    dist.recv(x, 0)
    check("late", x, [1.0] * 3)
dist.destroy_process_group()
print("ok\\n", end="")  # in one write
"""
)


def test_messages_are_part_of_the_program(torchrun) -> None:
    """Also gather and scatter, on whose ranks the programs differ."""
    assert torchrun(MESSAGES) == "ok\nok\n"


REPLIES = (
    START
    + """
dist.init_process_group("ftm", device_id=device)
for turn in range(2):
    got = full(0.0)
    if rank == 0:
        work = dist.irecv(got, 1)
        question = full(2.0) * 3
        dist.isend(question, 1)
        work.wait()
        check("reply", got + question, [18.0] * 3)
    else:
        dist.irecv(got, 0).wait()
        dist.isend(got * 2, 0)
        check("question", got, [6.0] * 3)
dist.destroy_process_group()
print("ok\\n", end="")  # in one write
"""
)


@pytest.mark.parametrize("executor", ["machine", "reference"])
def test_messages_before_and_after_a_read(torchrun, executor) -> None:
    """What a process sends before it reads a message is on its way when it waits for that."""
    assert torchrun(REPLIES, FTM_EXECUTOR=executor) == "ok\nok\n"


IN_FLIGHT = (
    START
    + """
dist.init_process_group("cpu:gloo,ftm:ftm")
store = dist.distributed_c10d._get_default_store()
gathered, sums = torch.empty(6, device=device), full(float(rank + 1))
if rank == 0:
    first = dist.all_gather_into_tensor(gathered, full(5.0), async_op=True)
    second = dist.all_reduce(sums, async_op=True)
    for k in range(3):  # several programs run meanwhile, and one waits for the collective
        assert (full(2.0) * k).tolist() == [2.0 * k] * 3
    later = sums * 2
    assert not first.is_completed() and not second.is_completed()
    store.set("go", "1")
    check("later", later, [6.0] * 3)
    assert second.is_completed()
else:
    store.wait(["go"])
    dist.all_gather_into_tensor(gathered, full(7.0))
    dist.all_reduce(sums)
check("gathered", gathered, [5.0] * 3 + [7.0] * 3)
dist.destroy_process_group()
print("ok\\n", end="")  # in one write
"""
)


def test_programs_run_while_collectives_are_in_flight(torchrun) -> None:
    assert torchrun(IN_FLIGHT) == "ok\nok\n"


DECISIONS = (
    START
    + """
dist.init_process_group("ftm", device_id=device)
for k in range(4):
    for dtype in (torch.int64, torch.bool, torch.float32):
        for one_asks in (False, True):
            x = full(rank == 1, dtype=dtype)
            dist.broadcast(x, 1)
            y = full(rank == 0, 1, dtype=dtype)
            dist.all_reduce(y, dist.ReduceOp.MAX)
            if rank == 0 or not one_asks:
                assert (x == 1).all(), (rank, dtype)
                assert x[x == 1].shape == (3,), (rank, dtype)
                assert bool(y == 1), (rank, dtype)
dist.destroy_process_group()
print("ok\\n", end="")  # in one write
"""
)


def test_what_other_processes_send_decides(torchrun) -> None:
    """The CPU evaluates short conditions, but a collective runs in its program, once."""
    assert torchrun(DECISIONS) == "ok\nok\n"


FAILURE = (
    START
    + """
dist.init_process_group("ftm", timeout=__import__("datetime").timedelta(seconds=3))
weight, gradient = torch.ones(4, device=device), torch.ones(4, device=device)
dist.all_reduce(gradient)
weight.tolist()
if rank == 1:
    os._exit(0)
dist.all_reduce(gradient)
weight.sub_(gradient)
try:
    weight.tolist()
    raise AssertionError("no error")
except RuntimeError as error:
    assert "all_reduce of Float[4], called at" in str(error), str(error)
assert weight.tolist() == [1.0] * 4  # as before the step
print("ok", flush=True)
os._exit(0)
"""
)


def test_a_failed_step_leaves_parameters_as_they_were(torchrun) -> None:
    assert torchrun(FAILURE) == "ok\n"
