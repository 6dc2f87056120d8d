"""Whole training steps through the compiler and onto the machine, in checked mode, against PyTorch
on the CPU.

The traces come from PyTorch itself: a step with autograd inside is captured as the recorder would
record it.
"""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from ftm_backend import compiler_stages, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.machine import Machine, MachineError
from ftm_backend.target import presets
from ops import capture


def to_numpy(x):
    return (
        x.view(torch.int16).numpy().view(np.uint16)
        if x.dtype == torch.bfloat16
        else x.contiguous().numpy()
    )


def run(step, tensors, cores=2, machine="host"):
    """Compiles ``step(*tensors)`` and runs it; gives its results as PyTorch's tensors, and the
    executable."""
    recording = capture.function(step, *tensors)
    executable = driver.compile(str(recording.trace), CompileOptions(machine=machine))
    program = Machine(cores=cores, checked=True).load(executable.image)
    results = program.run([to_numpy(p.detach()) for p in recording.params], recording.scalars)
    return [torch.from_numpy(np.ascontiguousarray(r)) for r in results], executable


def check(step, tensors, rtol=2e-3, atol=2e-5, **how):
    torch.manual_seed(0)
    got, executable = run(step, tensors, **how)
    for position, (mine, expected) in enumerate(zip(got, step(*tensors), strict=True)):
        torch.testing.assert_close(
            mine.reshape(expected.shape),
            expected.detach(),
            rtol=rtol,
            atol=atol,
            msg=lambda text, at=position: f"result {at}: {text}",
        )
    return executable


def normal(*shape, scale=0.3):
    return torch.randn(shape) * scale


def trained(loss_of, parameters, rate=0.1):
    """A step of gradient descent with momentum: loss, new parameters, new momenta."""
    count = len(parameters)

    def step(x, y, *state):
        weights = [w.detach().requires_grad_() for w in state[:count]]
        loss = loss_of(x, y, *weights)
        gradients = torch.autograd.grad(loss, weights)
        momenta = [m * 0.9 + g for m, g in zip(state[count:], gradients, strict=True)]
        return (
            loss.detach(),
            *(w.detach() - rate * m for w, m in zip(weights, momenta, strict=True)),
            *momenta,
        )

    return step, [*parameters, *(torch.zeros_like(w) for w in parameters)]


def mlp(features, hidden, classes):
    def loss(x, y, w1, b1, w2, b2):
        return F.cross_entropy(F.linear(F.relu(F.linear(x, w1, b1)), w2, b2), y)

    return trained(
        loss, [normal(hidden, features), normal(hidden), normal(classes, hidden), normal(classes)]
    )


@pytest.mark.parametrize(
    ("batch", "features", "hidden", "classes"), [(16, 64, 32, 10), (1, 1, 1, 2), (37, 19, 53, 3)]
)
@pytest.mark.parametrize("cores", [1, 2, 3])
def test_a_step_of_an_mlp(batch, features, hidden, classes, cores):
    torch.manual_seed(1)
    step, state = mlp(features, hidden, classes)
    check(step, [normal(batch, features), torch.randint(classes, (batch,)), *state], cores=cores)


def test_a_step_of_a_cnn():
    torch.manual_seed(2)

    def loss(x, y, w1, g1, b1, w2, w3, b3):
        h = F.conv2d(x, w1, padding=1)
        h = F.max_pool2d(F.relu(F.batch_norm(h, None, None, g1, b1, training=True)), 2)
        h = F.relu(F.conv2d(h, w2, stride=2, padding=1))
        return F.cross_entropy(F.linear(h.flatten(1), w3, b3), y)

    step, state = trained(
        loss,
        [
            normal(6, 2, 3, 3),
            torch.rand(6) + 0.5,
            normal(6),
            normal(9, 6, 3, 3),
            normal(5, 9 * 3 * 3),
            normal(5),
        ],
    )
    check(step, [normal(4, 2, 11, 11), torch.randint(5, (4,)), *state])


def block(width, heads, length, vocabulary):
    """One block of a causal transformer with tied embeddings: loss of predicting ``y`` from
    ``x``."""

    def loss(x, y, table, places, g1, b1, qkv, out, g2, b2, up, down):
        h = F.embedding(x, table) + places
        a = F.linear(F.layer_norm(h, (width,), g1, b1), qkv)
        q, k, v = (z.unflatten(-1, (heads, -1)).transpose(1, 2) for z in a.chunk(3, -1))
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // heads)
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        a = F.softmax(scores.masked_fill(hidden, -math.inf), -1) @ v
        h = h + F.linear(a.transpose(1, 2).flatten(2), out)
        h = h + F.linear(F.gelu(F.linear(F.layer_norm(h, (width,), g2, b2), up)), down)
        return F.cross_entropy((h @ table.t()).flatten(0, 1), y.flatten())

    parameters = [
        normal(vocabulary, width),
        normal(length, width),
        torch.ones(width),
        torch.zeros(width),
        normal(3 * width, width),
        normal(width, width),
        torch.ones(width),
        torch.zeros(width),
        normal(4 * width, width),
        normal(width, 4 * width),
    ]
    return trained(loss, parameters)


