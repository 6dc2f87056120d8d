"""Growth of compile time with the number of operations, from 500 to 8,000 as in a training step.

    python benchmarks/compile_growth.py [--rounds 3] [--machine host]

Sizes are measured in turn, in this process and without a cache; the minimum over the rounds is
printed, per operation and by stage. With linear growth the column "ms an op" is constant.
"""

from __future__ import annotations

import argparse
import time

from ftm_backend import compiler_stages
from ftm_backend.target import presets

SIZES = (500, 1000, 2000, 4000, 8000)
BLOCK = 10  # operations of one layer and its update


def trace(operations: int) -> str:
    """Build a trace of layers (matmul, bias, ReLU, softmax, residual) and parameter updates."""
    layers = max(1, operations // BLOCK)
    lines = ["trace", "  %0 = param f32[32,64]"]
    for k in range(layers):
        lines += [f"  %{1 + 2 * k} = param f32[64,64]", f"  %{2 + 2 * k} = param f32[64]"]
    lines += ["  $0 = scalar f64"]
    number, x, results = 1 + 2 * layers, "%0", []

    def add(call: str, kind: str) -> str:
        nonlocal number
        lines.append(f"  %{number} = {call} : {kind}")
        number += 1
        return f"%{number - 1}"

    for k in range(layers):
        weight, bias = f"%{1 + 2 * k}", f"%{2 + 2 * k}"
        y = add(f"aten::mm(self={x}, mat2={weight})", "f32[32,64]")
        y = add(f"aten::add.Tensor(self={y}, other={bias}, alpha=1)", "f32[32,64]")
        y = add(f"aten::relu(self={y})", "f32[32,64]")
        y = add(f"aten::_softmax(self={y}, dim=1, half_to_float=false)", "f32[32,64]")
        x = add(f"aten::add.Tensor(self={y}, other={x}, alpha=1)", "f32[32,64]")
        g = add(f"aten::mul.Tensor(self={y}, other={x})", "f32[32,64]")
        g = add(f"aten::sum.dim_IntList(self={g}, dim=[0], keepdim=false, dtype=none)", "f32[64]")
        g = (
            add(f"aten::mul.Scalar(self={g}, other=$0)", "f32[64]")
            if k == 0
            else add(f"aten::neg(self={g})", "f32[64]")
        )
        g = add(f"aten::tanh(self={g})", "f32[64]")
        results.append(add(f"aten::sub.Tensor(self={bias}, other={g}, alpha=1)", "f32[64]"))
    return "\n".join([*lines, "  return " + ", ".join([*results, x])]) + "\n"


def measure(text: str, machine: presets.MachineParameters) -> dict[str, float]:
    """Return the seconds of each stage, from the trace to the image."""
    value, seconds = text, {}
    for stage in compiler_stages.stages(machine):
        start = time.perf_counter()
        value = stage.run(value, machine)
        seconds[stage.name] = time.perf_counter() - start
    return seconds


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--machine", default="host", help="preset to compile for")
    given = parser.parse_args()
    machine = presets.load(given.machine)
    measure(trace(SIZES[0]), machine)  # imports
    found: dict[int, list[dict[str, float]]] = {size: [] for size in SIZES}
    for _ in range(given.rounds):
        for size, rounds in found.items():
            rounds.append(measure(trace(size), machine))
    print(f"{'ops':>6} {'seconds':>8} {'ms an op':>9}  the costliest stages")
    for size, rounds in found.items():
        best = min(rounds, key=lambda stages: sum(stages.values()))
        total = sum(best.values())
        costly = sorted(best, key=lambda name: -best[name])[:5]
        print(
            f"{size:>6} {total:>8.2f} {total / size * 1e3:>9.3f}  "
            + ", ".join(f"{n} {best[n] / total:.0%}" for n in costly)
        )


if __name__ == "__main__":
    main()
