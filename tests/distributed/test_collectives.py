"""Each collective of torch.distributed on tensors of the device, on two processes."""

from __future__ import annotations

START = """
import os
import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
torch.ftm.set_device(int(os.environ["LOCAL_RANK"]))
device = torch.device("ftm", rank)

def full(value, *shape, dtype=torch.float32):
    return torch.full(shape or (3,), value, dtype=dtype, device=device)

def check(name, value, expected):
    found = value.tolist()
    assert found == expected, (rank, name, found, expected)
"""

COLLECTIVES = (
    START
    + """
dist.init_process_group("ftm", device_id=device)
mine = float(rank + 1)
for op, expected in ((dist.ReduceOp.SUM, 3.0), (dist.ReduceOp.AVG, 1.5), (dist.ReduceOp.MAX, 2.0),
                     (dist.ReduceOp.PRODUCT, 2.0), (dist._make_nccl_premul_sum(0.5), 1.5)):
    x = full(mine)
    dist.all_reduce(x, op)
    check(op, x, [expected] * 3)
for dtype in (torch.int16, torch.bool, torch.bfloat16, torch.float64, torch.int64):
    x = full(1, dtype=dtype)
    dist.all_reduce(x)
    check(dtype, x, [1 if dtype == torch.bool else 2] * 3)
x = torch.full((2,), mine + 1j, device=device)
dist.all_reduce(x)
check("complex", x, [3 + 2j] * 2)

x = torch.zeros(4, 4, device=device)
x.add_(mine)
y = x[1:3, 1:]  # neither dense nor whole
dist.all_reduce(y)
check("view", x.sum(), 10 * mine + 6 * 3.0)
x = torch.ones(6, device=device).detach()
version = x._version
dist.all_reduce(x)
assert x._version == version

x = full(mine)
dist.broadcast(x, 1)
check("broadcast", x, [2.0] * 3)
x = full(mine)
dist.reduce(x, 0)
check("reduce", x, [3.0 if rank == 0 else 2.0] * 3)
parts = [full(0.0) for _ in range(2)]
dist.all_gather(parts, full(mine))
check("all_gather", torch.stack(parts), [[1.0] * 3, [2.0] * 3])
parts = [full(0.0, 1), full(0.0, 2)]
dist.all_gather(parts, full(mine, rank + 1))
check("uneven all_gather", torch.cat(parts), [1.0, 2.0, 2.0])
whole = full(0, 6, dtype=torch.int16)
dist.all_gather_into_tensor(whole, full(rank + 1, dtype=torch.int16))
check("all_gather_into_tensor", whole, [1] * 3 + [2] * 3)
parts = [full(0.0) for _ in range(2)] if rank == 0 else None
dist.gather(full(mine), parts)
if rank == 0:
    check("gather", torch.stack(parts), [[1.0] * 3, [2.0] * 3])
x = full(0.0)
dist.scatter(x, [full(5.0), full(6.0)] if rank == 0 else None)
check("scatter", x, [5.0 + rank] * 3)
x = full(0.0, 2)
dist.reduce_scatter(x, [full(mine, 2), full(10 * mine, 2)])
check("reduce_scatter", x, [3.0 if rank == 0 else 30.0] * 2)
for op, expected in ((dist.ReduceOp.SUM, [3.0, 30.0]), (dist.ReduceOp.AVG, [1.5, 15.0])):
    x = full(0.0, rank + 1)
    dist.reduce_scatter(x, [full(mine, 1), full(10 * mine, 2)], op)
    check("uneven reduce_scatter", x, expected[rank : rank + 1] * (rank + 1))
x = full(0.0, 2)
dist.reduce_scatter_tensor(x, torch.arange(4.0, device=device) * mine, op=dist.ReduceOp.AVG)
check("reduce_scatter_tensor", x, [[0.0, 1.5], [3.0, 4.5]][rank])
x = full(0.0, 3)
dist.all_to_all_single(x, torch.arange(3.0, device=device) + 10 * rank,
                       [1 + rank] * 1 + [2 - rank] if rank == 0 else [2, 1], [1, 2] if rank == 0 else [2, 1])
check("all_to_all_single", x, [0.0, 10.0, 11.0] if rank == 0 else [1.0, 2.0, 12.0])
outputs = [full(0.0, 1), full(0.0, 2)] if rank == 0 else [full(0.0, 3), full(0.0, 1)]
inputs = [full(1.0, 1), full(2.0, 3)] if rank == 0 else [full(3.0, 2), full(4.0, 1)]
dist.all_to_all(outputs, inputs)
check("all_to_all", torch.cat(outputs), [1.0, 3.0, 3.0] if rank == 0 else [2.0] * 3 + [4.0])

# point to point
if rank == 0:
    dist.send(full(7.0), 1)
    dist.send(full(8.0), 1)
else:
    x, y = full(0.0), full(0.0)
    dist.recv(x, 0)
    assert dist.recv(y) == 0  # from any source
    check("recv", torch.stack([x, y]), [[7.0] * 3, [8.0] * 3])
got = full(0.0)
for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, full(mine), 1 - rank), dist.P2POp(dist.irecv, got, 1 - rank)]):
    work.wait()
check("batch", got, [2.0 - rank] * 3)

# coalesced, objects, futures
several = [full(mine), full(2 * mine)]
with dist._coalescing_manager(device=device):
    for x in several:
        dist.all_reduce(x)
check("coalesced", torch.stack(several), [[3.0] * 3, [6.0] * 3])
with dist._coalescing_manager():
    for x in several:
        dist.all_reduce(x)
check("coalesced", torch.stack(several), [[6.0] * 3, [12.0] * 3])
objects = [None, None]
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": 0}, {"rank": 1}]
objects = ["from 0" if rank == 0 else None]
dist.broadcast_object_list(objects, 0)
assert objects == ["from 0"]
work = dist.all_reduce(full(mine), async_op=True)
check("future", work.get_future().then(lambda done: done.value()[0] / 2).wait(), [1.5] * 3)
x = torch.sparse_coo_tensor([[rank]], [mine], (2,), device=device)
dist.all_reduce(x)
check("sparse", x.to_dense().cpu(), [1.0, 2.0])
host = torch.ones(2) * mine
dist.all_reduce(host, dist.ReduceOp.AVG)
check("host", host, [1.5, 1.5])
dist.barrier()

# groups
alone = dist.split_group(split_ranks=[[0], [1]])
x = full(mine)
dist.all_reduce(x, group=alone)
check("split_group", x, [mine] * 3)
own, _ = dist.new_subgroups(1)  # each process is outside of one of the two groups
x = full(mine)
dist.all_reduce(x, group=own)
check("new_subgroups", x, [mine] * 3)
mesh = dist.init_device_mesh("ftm", (2, 1), mesh_dim_names=("data", "model"))
x = full(mine)
dist.all_reduce(x, group=mesh["data"].get_group())
check("mesh", x, [3.0] * 3)
from torch.distributed.tensor.debug import CommDebugMode
with CommDebugMode() as mode:
    dist.all_reduce(full(mine))
assert mode.get_total_counts() == 1
dist.destroy_process_group()
print("ok\\n", end="")  # in one write
"""
)


