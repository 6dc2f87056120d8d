"""Profiles of real programs: names, times that add up, torch.profiler, memory, advice."""

import json
import pickle
import re
from collections import OrderedDict

import pytest
import torch
from torch.autograd import DeviceType
from torch.cuda import _memory_viz as memory_viz
from torch.utils.checkpoint import checkpoint

import ftm_lazy
from ftm_lazy.profiler.views import shorten_name
from python_process import run_python
from runtime import profiled_programs
from runtime.profiled_programs import network, trainer


@pytest.fixture(scope="module")
def profiled():
    step = trainer(network())
    for _ in range(3):
        step()
    ftm_lazy.sync(wait=True)
    before = ftm_lazy.metrics.counters()["compiles"]
    with ftm_lazy.profile() as made:
        for _ in range(3):
            step()
    assert ftm_lazy.metrics.counters()["compiles"] == before, "a profile compiles nothing again"
    return made


@pytest.mark.alone  # measured times are compared
@pytest.mark.parametrize("slow", [0, 1, 2])
def test_the_slowest_layer_is_the_first_line(slow):
    step = trainer(network(slow), batch=2048)
    step()
    with ftm_lazy.profile() as made:
        for _ in range(5):  # so that an interruption of the process does not decide
            step()
    first = str(made).splitlines()[1]
    assert first.startswith(f"{slow}."), str(made)


def test_kernels_have_modules_lines_and_directions(profiled):
    kernels = profiled.events.kernels
    assert {"0.enter", "2.leave", "3"} <= {kernel.module for kernel in kernels}
    assert profiled.attributed > 0.8  # the loss is outside of modules
    forward = {k.module for k in kernels if not k.is_backward}
    backward = {k.module for k in kernels if k.is_backward}
    assert "1.enter" in forward and "1.enter" in backward
    own = [k for k in kernels if k.module == "1.enter"]
    assert all(k.line.startswith(profiled_programs.__file__) for k in own)
    assert any("mm" in k.ops and k.name.startswith("1.enter ") for k in own)


def test_gradients_of_a_convolution_before_batch_norm_have_its_name():
    """Batch norm counts its batches, by a call that no gradient belongs to."""
    conv, norm = torch.nn.Conv2d(4, 8, 3), torch.nn.BatchNorm2d(8)
    model = torch.nn.Sequential(OrderedDict(conv=conv, norm=norm, act=torch.nn.ReLU())).to("ftm")
    x = torch.randn(2, 4, 16, 16).to("ftm")
    with ftm_lazy.profile() as made:
        model(x).square().mean().backward()
        ftm_lazy.sync(wait=True)
    gradients = [k for k in made.events.kernels if "convolution_backward" in k.ops]
    assert gradients and all(k.module == "conv" and k.is_backward for k in gradients)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.exp()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * torch.cumsum(x, 0)


class Scaling(torch.nn.Module):
    def forward(self, x):
        return Scale.apply(x)


def test_gradients_of_a_custom_function_have_the_name_of_its_module():
    layers = OrderedDict(
        enter=torch.nn.Linear(8, 8), scaling=Scaling(), leave=torch.nn.Linear(8, 8)
    )
    model = torch.nn.Sequential(layers).to("ftm")
    x = torch.randn(16, 8).to("ftm")
    with ftm_lazy.profile() as made:
        model(x).square().mean().backward()
        ftm_lazy.sync(wait=True)
    (kernel,) = [k for k in made.events.kernels if "cumsum" in k.ops]
    assert kernel.module == "scaling" and kernel.is_backward


class Checkpointed(torch.nn.Module):
    def __init__(self, use_reentrant):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Softplus())
        self.use_reentrant = use_reentrant

    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=self.use_reentrant)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_checkpointed_module_has_its_name_when_it_runs_again_and_in_its_gradients(use_reentrant):
    layers = OrderedDict(enter=torch.nn.Linear(8, 8), again=Checkpointed(use_reentrant))
    model = torch.nn.Sequential(layers).to("ftm")
    x = torch.randn(16, 8).to("ftm")
    with ftm_lazy.profile() as made:
        model(x).square().mean().backward()
        ftm_lazy.sync(wait=True)
    (again,) = [k for k in made.events.kernels if "softplus" in k.ops]
    assert again.module == "again.inner.0" and not again.is_backward
    gradients = {k.module for k in made.events.kernels if k.is_backward and k.ops == "mm"}
    assert gradients == {"again.inner.0", "enter"}


