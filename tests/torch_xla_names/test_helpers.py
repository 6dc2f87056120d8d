"""Helpers: files, queues, environment variables, exports, one-device meshes, ordinals."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from torch import nn

import ftm_lazy.torch_xla as torch_xla
import ftm_lazy.torch_xla.core.functions as xf
import ftm_lazy.torch_xla.core.xla_model as xm
import ftm_lazy.torch_xla.distributed.spmd as xs
import ftm_lazy.torch_xla.runtime as xr
import ftm_lazy.torch_xla.test.test_utils as test_utils
import ftm_lazy.torch_xla.utils.utils as xu
from ftm_lazy.torch_xla.stablehlo import (
    StableHLOGraphModule,
    exported_program_to_stablehlo,
    save_as_stablehlo,
)
from ftm_lazy.torch_xla.utils import dlpack, serialization
from ftm_lazy.torch_xla.utils.keyd_queue import KeydQueue, Queue
from python_process import run_python

# --- one process
# --------------------------------------------------------------------------------------------


def test_one_process_is_a_world():
    ordinals = (
        xr.global_ordinal(),
        xr.local_ordinal(),
        xr.process_index(),
        xr.host_index(),
        xm.get_local_ordinal(),
    )
    counts = (
        xr.world_size(),
        xr.process_count(),
        xr.local_process_count(),
        xr.global_device_count(),
        xr.addressable_device_count(),
    )
    assert (
        ordinals == (0,) * 5
        and counts == (1,) * 5
        and xm.is_master_ordinal()
        and xm.is_master_ordinal(local=False)
    )
    assert (
        xr.device_type(),
        xm.xla_device_hw("ftm"),
        torch_xla.real_devices(),
        torch_xla.device_count(),
    ) == ("FTM", "FTM", ["FTM:0"], 1)
    assert xr.is_bf16_supported() and xm.get_xla_supported_devices() == ["ftm:0"]
    x = torch.ones(2, device="ftm")
    assert xm.all_reduce("sum", x).tolist() == xm.all_gather(x).tolist() == [
        1,
        1,
    ] and xm.mesh_reduce("t", x, sum).tolist() == [1, 1]
    assert (
        xm.get_memory_info()["bytes_used"] > 0
        and xm.do_on_ordinals(lambda a: a.device.type, (x,)) == "cpu"
    )


def test_the_cache_is_ours(tmp_path):
    program = f"""
import os, torch, ftm_lazy.torch_xla.runtime as xr
xr.initialize_cache({str(tmp_path / "cache")!r})
(torch.ones(3, device="ftm") * 2).cpu()
try:
    xr.initialize_cache("elsewhere")
except AssertionError as error:
    print(error, len(os.listdir({str(tmp_path / "cache")!r})) > 0, xr.get_num_cached_compilation_graph())
