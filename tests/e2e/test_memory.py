"""Resident size stays level: over steps, and over shapes, whose forms, programs and memory are
bounded."""

from pathlib import Path

from python_process import run_python

STEADY = """
import resource, torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to("ftm")
optimizer = torch.optim.AdamW(model.parameters())
def step():
    x, y = torch.randn(64, 64).to("ftm"), torch.randint(10, (64,)).to("ftm")
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    return loss
for _ in range(50): step().item()
before, allocated = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, torch.ftm.memory_allocated()
for _ in range(500): step().item()
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(after - before, torch.ftm.memory_allocated() - allocated)
"""


def test_memory_of_a_steady_loop_is_flat() -> None:
    done = run_python(STEADY, timeout=300)
    assert done.returncode == 0, done.stderr
    grown_kib, grown_bytes = map(int, done.stdout.split())
    assert grown_kib < 4096, f"peak resident size grew by {grown_kib} KiB over 500 steps"
    assert grown_bytes == 0


SHAPES = """
import resource, torch
x = torch.ones(1, device="ftm")
def record(sizes):
    for n in sizes:
        (x.expand(n, 1) + 1).sum(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = record(range(2, 6000))
print(record(range(6000, 12000)) - before)
"""


def test_memory_does_not_grow_with_the_shapes_that_were_recorded() -> None:
    done = run_python(SHAPES, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 8192, (
        f"peak resident size grew by {done.stdout.strip()} KiB over 6,000 shapes"
    )


TRAIN = """
import os, torch, ftm_lazy
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)).to("ftm")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def train(shapes):
    for n in shapes:
        x = torch.randn(3 + n % 40, 2 + n // 40, 16).to("ftm")
        optimizer.zero_grad()
        loss = model(x).pow(2).mean() + x.softmax(1).sum() * 0
        loss.backward(); optimizer.step(); loss.item()
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before = train(range(600))
print(train(range(600, 1600)) - before, ftm_lazy._C._program_count())
"""


def test_memory_does_not_grow_with_the_shapes_that_were_trained_on() -> None:
    """Once as many programs are kept as the limit allows, 1,000 shapes more take next to
    nothing."""
    done = run_python(TRAIN, timeout=300)
    assert done.returncode == 0, done.stderr
    grown, programs = map(int, done.stdout.split())
    assert grown < 16 << 20, f"resident size grew by {grown >> 10} KiB over 1,000 shapes"
    assert programs == 256


RUN = """
import os, torch, ftm_lazy
def run(sizes):
    for n in sizes:
        x = torch.ones(n, 3).to("ftm")
        assert abs(torch.softmax(x * 2, 1).sum().item() - n) < 0.1
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before = run(range(3, 303))
print(run(range(303, 1303)) - before, ftm_lazy._C._program_count())
"""


def test_memory_does_not_grow_with_the_shapes_that_ran() -> None:
    """Of 1,300 shapes the programs that were not used are dropped."""
    done = run_python(RUN, timeout=300, FTM_PROGRAM_LIMIT="64")
    assert done.returncode == 0, done.stderr
    grown, programs = map(int, done.stdout.split())
    assert grown < 16 << 20, f"resident size grew by {grown >> 10} KiB over 1,000 shapes"
    assert programs == 64


ROOM = """
import os, torch, ftm_lazy
own = torch.ones(3).to("ftm")
assert abs(own.exp().sum().item() - 8.154845) < 1e-5
kept = ftm_lazy._C._program_count()
for _ in range(2):
    for n in range(2, 40):
        assert abs(torch.softmax(torch.ones(n, 5).to("ftm") * 2, 1).sum().item() - n) < 0.1
counted = ftm_lazy._C._counters()
hits = counted["cache_hits_memory"]
own.exp().sum().item()
print(kept, ftm_lazy._C._program_count(), counted["instances"], counted["compiles"], ftm_lazy._C._counters()["cache_hits_memory"] - hits)
"""


def test_instances_that_find_no_room_are_made_again(tmp_path: Path) -> None:
    """The last one stays, and so do programs that were compiled for themselves."""
    done = run_python(ROOM, timeout=300, FTM_INSTANCE_MEMORY="1K", FTM_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    kept, programs, instances, compiles, hits = map(int, done.stdout.split())
    assert instances >= 2 * 38 - 6 and compiles <= 4, "each is made twice, and not compiled"
    assert programs <= kept + 3 and hits == 1


DIFFERENT = """
import gc, random, types, torch
from ftm_lazy.dynamic_shapes.trace_family import TraceFamily
functions = torch.relu, torch.tanh, torch.sigmoid, torch.exp, torch.abs, torch.neg, torch.sin, torch.cos
draw = random.Random(0)
def run(programs):
    for _ in range(programs):
        x = torch.arange(draw.randrange(2, 30)).to("ftm") * 0.5
        for _ in range(3):
            x = draw.choice(functions)(x)
        x.sum().item()
    gc.collect()
    found = gc.get_objects()
    families = sum(isinstance(each, TraceFamily) for each in found)
    sizes = sum(isinstance(each, types.FunctionType) and each.__code__.co_filename == "<sizes>" for each in found)
    return families, sizes
before = run(60)
print(*before, *run(60))
"""


def test_nothing_stays_of_programs_that_are_dropped(tmp_path: Path) -> None:
    """General programs, each of another kind: what they need to serve other sizes goes with
    them."""
    done = run_python(DIFFERENT, timeout=300, FTM_PROGRAM_LIMIT="16", FTM_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    families, functions, families_later, functions_later = map(int, done.stdout.split())
    assert families == families_later == 16
    assert functions > 0 and functions_later <= 5 * 16, (
        "each program has at most five functions of its sizes"
    )