def test_collectives(torchrun) -> None:
    assert torchrun(COLLECTIVES) == "ok\nok\n"


ASYNC = (
    START
    + """
import time
dist.init_process_group("cpu:gloo,ftm:ftm")
store = dist.distributed_c10d._get_default_store()
if rank == 0:
    x = full(1.0)
    work = dist.all_reduce(x, async_op=True)
    independent = (full(2.0) * 3).tolist()  # runs while the collective is in flight
    assert independent == [6.0] * 3 and not work.is_completed()
    y = x * 2 + 1  # recorded, not waited for
    work.wait()  # as for CUDA, later operations are ordered behind the collective
    assert work.is_completed()  # the output can be used
    try:
        work.wait(__import__("datetime").timedelta(seconds=0.1))
        raise AssertionError("the peer has not come")
    except RuntimeError as error:
        assert "has not ended within 100 ms" in str(error)
    store.set("go", "1")
    check("dependent", y, [7.0] * 3)
else:
    store.wait(["go"])
    x = full(2.0)
    dist.all_reduce(x)
    check("late", x, [3.0] * 3)
host = torch.ones(1)
dist.all_reduce(host)  # of gloo
assert host.item() == 2.0
dist.destroy_process_group()
print("ok\\n", end="")  # in one write
"""
)


def test_collectives_are_asynchronous(torchrun) -> None:
    """Recording and independent programs go on while a collective waits for another process."""
    assert torchrun(ASYNC) == "ok\nok\n"


ERRORS = (
    START
    + """
dist.init_process_group(timeout=__import__("datetime").timedelta(seconds=3))
dist.all_reduce(full(1.0))
for call, message in (
    (lambda: dist.all_gather([full(0.0)] * 2, full(0.0, 4)), "this rank's output has"),
    (lambda: dist.reduce_scatter_tensor(full(0.0, 2), full(0.0, 5)), "there are 2 ranks"),
    (lambda: dist.reduce_scatter(full(0.0, 2), [full(0.0)] * 2), "there are 2 ranks"),
    (lambda: dist.all_reduce(full(1.0), dist.ReduceOp.BAND), "bitwise"),
    (lambda: torch.ones(1, device="ftm:2"), "invalid device ordinal"),
    (lambda: torch.ones(1, device="ftm:0") + torch.ones(1, device="ftm:1"), "at least two devices, ftm:0 and ftm:1"),
):
    try:
        call()
        raise AssertionError(message)
    except (RuntimeError, ValueError) as error:
        assert message in str(error), str(error)
if rank == 0:
    x = full(1.0)
    dist.all_reduce(x)  # rank 1 never comes
    try:
        x.tolist()
        raise AssertionError("no error")
    except RuntimeError as error:
        text = str(error)
        assert "all_reduce of Float[3], called at" in text and "program.py" in text, text
        assert "on rank 0 of 2 in group" in text and "no answer from rank 1" in text, text
    print("ok\\n", end="")  # in one write
else:
    __import__("time").sleep(8)
os._exit(0)
"""
)


def test_errors_name_the_call_and_the_missing_rank(torchrun) -> None:
    assert torchrun(ERRORS) == "ok\n"
