"""Programs run unchanged: ``python -m ftm_lazy.torch_xla script.py``."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
UNCHANGED = ("-m", "ftm_lazy.torch_xla")

NAMES = """
import importlib.metadata, importlib.util, sys
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch_xla import runtime as xr
from torch_xla.core import xla_builder
import ftm_lazy.torch_xla.core.xla_model as same

assert xm is same and xm.__spec__.name == "ftm_lazy.torch_xla.core.xla_model"
assert sys.modules["torch_xla"] is torch_xla and torch_xla.core.xla_model is xm
assert importlib.metadata.version("torch_xla") == "2.9.0" == torch_xla.__version__
assert importlib.util.find_spec("torch_xla.no_such_module") is None
x = torch.ones(2, 3, device="xla")
assert x.device == torch.device("xla", 0) == torch_xla.device() and str(x.device) == "xla:0"
assert x.is_xla and x.to("cpu").xla().is_xla and xm.is_xla_tensor(x) and not x.cpu().is_xla
assert torch.nn.Linear(3, 2).xla().weight.is_xla and x.sum().item() == 6
with torch.autocast("xla"):
    assert (x @ x.t()).dtype == torch.bfloat16
print(sys.argv[1:], __name__)
"""


OPENXLA = """
import torch_xla.debug.metrics as met
double = torch.compile(lambda x: torch.relu(x) * 2, backend="openxla")
x = torch.tensor([-1.0, 2.0], device="xla", requires_grad=True)
double(x).sum().backward()
assert double(x).tolist() == [0, 4] and x.grad.tolist() == [0, 2]

assert met.counter_value("DynamoExtractCompiledGraph") == 2  # forward and backward
met.clear_counters()
double(x).sum().backward()
assert x.grad.tolist() == [0, 4]
# the compiled program is launched: neither its operations nor its gradient's are dispatched again
assert not {"xla::relu", "xla::threshold_backward"} & set(met.counter_names())

from torch.library import impl
xm.XLA_LIB.define("thrice(Tensor x) -> Tensor")
impl(xm.XLA_LIB, "thrice", "CompositeExplicitAutograd")(lambda x: x * 3)
assert torch.ops.xla.thrice(torch.ones(2, device="xla")).tolist() == [3, 3]

from torch_xla._patched_functions import GRU, clip_grad_norm_
assert clip_grad_norm_ is torch.nn.utils.clip_grad_norm_ and GRU is torch.nn.GRU
"""


def test_names_and_the_device(run_unchanged):
    assert run_unchanged(NAMES + OPENXLA, arguments=("--flag", "x")) == "['--flag', 'x'] __main__\n"


def test_as_a_module_and_in_children(tmp_path):
    (tmp_path / "program.py").write_text(NAMES)
    parent = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'program', 'child'], check=True)"
    (tmp_path / "parent.py").write_text(parent)
    for arguments, said in (
        (["-m", "program", "a"], "['a'] __main__\n"),
        (["parent.py"], "['child'] __main__\n"),
    ):
        done = subprocess.run(
            [sys.executable, *UNCHANGED, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == said


def test_nothing_is_called_torch_xla_elsewhere():
    assert importlib.util.find_spec("torch_xla") is None


def test_the_string_xla_is_explained_where_it_is_not_the_name(run):
    program = "import torch, ftm_lazy.torch_xla\ntorch.ones(2, device='xla')"
    assert "python -m ftm_lazy.torch_xla script.py" in run(program, code=1)


def test_calls_that_torch_xla_takes(run_unchanged):
    program = """
import torch, torch_xla, warnings
x, i = torch.zeros(4, device="xla"), torch.tensor([1], dtype=torch.int32, device="xla")
y = torch.ones(1, device="xla")
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    print((x + torch.ones(4)).tolist(), x.index_copy_(0, i, y).tolist(), len(said))
"""
    assert (
        run_unchanged(program, FTM_XLA_LAX="1") == "[1.0, 1.0, 1.0, 1.0] [0.0, 1.0, 0.0, 0.0] 2\n"
    )
    assert "same device" in run_unchanged(program, code=1)


def test_environment_variables(run_unchanged):
    program = """
import warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import os, torch_xla, torch_xla.runtime as xr
print(xr.device_type(), os.environ["FTM_DEBUG"], [str(w.message).split(":")[0] for w in said if "torch_xla" in str(w.message)])
"""
    assert (
        run_unchanged(program, PJRT_DEVICE="TPU", XLA_FLAGS="--x", XLA_IR_DEBUG="1")
        == "TPU locations ['XLA_FLAGS']\n"
    )


def test_variables_that_show_what_runs(run_unchanged, tmp_path):
    program = """
import torch, torch_xla

def read(x):
    return x.sum().item()

x = torch.ones(3, device="xla") * 2
torch_xla.sync()
read(x + 1)
torch_xla.sync()
x = torch.ones(3, device="xla") * 2
torch_xla.sync()
"""
    told, saved = tmp_path / "told", tmp_path / "saved"
    files = {"PT_XLA_DEBUG_FILE": str(told), "XLA_SAVE_TENSORS_FILE": str(saved)}
    run_unchanged(program, PT_XLA_DEBUG_LEVEL="2", **files)
    text = told.read_text()
    assert text.count("Compilation Analysis: Compilation Cause") == 2
    causes = [line.partition(":   ")[2] for line in text.splitlines() if "user" in line]
    assert causes == [
        "user sync",
        "user sync",
        "most likely user code trying to access tensor value before sync",
        "user sync",
        "user sync",
    ]
    assert text.count("Execution Analysis: Execution Cause") == 3
    assert f"Compilation Analysis:   read ({tmp_path / 'program.py'}:5)" in text
    assert "Number of Graph Inputs: 1\n" in text and "Number of Graph Outputs: 1\n" in text
    assert (
        saved.read_text().count("[ScheduleSyncTensorsGraph]") == 2
        and "aten::sum" in saved.read_text()
    )
    saved.unlink()
    run_unchanged(program, XLA_SAVE_TENSORS_FMT="hlo", **files)
    assert saved.read_text().count("func.func @main") == 2 and told.read_text() == text


def test_steps_and_eager_mode_by_variables(run_unchanged):
    program = """
import sys, torch, torch_xla, ftm_lazy
from torch_xla.experimental import is_eager_mode
sys.stderr = sys.stdout
x = torch.ones(3, device="xla") * 2 + 1
torch_xla.sync(wait=True)
print(is_eager_mode(), ftm_lazy.metrics.counters()["executions"] > 1)
"""
    lines = run_unchanged(program, XLA_EMIT_STEPLOG="1", XLA_USE_EAGER_DEBUG_MODE="1").splitlines()
    assert lines[0].startswith("*** step 1: ") and lines[1] == "True True"


def test_the_distribution_has_the_same_package():
    own = ROOT / "packaging" / "ftm-torch-xla" / "torch_xla" / "__init__.py"
    here = ROOT / "ftm_lazy" / "torch_xla" / "importable" / "torch_xla" / "__init__.py"
    assert own.read_text() == here.read_text()