def test_gradients_of_gradients_have_the_name_of_their_module():
    model = torch.nn.Sequential(OrderedDict(enter=torch.nn.Linear(8, 8), act=torch.nn.Tanh()))
    weight = model.to("ftm").enter.weight
    x = torch.randn(16, 8).to("ftm")
    with ftm_lazy.profile() as made:
        (gradient,) = torch.autograd.grad(model(x).sum(), weight, create_graph=True)
        gradient.square().sum().backward()
        ftm_lazy.sync(wait=True)
    products = [k for k in made.events.kernels if "mm" in k.ops.split("+")]
    assert len(products) > 1 and {k.module for k in products} <= {"enter", "act"}


def test_a_profile_lets_torch_compile_keep_its_code():
    from torch._dynamo.utils import counters

    model = torch.compile(torch.nn.Sequential(torch.nn.Linear(8, 8)).to("ftm"), backend="ftm")
    x = torch.randn(4, 8).to("ftm")
    model(x).sum().item()
    before = counters["stats"]["unique_graphs"]
    with ftm_lazy.profile():
        model(x).sum().item()
    assert counters["stats"]["unique_graphs"] == before


def test_a_deleted_module_leaves_no_name():
    x = torch.randn(4, 8).to("ftm")
    with ftm_lazy.profile() as made:
        for kind in (torch.nn.Linear, torch.nn.Bilinear) * 4:
            own = kind(8, 8).to("ftm") if kind is torch.nn.Linear else kind(8, 8, 8).to("ftm")
            own(x).sum().cpu() if kind is torch.nn.Linear else own(x, x).sum().cpu()
            del own
    assert {k.module for k in made.events.kernels} <= {"Linear", "Bilinear", ""}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("0.enter mm+relu", "0.enter mm+relu"),
        ("add", "add"),
        (
            "resnet.encoder.stages.3.layers.1.layer.1.convolution "
            "convolution_backward+mul+lerp+addcmul+sqrt+div+... (backward)",
            "...layers.1.layer.1.convolution convolution_backwa... (backward)",
        ),
    ],
)
def test_a_short_name_keeps_the_layer_and_the_first_operation(name, shown):
    assert shorten_name(name, 64) == shown


def test_times_add_up(profiled):
    for run in profiled.events.runs:
        own = [k for k in profiled.events.kernels if profiled.events.runs[k.run] is run]
        assert sum(k.time for k in own) <= run.end - run.begin
        assert all(run.begin <= k.begin <= k.end <= run.end for k in own)
    for step in profiled.steps:
        parts = (step.recording, step.launching, step.waiting, step.compiling, step.copying)
        assert sum(parts) == step.wall == step.running + step.idle
        assert min(*parts, step.running, step.idle) >= 0
    assert len(profiled.steps) == 3 and sum(step.programs for step in profiled.steps) >= 3


def test_memory_has_weights_and_saved_values(profiled):
    peak = profiled.memory()
    kinds = {held.kind for held in peak.holdings}
    assert "weights" in kinds and peak.bytes == sum(held.bytes for held in peak.holdings)
    weights = sum(held.bytes for held in peak.holdings if held.kind == "weights")
    numbers = sum(p.numel() for p in network().parameters())
    assert weights >= 4 * numbers


def test_profiles_do_not_nest():
    again = ftm_lazy.profile()
    with ftm_lazy.profile(), pytest.raises(RuntimeError, match="recorded already"):
        again.__enter__()
    with ftm_lazy.profile() as made:
        (torch.ones(4, device="ftm") + 1).sum().item()
    assert made.events.kernels


def test_a_failing_block_ends_the_profile():
    with pytest.raises(ZeroDivisionError), ftm_lazy.profile():
        raise ZeroDivisionError
    with ftm_lazy.profile():
        pass


def test_reads_in_every_step_are_found():
    step = trainer(network(slow=1))  # so the read waits
    step()
    with ftm_lazy.profile() as made:
        for _ in range(4):
            step().item()
    (found,) = [each for each in made.advice() if "is read" in each.what]
    assert found.line.startswith(__file__)
    assert "is read" in ftm_lazy.metrics.report()