@pytest.mark.parametrize(
    ("batch", "width", "heads", "length", "vocabulary"), [(2, 16, 2, 12, 50), (1, 9, 3, 5, 7)]
)
def test_a_step_of_a_transformer_block(batch, width, heads, length, vocabulary):
    torch.manual_seed(3)
    step, state = block(width, heads, length, vocabulary)
    x, y = (torch.randint(vocabulary, (batch, length)) for _ in range(2))
    executable = check(step, [x, y, *state], rtol=5e-3, atol=1e-4)
    assert executable.asm.count("@func") < 60, (
        "a block's step has about 200 ops; they must share kernels"
    )


@pytest.mark.parametrize("machine", ["m7032", "m7002"])
def test_programs_for_machines_whose_dma_overlaps_run_as_well(machine):
    """Software-pipelined loops must pass the checks for slots in flight, on an emulator of another
    size."""
    torch.manual_seed(4)
    step, state = mlp(70, 90, 10)
    executable = check(step, [normal(33, 70), torch.randint(10, (33,)), *state], machine=machine)
    assert f", {machine}\n" in executable.asm


def ordered(x, y, table):
    """What the steps above leave out: sorting, scanning, counting, random numbers, writing rows and
    parts of tensors."""
    values, places = torch.sort(F.dropout(x, 0.25, True), dim=-1)
    kept = torch.where(values.cumsum(-1) > 1, values, -math.inf).logsumexp(-1)
    rows = table.index_add(0, y, x).clone()
    rows[1:3, ::2] = x[0, 0]
    return (
        values,
        places,
        kept,
        rows,
        x.argmax(1),
        torch.histc(x, 7, -1, 1),
        (x.half() @ table.half().t()).float(),
    )


@pytest.mark.parametrize(
    ("name", "machine"), [("block", "m7032"), ("ordered", "host"), ("ordered", "m7032")]
)
def test_the_text_of_every_stage_gives_the_same_assembly(name, machine):
    torch.manual_seed(5)
    if name == "block":
        step, state = block(9, 3, 5, 7)
        tensors = [*(torch.randint(7, (1, 5)) for _ in range(2)), *state]
    else:
        step, tensors = ordered, [normal(6, 40), torch.randint(7, (6,)), normal(7, 40)]
    options = CompileOptions(machine=machine)
    trace = str(capture.function(step, *tensors).trace)
    expected = driver.run_from("trace", trace, "asm", options)
    for stage in compiler_stages.stages(presets.load(machine))[:-1]:
        text = driver.run_from("trace", trace, stage.name, options)
        assert driver.run_from(stage.name, text, "asm", options) == expected, stage.name


def test_compile_time_grows_linearly():
    def chain(length):
        def step(x, w):
            for i in range(length):
                x = torch.tanh(x @ w) if i % 4 == 3 else x * 1.5 + w[0]
            return (x,)

        recording = capture.function(step, normal(8, 8), normal(8, 8))
        runs = [driver.compile(str(recording.trace)).seconds for _ in range(2)]
        return {stage: min(run[stage] for run in runs) for stage in runs[0]}, len(
            recording.trace.nodes
        )

    short, few = chain(24)
    long, many = chain(192)
    for stage, spent in long.items():
        # quadratic growth would be 8 times many / few
        allowed = 3 * many / few * max(short[stage], 0.01)
        assert spent < allowed, (
            f"{stage}: {short[stage]:.3f} s for {few} nodes, {spent:.3f} s for {many}"
        )


ROWS_FAR_APART = """trace
  %0 = param u8[2,268435456]
  %1 = param i64[1]
  %2 = param i64[1]
  %3 = aten::index.Tensor(self=%0, indices=[%1,%2]) : u8[1]
  return %3
"""


@pytest.mark.parametrize("row", [2, -3, 1 << 36])
def test_an_index_outside_faults_if_rows_are_a_power_of_two_apart(row):
    """Addresses are computed modulo 2**64; the rows are 2**28 elements apart."""
    program = Machine(cores=1).load(driver.compile(ROWS_FAR_APART).image)
    # memory of zeros that is never touched takes no room
    inputs = [np.zeros((2, 1 << 28), np.uint8), np.array([row]), np.array([7])]
    with pytest.raises(MachineError, match="index out of range"):
        program.run(inputs, [])
