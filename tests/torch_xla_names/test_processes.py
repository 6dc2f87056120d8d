"""Several processes: ordinals, collectives, gradients, torch.distributed, exceptions."""

from __future__ import annotations

import subprocess
import sys

import torch

COMMON = """
import sys, torch
import torch.distributed as dist
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.runtime as xr
import torch_xla.distributed.xla_multiprocessing as xmp
import torch_xla.distributed.xla_backend
"""

UNCHANGED = ("-m", "ftm_lazy.torch_xla")

COLLECTIVES = (
    COMMON
    + """
def main(i, word):
    d = torch_xla.device()
    assert (xr.global_ordinal(), xr.local_ordinal(), xr.world_size(), word) == (i, i, 2, "word")
    x = torch.full((3,), i + 1.0, device=d)
    assert xm.all_reduce("sum", x).tolist() == [3.0] * 3 and xm.all_reduce("max", x, scale=2.0).tolist() == [4.0] * 3
    assert xm.all_reduce("sum", x, groups=[[0], [1]]).tolist() == [i + 1.0] * 3
    several = [torch.full((2,), i + 1.0, device=d), torch.full((2,), i + 1, device=d), torch.ones(1, dtype=torch.bfloat16, device=d)]
    assert xm.all_reduce(xm.REDUCE_SUM, several, scale=2.0) is several
    assert [t.tolist() for t in several] == [[6.0, 6.0], [6, 6], [4.0]]
    assert xm.all_reduce("or", torch.tensor([i == 0, False], device=d)).tolist() == [True, False]
    assert xm.all_gather(x[None], dim=1).tolist() == [[1, 1, 1, 2, 2, 2]]
    assert xm.reduce_scatter("sum", torch.arange(4.0, device=d), 1.0, 0, 2).tolist() == [[0, 2], [4, 6]][i]
    assert xm.all_to_all(torch.arange(4.0, device=d) + 10 * i, 0, 0, 2).tolist() == [[0, 1, 10, 11], [2, 3, 12, 13]][i]
    assert xm.collective_permute(x, [[0, 1], [1, 0]]).tolist() == [2.0 - i] * 3
    assert xm.collective_permute(x, [[0, 1]]).tolist() == [float(i)] * 3
    assert xm.mesh_reduce("tag", {"a": i + 1}, lambda each: sum(d["a"] for d in each)) == 3
    assert xm.rendezvous("tag", bytes([i] * (i + 1))) == [b"\\0", b"\\1\\1"] and xm.rendezvous("tag") == [b"", b""]
    assert xm.do_on_ordinals(lambda a: a, (7,), (1,)) == [None, 7][i]
    model = torch.nn.Linear(2, 2).to(d)
    xm.broadcast_master_param(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    before = model.weight.detach().cpu()
    model(torch.full((1, 2), float(i), device=d)).sum().backward()
    xm.optimizer_step(optimizer)
    assert torch.allclose(model.weight.cpu(), before - 0.5)
    xm.save(i, f"saved-{i}")
    xm.master_print("ok")

if __name__ == "__main__":
    torch_xla.launch(main, args=("word",))
    import os
    print(sorted(name for name in os.listdir() if name.startswith("saved")))
"""
)


def test_collectives(run_unchanged):
    assert run_unchanged(COLLECTIVES, CPU_NUM_DEVICES="2") == "ok\n['saved-0']\n"