def test_torch_profiler_links_kernels_to_operations(tmp_path):
    step = trainer(network())
    step()
    whole = torch.profiler.profile(with_stack=True, record_shapes=True)
    with whole as made, torch.profiler.record_function("one step"):
        step()
    on_device = [e for e in made.events() if e.device_type == DeviceType.PrivateUse1]
    assert any(e.name.startswith("0.enter ") for e in on_device)
    times = {e.key: e.self_device_time_total for e in made.key_averages()}
    assert times["aten::addmm"] > 0 and times["aten::mm"] > 0
    made.export_chrome_trace(str(tmp_path / "t.json"))
    rows = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    kernels = [row for row in rows if row.get("cat") == "kernel"]
    assert kernels and all(row["args"]["stream"] == 0 for row in kernels)
    assert any(row["args"]["module"] == "0.enter" for row in kernels)
    names = {row["args"].get("name") for row in rows if row.get("name") == "thread_name"}
    assert {"kernels", "ranges", "core 0"} <= names
    ranges = [row for row in rows if row.get("cat") == "gpu_user_annotation"]
    assert any(row["name"] == "one step" for row in ranges)
    runtime = {row["name"] for row in rows if row.get("cat") == "privateuse1_runtime"}
    assert {"ftm launch", "ftm wait for all programs"} <= runtime


def test_torch_profiler_counts_memory_of_tensors():
    with torch.profiler.profile(profile_memory=True) as made:
        tensor = torch.ones(1024, device="ftm")
        tensor = tensor + 1
    assert sum(event.self_device_memory_usage for event in made.events()) >= 4096
    del tensor


def test_locations_name_the_module_in_an_error(monkeypatch):
    from ftm_lazy import _C
    from ftm_lazy.profiler import module_hooks

    embedding = torch.nn.Sequential(torch.nn.Embedding(4, 2)).to("ftm")
    indices = torch.arange(8).to("ftm") + 1
    _C._set_debug_locations(True)
    module_hooks.install()
    try:
        with pytest.raises(IndexError, match=r"test_profiler.py:\d+ in module 0"):
            embedding(indices).sum().item()
    finally:
        module_hooks.remove()
        _C._set_debug_locations(False)


def test_memory_history_is_in_the_format_of_pytorchs_viewer(tmp_path):
    step = trainer(network())
    step()
    torch.ftm.memory._record_memory_history()
    step()
    torch.ftm.memory._dump_snapshot(str(tmp_path / "s.pickle"))
    torch.ftm.memory._record_memory_history(None)
    found = pickle.loads((tmp_path / "s.pickle").read_bytes())
    assert sum(s["total_size"] for s in found["segments"]) > 0
    (trace,) = found["device_traces"]
    assert {entry["action"] for entry in trace} == {"alloc", "free_completed"}
    frames = [frame for entry in trace for frame in entry["frames"]]
    assert any(
        f["filename"] == profiled_programs.__file__ and f["name"].startswith("0.enter")
        for f in frames
    )
    page = memory_viz.trace_plot(found)
    assert "<html" in page or "<script" in page


def test_assembly_and_profile_name_kernels_after_the_same_operations():
    x = torch.randn(64, 32).to("ftm")

    def scaled():
        return torch.nn.functional.layer_norm(x, (32,)).softmax(1).cumsum(0)

    calls = re.findall(r"@call .*// (.+)", ftm_lazy.debug.text(scaled(), "asm"))
    with ftm_lazy.profile() as made:
        scaled().cpu()
    assert calls == [kernel.ops for kernel in made.events.kernels]
    assert calls == ["layer_norm+softmax", "cumsum"]


FIRST_PROFILE = """
import torch
with torch.profiler.profile(with_stack=True) as profile:
    torch.ones(3).sum()
print(len(profile.key_averages()) > 0)
"""


def test_nothing_is_imported_while_python_functions_are_traced():
    """PyTorch's tracer would keep names in the code of modules, which is freed."""
    assert run_python(FIRST_PROFILE).stdout.splitlines()[-1] == "True"
