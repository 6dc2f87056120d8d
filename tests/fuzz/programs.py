"""Programs that the compiler makes for several cores, of random steps and extents, each with inputs
and PyTorch's results.

``programs.py SEED SECONDS FOLDER`` puts as many as it can compile in that time into the folder, in
the place of what is there. `attempt` runs one of them, in a process that has no PyTorch: sanitizers
would watch that as well.
"""

from __future__ import annotations

import io
import random
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ftm_backend.machine.emulator import Machine

if TYPE_CHECKING:
    import torch

CORES = (2, 3, 8)


def attempt(machines: Mapping[int, Machine], data: bytes) -> None:
    """Runs a program on the machine that it was made for, and on the others; raises when a result
    is not PyTorch's."""
    arrays = np.load(io.BytesIO(data))
    inputs = [arrays[f"in{k}"] for k in range(int(arrays["inputs"]))]
    for machine in machines.values():
        program = machine.load(arrays["image"].tobytes())
        results = program.run(inputs, arrays["scalars"].tolist())
        for k, result in enumerate(results):
            np.testing.assert_allclose(
                result,
                arrays[f"out{k}"].reshape(result.shape),
                rtol=5e-3,
                atol=5e-4,
                err_msg=f"result {k}",
            )


def compiled(rng: random.Random) -> bytes:
    """One program."""
    import torch

    from ftm_backend import driver
    from ftm_backend.compile_options import CompileOptions
    from ops import capture

    torch.manual_seed(rng.randrange(1 << 30))
    step, tensors = rng.choice(_steps())(rng)
    recording = capture.function(step, *tensors)
    executable = driver.compile(
        str(recording.trace),
        CompileOptions(machine=rng.choice(("host", "m7032")), cores=rng.choice(CORES)),
    )
    arrays = {f"in{k}": p.detach().contiguous().numpy() for k, p in enumerate(recording.params)}
    arrays |= {f"out{k}": r.detach().contiguous().numpy() for k, r in enumerate(step(*tensors))}
    file = io.BytesIO()
    np.savez(
        file,
        image=np.frombuffer(executable.image, np.uint8),
        inputs=len(recording.params),
        scalars=np.array(recording.scalars),
        **arrays,
    )
    return file.getvalue()


def _steps() -> tuple[
    Callable[[random.Random], tuple[Callable[..., tuple[torch.Tensor, ...]], list[torch.Tensor]]],
    ...,
]:
    """Makers of a step and its arguments."""
    import torch
    import torch.nn.functional as F

    from codegen.test_whole_traces import block, mlp, normal

    def extent(rng: random.Random, most: int) -> int:
        return rng.choice((1, 2, 3, rng.randint(1, most), rng.randint(1, most)))

    def dense(rng: random.Random) -> Any:
        batch, features, hidden, classes = (
            extent(rng, 90),
            extent(rng, 200),
            extent(rng, 200),
            rng.randint(2, 30),
        )
        step, state = mlp(features, hidden, classes)
        return step, [normal(batch, features), torch.randint(classes, (batch,)), *state]

    def attention(rng: random.Random) -> Any:
        batch, heads, length, words = (
            rng.randint(1, 3),
            rng.randint(1, 3),
            rng.randint(2, 20),
            rng.randint(2, 60),
        )
        step, state = block(heads * rng.randint(1, 9), heads, length, words)
        return step, [*(torch.randint(words, (batch, length)) for _ in range(2)), *state]

    def product(rng: random.Random) -> Any:
        m, n, k = (extent(rng, 300) for _ in range(3))
        return (lambda a, b, c: (torch.relu(a @ b.t() + c), (a @ b.t()).sum(0))), [
            normal(m, k),
            normal(n, k),
            normal(n),
        ]

    def reductions(rng: random.Random) -> Any:
        rows, columns = extent(rng, 400), extent(rng, 400)
        return (
            lambda x: (
                x.sum(),
                x.mean(0),
                x.amax(1),
                x.argmax(1),
                x.argmin(0),
                x.logsumexp(0),
                F.softmax(x, 1),
                x.std(),
                x.t() * 2,
                x.cumsum(0),
            )
        ), [normal(rows + 1, columns)]

    def orders(rng: random.Random) -> Any:
        rows, columns = extent(rng, 30), extent(rng, 900)
        return (
            lambda x: (
                *torch.sort(x, dim=-1, stable=True),
                x.topk(1)[0],
                x.cumprod(1),
                torch.histc(x, 9, -1, 1),
            )
        ), [normal(rows, columns)]

    def rows(rng: random.Random) -> Any:
        count, width, places = extent(rng, 200), extent(rng, 60), extent(rng, 300)

        def step(
            table: torch.Tensor, index: torch.Tensor, x: torch.Tensor
        ) -> tuple[torch.Tensor, ...]:
            return (
                table[index],
                table.index_add(0, index, x),
                table.index_reduce(0, index, x, "amax"),
                torch.cat([x, table]).flip(0),
            )

        return step, [normal(count, width), torch.randint(count, (places,)), normal(places, width)]

    def images(rng: random.Random) -> Any:
        batch, channels, size, filters = (
            rng.randint(1, 4),
            rng.randint(1, 5),
            rng.randint(4, 20),
            rng.randint(1, 9),
        )

        def step(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
            w = w.detach().requires_grad_()
            h = F.max_pool2d(F.relu(F.conv2d(x, w, padding=1)), 2)
            return h.detach(), F.avg_pool2d(x, 3, 1, 1), *torch.autograd.grad(h.square().sum(), [w])

        return step, [normal(batch, channels, size, size), normal(filters, channels, 3, 3)]

    return dense, attention, product, reductions, orders, rows, images


def main(words: list[str]) -> int:
    """See the module's text."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    rng, end, folder = (
        random.Random(int(words[0])),
        time.monotonic() + float(words[1]),
        Path(words[2]),
    )
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.npz"):
        old.unlink()
    count = 0
    while count == 0 or time.monotonic() < end:
        (folder / f"{count}.npz").write_bytes(compiled(rng))
        count += 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
