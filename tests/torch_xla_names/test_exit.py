"""A process exits with status 0 while threads of gloo, a loader, autograd or the launcher run.

Each program keeps to one core, and lets its other threads run only while the main one waits. So
they are late, as on a host that is busy: what a thread does after it has told its result would come
when the interpreter is being taken down.
"""

from __future__ import annotations

import os

import pytest

pytestmark = pytest.mark.skipif(
    not hasattr(os, "SCHED_IDLE"), reason="threads are made late by the scheduler of Linux"
)

LATE = """
import os, sys, tempfile, torch
import torch.distributed as dist
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.xla_multiprocessing as xmp

def make_late():
    core = max(os.sched_getaffinity(0))
    for thread in map(int, os.listdir("/proc/self/task")):
        os.sched_setaffinity(thread, {core})
        if thread != os.getpid():
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
"""

COLLECTIVES = {
    "torch.distributed": """
    dist.init_process_group("xla", init_method="file://" + path, rank=i, world_size=2)
    dist.all_reduce(x)
    make_late()
    dist.all_reduce(x)
""",
    "xla_model": """
    xm.rendezvous("first")
    make_late()
    xm.mesh_reduce("loss", x, lambda each: each)
""",
}

SPAWN = """
import torch_xla.distributed.xla_backend

def main(i, path):
    x = torch.ones(1000)
{body}
if __name__ == "__main__":
    xmp.spawn(main, (tempfile.mktemp(),), nprocs=2)
    print("ended")
"""


@pytest.mark.parametrize("way", COLLECTIVES)
def test_behind_a_collective(run_unchanged, way):
    assert run_unchanged(LATE + SPAWN.replace("{body}", COLLECTIVES[way])) == "ended\n"


LOADER = """
import threading
data = torch.utils.data.TensorDataset(torch.randn(64000, 64), torch.arange(64000))
loader = pl.MpDeviceLoader(torch.utils.data.DataLoader(data, batch_size=512), "xla")
for index, _ in enumerate(loader):
    if index == 17:
        assert any(thread.name == "ftm upload" for thread in threading.enumerate())
        make_late()
    if index == 20:
        break
print("ended")
"""

BACKWARD = """
model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4))).to("xla")
for late in (False, True):
    if late:
        make_late()
    model(torch.randn(4, 8, device="xla")).sum().backward()
    torch_xla.sync()
print("ended")
"""

COMPILATION = """
x = torch.randn(4, 8, device="xla")
torch_xla.sync()
make_late()
y = (x.sin() @ x.T).softmax(0)
xm.add_step_closure(lambda: y.tolist(), run_async=True)
torch_xla.sync()
print("ended")
"""


UNAWAITED = (
    "from ftm_lazy.torch_xla.distributed import parallel_loader\nparallel_loader._GRACE = 0.0\n"
    + LOADER
)
"""As where a thread does not come to run within the time that the end of the process waits for
it."""


@pytest.mark.parametrize(
    "program",
    [LOADER, UNAWAITED, BACKWARD, COMPILATION],
    ids=["loader", "unawaited", "backward", "compilation"],
)
def test_in_the_midst_of_work(run_unchanged, tmp_path, program):
    for _ in range(2 if program == COMPILATION else 1):  # the second one finds it on disk
        assert run_unchanged(LATE + program, FTM_CACHE_DIR=str(tmp_path)) == "ended\n"


LATER = """
import ftm_lazy.distributed.process_group
group = ftm_lazy.distributed.process_group.create(dist.HashStore(), 0, 1, __import__("datetime").timedelta(seconds=10))
group.shutdown()
group.barrier()
"""


def test_a_collective_of_a_group_that_has_ended(run_unchanged):
    assert "has been shut down" in run_unchanged(LATE + LATER, code=1)