DISTRIBUTED = (
    COMMON
    + """
from torch.distributed.fsdp import fully_shard
from torch_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer

def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

def main(i):
    d = torch_xla.device()
    dist.init_process_group("xla", init_method="xla://")
    assert dist.get_rank() == i and dist.get_backend() == "xla"
    t = torch.ones(2, device=d) * (i + 1)
    dist.all_reduce(t)
    gathered, part = torch.empty(4, device=d), torch.empty(1, device=d)
    dist.all_gather_into_tensor(gathered, torch.ones(2, device=d) * i)
    dist.reduce_scatter_tensor(part, torch.arange(2.0, device=d), op=dist.ReduceOp.AVG)
    assert (t.tolist(), gathered.tolist(), part.tolist()) == ([3, 3], [0, 0, 1, 1], [float(i)])
    if i == 0:
        dist.send(torch.full((2,), 5.0, device=d), 1)
    else:
        received = torch.empty(2, device=d)
        dist.recv(received, 0)
        assert received.tolist() == [5, 5]
    objects = [None, None]
    dist.all_gather_object(objects, i)
    assert objects == [0, 1]

    alone = net()
    models = {"ddp": torch.nn.parallel.DistributedDataParallel(net().to(d)), "fsdp": fully_shard(net().to(d)), "zero": net().to(d)}
    makers = {name: torch.optim.AdamW(m.parameters(), lr=0.1) for name, m in (("cpu", alone), *models.items())}
    makers["zero"] = ZeroRedundancyOptimizer(models["zero"].parameters(), torch.optim.AdamW, grad_clipping=False, lr=0.1)
    for step in range(3):
        x = torch.randn(6, 4, generator=torch.Generator().manual_seed(step))
        losses = {}
        for name, optimizer in makers.items():
            optimizer.zero_grad()
            loss = (alone(x) if name == "cpu" else models[name](x[3 * i : 3 * i + 3].to(d))).square().mean()
            loss.backward()
            optimizer.step()
            losses[name] = xm.mesh_reduce(name, loss.item(), lambda each: sum(each) / 2)
        assert max(losses.values()) - min(losses.values()) < 1e-5, losses
    xm.master_print("ok")

if __name__ == "__main__":
    xmp.spawn(main, nprocs=2)
"""
)


def test_torch_distributed(run_unchanged):
    assert run_unchanged(DISTRIBUTED) == "ok\n"


TORCHRUN = (
    COMMON
    + """
def main(i, path):
    assert (xr.global_ordinal(), xr.world_size()) == (i, 2)
    weight = torch.nn.Parameter(torch.zeros(2, device="xla"))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    (weight * (i + 1)).sum().backward()
    xm.optimizer_step(optimizer)
    assert weight.tolist() == [-1.5, -1.5]
    xm.save(xm.mesh_reduce("seen", i, list), path)

if __name__ == "__main__":
    torch_xla.launch(main, args=(sys.argv[1],))
"""
)


def test_torchrun_without_python(tmp_path):
    (tmp_path / "program.py").write_text(TORCHRUN)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--no-python"]
    program = [
        sys.executable,
        "-W",
        "ignore",
        *UNCHANGED,
        str(tmp_path / "program.py"),
        str(tmp_path / "seen"),
    ]
    done = subprocess.run(
        [*torchrun, *program], capture_output=True, text=True, timeout=300, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert torch.load(tmp_path / "seen") == [0, 1]


def test_an_exception_ends_all(run_unchanged):
    program = (
        COMMON
        + """
def main(i):
    if i == 1:
        raise ValueError("broke")
    xm.rendezvous("never")

if __name__ == "__main__":
    xmp.spawn(main, nprocs=2)
"""
    )
    said = run_unchanged(program, code=1)
    assert (
        "ProcessRaisedException" in said
        and 'raise ValueError("broke")' in said
        and "ValueError: broke" in said
    )


def test_one_process_is_this_one():
    import ftm_lazy.torch_xla as torch_xla
    import ftm_lazy.torch_xla.distributed.xla_multiprocessing as xmp

    assert (
        xmp.MpModelWrapper(torch.nn.Linear(2, 1)).to(torch_xla.device()).weight.device.type == "ftm"
    )
    assert xmp.MpSerialExecutor().run(lambda: 5) == 5

    seen = []
    torch_xla.launch(lambda *args: seen.append(args), args=("a",))
    xmp.spawn(lambda *args: seen.append(args), nprocs=1)
    assert seen == [(0, "a"), (0,)]
