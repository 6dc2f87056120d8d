"""All-reduces that are part of programs: one program for a step, in order with other collectives."""

from __future__ import annotations

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
for parameter in model.parameters():
    first = parameter.detach().clone()
    dist.broadcast(first, 0)
    torch.testing.assert_close(parameter.detach(), first, rtol=1e-6, atol=1e-7)
    dist.broadcast(grad := parameter.grad.clone(), 0)
    assert torch.equal(parameter.grad, grad), "gradients are equal bit for bit"
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
dist.broadcast(y, 1)  # a task, behind what is recorded
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
dist.destroy_process_group()
print("ok\\n", end="")  # in one write
"""
)


def test_order_and_number_are_kept(torchrun) -> None:
    assert torchrun(ORDER) == "ok\nok\n"


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