"""
    done = run_python(program)
    assert done.stdout == "Computation cache has already been initialized True 1\n", done.stderr


def test_an_autograd_of_collectives():
    x = torch.ones(2, 3, device="ftm", requires_grad=True)
    (xf.all_reduce("sum", x) * 2).sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2
    assert xf.SyncBatchNorm(3).to("ftm")(x).shape == (2, 3)


# --- structures and files
# -----------------------------------------------------------------------------------


def test_structures(capsys):
    samples = xu.SampleGenerator(data=(torch.ones(2), torch.zeros(1)), sample_count=3)
    assert len(samples) == 3 and len(list(samples)) == 3
    assert (
        xu.as_list(5) == [5]
        and xu.as_list((1, 2)) == (1, 2)
        and xu.flatten_nested_tuple(((1, (2,)), 3)) == (1, 2, 3)
    )
    found = []
    xu.for_each_instance(
        {"a": [1, (2.5, "x")]}, lambda value: isinstance(value, (int, float)), found.append
    )
    assert found == [1, 2.5] and xu.for_each_instance_rewrite(
        [1, [2]], lambda v: isinstance(v, int), lambda v: v + 1
    ) == [2, [3]]
    test_utils.print_training_update("ftm:0", 3, 0.5, 10.0, 20.0, epoch=1)
    assert (
        "Training Device=ftm:0/0 Epoch=1 Step=3 Loss=0.50000 Rate=10.00 GlobalRate=20.00"
        in capsys.readouterr().out
    )
    tracker = xm.RateTracker(smooth_factor=0.0)
    tracker.add(10)
    assert tracker.rate() > 0 and tracker.global_rate() > 0


def test_the_environment(monkeypatch):
    monkeypatch.setenv("A_NUMBER", "5")
    monkeypatch.setenv("A_FLAG", "true")
    assert xu.getenv_as("A_NUMBER", int) == 5 and xu.getenv_as("NOT_THERE", int, 7) == 7
    assert xu.check_env_flag("A_FLAG") and not xu.check_env_flag("NOT_THERE")


def test_serialization(tmp_path):
    data = {
        "weight": torch.arange(4.0, device="ftm"),
        "step": 3,
        "pair": [torch.ones(1, device="ftm"), "x"],
    }
    serialization.save(data, tmp_path / "file")
    back = serialization.load(tmp_path / "file")
    assert (
        back["weight"].tolist() == [0, 1, 2, 3]
        and back["weight"].device.type == "cpu"
        and (back["step"], back["pair"][1]) == (3, "x")
    )
    assert len(list((tmp_path / "file.tensors").iterdir())) == 2


def test_dlpack():
    x = torch.arange(3.0).to("ftm")
    assert np.from_dlpack(x.cpu()).tolist() == [0, 1, 2]
    assert dlpack.from_dlpack(dlpack.to_dlpack(x)).tolist() == [0, 1, 2]


def test_queues():
    queue, got = Queue(maxsize=2), []

    def read():
        while (item := queue.get()) is not None:
            got.append(item)

    readers = [threading.Thread(target=read) for _ in range(2)]
    writers = [
        threading.Thread(target=lambda start=start: [queue.put(start + i) for i in range(1, 101)])
        for start in (0, 100)
    ]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join(30)
    queue.close_write()
    for thread in readers:
        thread.join(30)
    assert sorted(got) == list(range(1, 201))
    full = Queue(maxsize=1)
    full.put(1)
    waiting = threading.Thread(target=full.put, args=(2,))
    waiting.start()
    full.close()
    waiting.join(30)
    assert not waiting.is_alive() and full.get() == 1 and full.get() is None
    keyed = KeydQueue(maxsize=2)
    keyed.put("a", 1)
    keyed.put("b", 2)
    assert (keyed.get("b"), keyed.get("a")) == (2, 1)


# --- exports
# ------------------------------------------------------------------------------------------------


def test_stablehlo(tmp_path):
    model, x = nn.Sequential(nn.Linear(4, 3), nn.ReLU()), torch.randn(2, 4)
    exported = torch.export.export(model, (x,))
    program = exported_program_to_stablehlo(exported)
    assert (
        "stablehlo.dot" in program.get_stablehlo_text("forward")
        and program.get_stablehlo_bytecode("forward")[:4] == b"ML\xefR"
    )
    torch.testing.assert_close(program(x), model(x))
    save_as_stablehlo(exported, tmp_path / "saved")
    torch.testing.assert_close(StableHLOGraphModule.load(tmp_path / "saved")(x), model(x))


# --- one device of a mesh
# -----------------------------------------------------------------------------------


def test_a_mesh_of_one():
    mesh = xs.Mesh(np.array([0]), (1, 1), ("data", "model"))
    x = torch.ones(2, 3, device="ftm")
    sharded = xs.mark_sharding(x, mesh, ("data", None))
    assert (
        isinstance(sharded, xs.XLAShardedTensor)
        and sharded.sum().item() == 6
        and len(sharded.local_shards) == 1
    )
    assert xs.clear_sharding(sharded) is not None
    with pytest.raises(ValueError, match="Partition spec"):
        xs.mark_sharding(x, mesh, ("data",))
    with pytest.raises(NotImplementedError, match=r"torch_xla\.launch"):
        xs.Mesh(np.arange(4), (2, 2), ("data", "model"))
