"""Modelled cost of whole training steps and of attention on an FT-Matrix machine.

    python benchmarks/target_steps.py [--cores 8] [--only WORD] [--json FILE]

Each program is recorded, compiled, and costed by the cycle model. A row has:

- The modelled time.
- The share of the kernels' rooflines: for each kernel the larger of its operations at peak and its
  minimal traffic at full bandwidth, summed. The rest can be gained without more fusion.
- The share of the computation's roofline: its matmuls at peak, or one read of each input and one
  write of each result.
- The time and the roofline share of each kind of kernel.

``target_steps.json`` has the last results, which a test compares.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
import training
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from ftm_backend import driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.ir.trace.trace import Trace
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from ftm_backend.target.presets import ELEMENT_BYTES
from ftm_lazy import debug

HEADS, WIDTH = 12, 64
"""Heads of attention, and elements of each."""
TOKENS = (128, 512, 1024, 2048)
STORED = Path(__file__).with_suffix(".json")
KINDS = {"matrix": ("MM", "MMW"), "rows": ("DGA", "DSC"), "order": ("SORT", "SCAN", "MERGE")}
"""Kind of a kernel to the instructions that identify it; other kernels are maps and reductions."""


@dataclass(frozen=True)
class Row:
    """A program: name, trace, floating-point operations of its matmuls, bytes of inputs/results."""

    name: str
    trace: str
    flops: int
    moved: int

    def bound(self, machine: presets.MachineParameters, cores: int) -> float:
        """Return the seconds of the computation's roofline."""
        bandwidth = min(machine.ddr_bandwidth, cores * machine.core_bandwidth)
        return max(self.flops / machine.peak_flops("f32", cores), self.moved / bandwidth)


@dataclass(frozen=True)
class Result:
    """Modelled cost of a program; shares in percent.

    Attributes:
        of_kernels: Share of the kernels' rooflines.
        of_roofline: Share of the computation's roofline, without traffic of intermediate values.
        kinds: Kind of kernel to its share of the time, and its share of the roofline.
    """

    name: str
    milliseconds: float
    of_kernels: float
    of_roofline: float
    ddr_bytes: int
    least_bytes: int
    kinds: dict[str, tuple[float, float]]


def step_row(name: str, model: nn.Module, inputs: Tensor, targets: Tensor) -> Row:
    """Record the second training step with AdamW; the first creates the optimizer's state.

    The operations are those of matmuls, as PyTorch counts them on the CPU. State that is written in
    place counts as input and as result.
    """
    with FlopCounterMode(display=False) as counted, sdpa_kernel(SDPBackend.MATH):
        F.cross_entropy(model(inputs).flatten(0, -2), targets.flatten()).backward()
    model.zero_grad()
    trace = step_trace(model, inputs, targets)
    program = Trace.parse(trace)
    types = [*program.params, *(kind for node in program.nodes for kind in node.results)]
    passed = [*program.params, *(types[number] for number in program.results)]
    moved = sum(kind.numel * ELEMENT_BYTES[kind.dtype] for kind in passed if kind is not None)
    return Row(name, trace, counted.get_total_flops(), moved)


def step_trace(model: nn.Module, inputs: Tensor, targets: Tensor) -> str:
    """Return the trace of the second training step."""
    model = model.to("ftm")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    inputs, targets = inputs.to("ftm"), targets.to("ftm")

    def step(inputs: Tensor, targets: Tensor) -> None:
        optimizer.zero_grad()
        logits = model(inputs)
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))
        loss.backward()
        optimizer.step()

    # Two samples suffice to create the optimizer's state and DistributedDataParallel's buckets.
    step(inputs[:2], targets[:2])
    torch.ftm.synchronize()
    recorded: list[str] = []

    def record(*_: object) -> None:
        state = [
            value
            for held in optimizer.state.values()
            for value in held.values()
            if value.device.type == "ftm"
        ]
        recorded.append(debug.text([*model.parameters(), *model.buffers(), *state], "trace"))

    optimizer.register_step_post_hook(record)  # runs before the device's hook, which launches
    step(inputs, targets)
    return recorded[0]


class Attention:
    """softmax(q k' / 8) v of all heads, with batch size 1."""

    def __init__(self, tokens: int, backward: bool) -> None:
        self.tokens, self.backward = tokens, backward

    def trace(self) -> str:
        """Return the trace of the result, or of the three gradients."""
        q, k, v, grad = (
            torch.randn(1, HEADS, self.tokens, WIDTH).to("ftm").requires_grad_() for _ in range(4)
        )
        result = F.scaled_dot_product_attention(q, k, v)
        found = (
            torch.autograd.grad(result, (q, k, v), grad.detach()) if self.backward else (result,)
        )
        return debug.text(list(found), "trace")

    def row(self, name: str) -> Row:
        """Return the row: 2 matmuls and 4 tensors forward, 5 matmuls and 7 tensors backward."""
        flops = (5 if self.backward else 2) * 2 * HEADS * self.tokens**2 * WIDTH
        return Row(
            name, self.trace(), flops, 4 * HEADS * self.tokens * WIDTH * (7 if self.backward else 4)
        )


