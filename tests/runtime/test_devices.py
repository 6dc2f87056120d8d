"""Several devices in one process: FTM_DEVICES."""

from __future__ import annotations

import subprocess

from python_process import Program


def _run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process that imports ftm: the import reads the number of devices."""
    return Program(code, at_import=environment).wait(300)


DEVICES = """
import torch

assert torch.ftm.device_count() == torch.accelerator.device_count() == 2
first, second = torch.device("ftm:0"), torch.device("ftm:1")
x = torch.arange(3.0).to("ftm")
y = x.to(second)
assert (x.device, y.device, (y * 2).device, y[1:].device, y.sum().device) == (first, *[second] * 4)
assert (y * 2).tolist() == [0.0, 2.0, 4.0] and (y.to(first) + x).tolist() == [0.0, 2.0, 4.0]
assert torch.zeros_like(y).device == torch.rand(2, device=second).device == second
with torch.ftm.device(1):
    assert torch.ones(2, device="ftm").device == second and torch.ftm.current_device() == 1
assert torch.ones(2, device="ftm").device == first
torch.ftm.set_device(second)
assert torch.ones(2, device="ftm").device == second and (x + 1).device == first
assert torch.ftm.current_stream().device == second
for wrong in (lambda: x + y, lambda: torch.cat([x, y]), lambda: x @ y):
    try:
        wrong()
        raise AssertionError("operands on two devices")
    except RuntimeError as error:
        assert "at least two devices, ftm:0 and ftm:1!" in str(error), error
for wrong in (lambda: torch.ones(1, device="ftm:2"), lambda: torch.ftm.set_device(2), lambda: x.to("ftm:2")):
    try:
        wrong()
        raise AssertionError("no such device")
    except RuntimeError as error:
        assert "invalid device ordinal" in str(error), error

torch.manual_seed(5)
same = torch.rand(3, device=first), torch.rand(3, device=second)
assert same[0].tolist() == same[1].tolist()  # a generator for each device
torch.rand(3, device=first)
assert torch.rand(3, device=first).tolist() != torch.rand(3, device=second).tolist()

# model parallelism by hand, with gradients that cross devices
head, body = torch.nn.Linear(2, 1).to(second), torch.nn.Linear(3, 2).to(first)
head(body(torch.ones(4, 3, device=first)).relu().to(second)).sum().backward()
assert body.weight.grad.device == first and head.weight.grad.device == second
assert body.weight.grad.isfinite().all().item()
print("ok")
"""


def test_several_devices() -> None:
    done = _run(DEVICES, FTM_DEVICES="2")
    assert done.stdout == "ok\n", done.stderr


COMPILED = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(4, 3)

    def forward(self, x):
        return self.embedding(torch.arange(4, device=x.device)) * x + torch.rand(3, device=x.device)

for current in (0, 1):
    torch.ftm.set_device(current)
    for index in (1, 0):
        device = torch.device("ftm", index)
        model, x = Model().to(device), torch.ones(4, 3, device=device)
        torch._dynamo.reset()
        for call in (torch.compile(model), model):
            torch.ftm.manual_seed_all(3)
            model.zero_grad()
            result = call(x)
            result.sum().backward()
            assert result.device == model.embedding.weight.grad.device == device, result.device
            assert model.embedding.weight.grad.tolist() == [[1.0] * 3] * 4
            if call is not model:
                compiled = result
        assert torch.equal(compiled, result)
print("ok")
"""


def test_compiled_model_runs_on_the_device_of_its_inputs() -> None:
    done = _run(COMPILED, FTM_DEVICES="2")
    assert done.stdout == "ok\n", done.stderr


def test_torchrun_gives_one_for_each_process() -> None:
    code = "import torch; print(torch.ftm.device_count(), torch.ones(1, device='ftm:2').device)"
    done = _run(code, LOCAL_RANK="2", LOCAL_WORLD_SIZE="3")
    assert done.stdout == "3 ftm:2\n", done.stderr


POOLS = """
import torch

first, second = torch.device("ftm:0"), torch.device("ftm:1")

def used(device):
    torch.ftm.synchronize()
    return torch.ftm.memory_allocated(device), torch.ftm.memory_stats(device)["active_bytes.all.current"]

def grew(device, before):
    return tuple(now - then for now, then in zip(used(device), before))

bytes = 4 << 20
before = used(first), used(second)
x = torch.full((1 << 20,), 2.0, device=second) * 3
assert grew(first, before[0]) == (0, 0) and grew(second, before[1]) == (bytes, bytes)
y = torch.ones(1 << 20).to(first)
assert grew(first, before[0]) == (bytes, bytes) and grew(second, before[1]) == (bytes, bytes)
assert {segment["device"] for segment in torch.ftm.memory_snapshot()} == {0, 1}
del x
assert grew(first, before[0]) == (bytes, bytes) and grew(second, before[1]) == (0, 0)
assert torch.ftm.max_memory_allocated(second) >= bytes
torch.ftm.reset_peak_memory_stats(second)
assert torch.ftm.max_memory_allocated(second) == torch.ftm.memory_allocated(second)
assert torch.ftm.max_memory_allocated(first) >= bytes

torch.ftm.set_per_process_memory_fraction(1e-6, second)
assert torch.ftm.get_per_process_memory_fraction(first) == 1.0
(y + 1).sum().item()
try:
    (torch.ones(1 << 20).to(second) + 1).sum().item()
    raise AssertionError("memory of the second device")
except torch.OutOfMemoryError as error:
    assert "set_per_process_memory_fraction" in str(error)
assert torch.ftm.memory_stats(first)["num_ooms"] == 0 != torch.ftm.memory_stats(second)["num_ooms"]
print(torch.ftm.mem_get_info(first)[1] + torch.ftm.mem_get_info(second)[1])
"""


def test_each_device_has_its_memory_pool() -> None:
    """And an equal share of the memory."""
    done = _run(POOLS, FTM_DEVICES="2")
    assert done.returncode == 0, done.stderr
    one = _run("import torch\nprint(torch.ftm.mem_get_info()[1])", FTM_DEVICES="1")
    assert 0 <= int(one.stdout) - int(done.stdout) < 2
