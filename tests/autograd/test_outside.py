"""Ops of another package: plain, indexing, with data-dependent shapes, random, with a domain.

Their records are all that ftm needs.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from autograd.test_plugins import install, python

RUN = """
import torch, outside_ops, ftm_lazy
ops, counters = torch.ops.outside, ftm_lazy.metrics.counters
x = torch.randn(5, 7)
device = x.to("ftm")

# a plain op: its number may change and compiles once
for slope in (0.5, 2):
    torch.testing.assert_close(ops.bent(device, slope).cpu(), ops.bent(x, slope))
compiled = counters()["compiles"]
assert torch.equal(ops.bent(device, 0.25).cpu(), ops.bent(x, 0.25)) and counters()["compiles"] == compiled

# so may a float that the record declares as a runtime number; a number outside of the domain raises at the call
torch.testing.assert_close(ops.scaled(device, 1.5, 1.0).cpu(), ops.scaled(x, 1.5, 1.0))
compiled = counters()["compiles"]
torch.testing.assert_close(ops.scaled(device, 2.5, 0.5).cpu(), ops.scaled(x, 2.5, 0.5))
assert counters()["compiles"] == compiled
try:
    ops.scaled(device, 1.5, -1.0)
    raise SystemExit("the call did not raise")
except ValueError as error:
    assert "negative number" in str(error)

# indices: right ones, and one that came from the CPU and lies outside raises where the call is made
at = torch.tensor([4, 0, 2])
assert torch.equal(ops.pick_rows(device, at.to("ftm")).cpu(), x[at])
bad, traced = torch.tensor([5]).to("ftm"), None
try:
    ops.pick_rows(device, bad)
    raise SystemExit("the call did not raise")
except IndexError:
    pass

# a number that shapes the program: another number is another program, the same one is not
one = torch.full((1,), 0.5, device="ftm")
one.cpu()
for end in (3, 6):
    assert ops.ramp(one, end).tolist() == [0.5 + i for i in range(end)]
compiled = counters()["compiles"]
assert ops.ramp(one, 6).tolist() == [0.5 + i for i in range(6)] and counters()["compiles"] == compiled
ops.ramp(one, 7).cpu()
assert counters()["compiles"] == compiled + 1

# draws: reproducible, different from one another, within [0, 1), and of one program
torch.manual_seed(3)
first, second = ops.noise(device).cpu(), ops.noise(device).cpu()
compiled = counters()["compiles"]
torch.manual_seed(3)
assert torch.equal(ops.noise(device).cpu(), first) and counters()["compiles"] == compiled
assert not torch.equal(first, second) and 0 <= first.min() < first.max() < 1
torch.manual_seed(3)
assert torch.equal(torch.rand(5, 7, device="ftm").cpu(), first)  # the stream of the device, as any random op's
assert not [n for n, c in counters().items() if c and n.startswith(("fallback", "op_by_op", "compile_fail"))], counters()
"""


SPREAD = """
import torch, outside_ops
torch.manual_seed(5)
for dtype in (torch.float32, torch.float64):
    print(torch.ops.outside.spread(torch.empty(3, 4, dtype=dtype, device="ftm"), -1.0, 3.0).tolist())
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory of packages with that one in it."""
    for name in ("outside_ops.py", "outside_records.py"):
        shutil.copy(Path(__file__).parent / name, tmp_path)
    install(tmp_path, "ftm-outside", "outside_records")
    return tmp_path


def test_ops_of_every_kind_from_outside(place: Path) -> None:
    done = python(place, RUN, FTM_STRICT="1")
    assert done.returncode == 0, done.stderr


def test_the_reference_draws_what_programs_draw(place: Path) -> None:
    """Only for records that declare a distribution (`draws`)."""
    compiled, reference = (
        python(place, SPREAD, FTM_STRICT="1"),
        python(place, SPREAD, FTM_EXECUTOR="reference"),
    )
    assert compiled.returncode == 0, compiled.stderr
    assert reference.returncode == 0, reference.stderr
    assert len(set(re.findall(r"-?\d+\.\d+", compiled.stdout))) == 24
    assert reference.stdout == compiled.stdout
    record = place / "outside_records.py"
    record.write_text(
        record.read_text().replace('recorded("outside::spread", draws="uniform")', "")
    )
    assert python(place, SPREAD, FTM_EXECUTOR="reference").stdout != compiled.stdout