def rows(only: str = "") -> Iterator[Row]:
    """Yield the rows whose name contains ``only``."""
    torch.manual_seed(0)
    steps = {
        "step of ResNet-18, 16x3x32x32": (
            training.resnet18,
            lambda: (torch.randn(16, 3, 32, 32), torch.randint(10, (16,))),
        ),
        "step of ResNet-18, 8x3x224x224": (
            training.resnet18,
            lambda: (torch.randn(8, 3, 224, 224), torch.randint(10, (8,))),
        ),
        "step of GPT 4x768, 8x128 tokens": (
            lambda: training.gpt(768, 12),
            lambda: (torch.randint(5000, (8, 128)), torch.randint(5000, (8, 128))),
        ),
    }
    for tokens in TOKENS:
        for backward in (False, True):
            name = f"attention {'backward' if backward else 'forward'}, {tokens} tokens"
            if only in name:
                yield Attention(tokens, backward).row(name)
    for name, (model, batch) in steps.items():
        if only in name:
            yield step_row(name, model(), *batch())


def measure(row: Row, machine: str, cores: int) -> Result:
    """Compile and model one row."""
    text = driver.run_from("trace", row.trace, "asm", CompileOptions(machine=machine, cores=cores))
    profile = cycle_model.model(text, machine=machine, cores=cores)
    kinds = kinds_of(text)
    sums: dict[str, list[float]] = {}
    for kernel in profile.kernels:
        held = sums.setdefault(kinds.get(kernel.name, "maps and reductions"), [0.0, 0.0])
        held[0] += kernel.cycles
        held[1] += kernel.cycles * kernel.roofline
    shares = {
        kind: (100 * spent / profile.cycles, 100 * ideal / spent)
        for kind, (spent, ideal) in sums.items()
        if spent
    }
    whole = 100 * row.bound(presets.load(machine), cores) / profile.seconds
    return Result(
        row.name,
        profile.seconds * 1e3,
        100 * profile.roofline,
        whole,
        profile.dma_bytes,
        profile.least_bytes,
        dict(sorted(shares.items(), key=lambda each: -each[1][0])),
    )


def kinds_of(text: str) -> dict[str, str]:
    """Return the kind of each function of an assembly."""
    found: dict[str, str] = {"main": "barriers and calls"}
    name = ""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["@func"]:
            name = words[1]
        word = next((w for w in words if not w.startswith("[")), "").split(".")[0]
        for kind, instructions in KINDS.items():
            if word in instructions:
                found.setdefault(name, kind)
    return found


def show(result: Result) -> str:
    """Format a result as text."""
    lines = [
        f"{result.name}: {result.milliseconds:.3f} ms,"
        f" {result.of_kernels:.1f}% of its kernels' roofline, "
        f"{result.of_roofline:.1f}% of the roofline, "
        f"{result.ddr_bytes / result.least_bytes:.2f} of their least bytes"
    ]
    lines += [
        f"    {kind:22} {spent:5.1f}% of the time, {ideal:5.1f}% of its roofline"
        for kind, (spent, ideal) in result.kinds.items()
    ]
    return "\n".join(lines)


def documented(result: Result) -> str:
    """Format a result as a row of the table in ``docs/target.md``."""

    def share(kind: str) -> str:
        return (
            "{:.1f}, {:.1f}".format(*result.kinds[kind])
            if result.kinds.get(kind, (0, 0))[0] >= 0.1
            else "-"
        )

    figures = (
        f"{result.milliseconds:.3g}",
        f"{result.of_kernels:.1f}",
        f"{result.of_roofline:.1f}",
        share("matrix"),
        share("maps and reductions"),
    )
    return f"| {result.name} | {' | '.join(figures)} |"


def stored() -> list[Result]:
    """Return the last results, for m7032 with 8 cores, from ``target_steps.json``."""
    rows = json.loads(STORED.read_text())["rows"]
    return [
        Result(**{**row, "kinds": {kind: tuple(shares) for kind, shares in row["kinds"].items()}})
        for row in rows
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    p = argparse.ArgumentParser(
        description="Modelled cost of whole steps and of attention on FT-Matrix machines."
    )
    p.add_argument("--machine", default="m7032")
    p.add_argument("--cores", type=int, default=8)
    p.add_argument("--only", default="", metavar="WORD", help="rows whose name has this word")
    p.add_argument("--json", type=Path, metavar="FILE", help="write the results")
    given = p.parse_args(arguments)
    print(f"modelled on {given.machine}, {given.cores} cores")
    results = []
    for row in rows(given.only):
        results.append(measure(row, given.machine, given.cores))
        print(show(results[-1]), flush=True)
    if given.json:
        given.json.write_text(
            json.dumps({"modelled": True, "rows": [asdict(r) for r in results]}, indent=1) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
