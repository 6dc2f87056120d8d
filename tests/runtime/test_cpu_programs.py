"""A program for the CPU gives the same whether or not ftm is installed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from runtime import cpu_programs


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, dict[str, object]]:
    """For each value of TORCH_DEVICE_BACKEND_AUTOLOAD: program -> what it gives in a process that
    runs them all."""
    folder = tmp_path_factory.mktemp("results")
    processes = {
        autoload: subprocess.Popen(
            [sys.executable, cpu_programs.__file__, folder / autoload],
            env=os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": autoload},
            stderr=subprocess.DEVNULL,
        )
        for autoload in "01"
    }
    assert [process.wait(300) for process in processes.values()] == [0, 0]
    return {autoload: json.loads(Path(folder, autoload).read_text()) for autoload in processes}


@pytest.mark.parametrize("name", cpu_programs.PROGRAMS)
def test_same_with_and_without_ftm(results, name):
    if "Found no NVIDIA driver" in str(results["0"][name]):
        pytest.skip("this build of PyTorch looks for a GPU, and fails without one")
    assert results["1"][name] == results["0"][name]


@pytest.mark.parametrize("device", ["cpu", "ftm"])
def test_data_parallel_on_ftm(device):
    """Once the device is in use, inputs move to the module's device, as on a GPU, and results stay
    there."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    expected = model(cpu_programs.batch())
    parallel = nn.DataParallel(model.to("ftm"))
    assert parallel.device_ids == [0]
    x = cpu_programs.batch().to(device).requires_grad_()
    y = parallel(x)
    y.square().sum().backward()
    assert y.device.type == "ftm" and x.grad.device.type == device
    torch.testing.assert_close(y.cpu(), expected)
    assert model[0].weight.grad.device.type == "ftm"


def test_functions_of_nn_parallel_on_ftm():
    model, x = nn.Linear(4, 3).to("ftm"), torch.ones(2, 4, device="ftm")
    torch.testing.assert_close(nn.parallel.data_parallel(model, x), model(x))
    (replica,) = nn.parallel.replicate(model, [0])
    (part,) = nn.parallel.scatter(x, [0])
    (y,) = nn.parallel.parallel_apply([replica], [(part,)])
    gathered = nn.parallel.gather([y], "cpu")
    assert gathered.device.type == "cpu"
    torch.testing.assert_close(gathered, model(x).cpu())
