"""A captured model's program as a function of arrays: for everything that runs it beside the
device.

The numbers that the model was captured with are constants of the program here, but for seed and
offset of random draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ftm_backend.dtypes import DTYPES
from ftm_backend.ir.trace.trace import Trace
from ftm_lazy.frontends.captured_model import CapturedModel

__all__ = ["DTYPES_OF_TORCH", "ArrayProgram", "flat_bytes", "from_bytes"]


class ArrayProgram:
    """What stands between a model's tensors and the program's arrays.

    trace: the program, numbers in place. parameters: for each parameter of the trace the tensor
    (weights, then inputs, then constants) and the byte in it at
        which it begins.
    weights: names and flat bytes, constants of the capture among them.
    draws: for each scalar of the trace ("seed", 0) or ("offset", number of the draw).
    """

    def __init__(self, model: CapturedModel) -> None:
        self.model = model
        captured = model.captured
        drawn: dict[int, tuple[str, int]] = {}
        for seed, offset, number in captured.draws:
            drawn[seed], drawn[offset] = ("seed", 0), ("offset", number)
        values = [None if i in drawn else value for i, value in enumerate(captured.scalars)]
        self.trace = Trace.parse(captured.text).with_scalars(values)
        self.draws = [drawn[i] for i in sorted(drawn)]
        self.draws_made = captured.draws_made
        self.weights = {name: flat_bytes(tensor) for name, tensor in model.weights.items()}
        self.inputs = list(model.inputs)
        self.parameters: list[tuple[int, int]] = []
        for type_, (placeholder, constant, first, _) in zip(
            self.trace.params, captured.parameters, strict=True
        ):
            if placeholder is None:
                self.parameters.append((self._constant(constant), 0))
            else:
                start = first * np.dtype(DTYPES[type_.dtype].numpy).itemsize
                self.parameters.append((self._source(placeholder), start))
        self.results = [
            None if target < 0 else self._source(target) for target in captured.replaces
        ]
        self.outputs = [
            self._output(name, *output)
            for name, output in zip(model.output_names, captured.outputs, strict=True)
        ]

    def _source(self, placeholder: int) -> int:
        """Return a weight k as k, an input k as -1 - k."""
        weights = len(self.model.weights)
        return placeholder if placeholder < weights else weights - placeholder - 1

    def _constant(self, tensor: torch.Tensor) -> int:
        self.weights[f"constant.{len(self.weights)}"] = flat_bytes(tensor)
        return len(self.weights) - 1

    def _output(
        self,
        name: str,
        result: int | None,
        source: int | None,
        constant: Any,
        dtype: str,
        sizes: list[int],
        strides: list[int],
        offset: int,
    ) -> tuple[str, str, int, str, list[int], list[int], int]:
        if result is not None:
            return name, "result", result, dtype, sizes, strides, offset
        if source is not None:
            number = self._source(source)
            kind, index = ("weight", number) if number >= 0 else ("input", -1 - number)
            return name, kind, index, dtype, sizes, strides, offset
        held = constant if constant is not None else torch.empty(0, dtype=torch.uint8)
        return name, "weight", self._constant(held), dtype, sizes, strides, offset

    def arrays(self, inputs: Sequence[torch.Tensor]) -> list[np.ndarray]:
        """Return the program's inputs for these inputs of the model, copied."""
        sources = [*self.weights.values()]
        given = [flat_bytes(tensor.detach().cpu().contiguous()) for tensor in inputs]
        found = []
        for type_, (source, start) in zip(self.trace.params, self.parameters, strict=True):
            raw = sources[source] if source >= 0 else given[-1 - source]
            dtype = np.dtype(DTYPES[type_.dtype].numpy)
            found.append(
                raw[start : start + type_.numel * dtype.itemsize]
                .copy()
                .view(dtype)
                .reshape(type_.shape)
            )
        return found

    def scalars(self) -> list[int]:
        """Seed and offsets as the default generator would give them now; takes none from it."""
        state = np.frombuffer(bytes(torch.ftm.get_rng_state().numpy()), np.uint64)
        return [
            int(state[0]) if kind == "seed" else int(state[1]) + number
            for kind, number in self.draws
        ]

    def nested(self, results: Sequence[np.ndarray], inputs: Sequence[torch.Tensor]) -> Any:
        """Return the model's results, as it nests them, from the program's."""
        leaves = []
        for _, kind, index, dtype, sizes, strides, offset in self.outputs:
            if kind == "result":
                raw = np.ascontiguousarray(results[index]).reshape(-1).view(np.uint8)
            elif kind == "weight":
                raw = [*self.weights.values()][index]
            else:
                raw = flat_bytes(inputs[index].detach().cpu().contiguous())
            flat = from_bytes(raw.copy(), dtype)
            leaves.append(flat.as_strided(sizes, strides, offset).clone())
        return pytree.tree_unflatten(leaves, self.model.structure)


def flat_bytes(tensor: torch.Tensor) -> np.ndarray:
    """Return the memory of a dense tensor on the CPU from its first element to its last, as bytes that it
    shares."""
    if not tensor.numel():
        return np.empty(0, np.uint8)
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.detach().as_strided((extent,), (1,)).view(torch.uint8).numpy()


def from_bytes(raw: np.ndarray, dtype: str) -> torch.Tensor:
    """Return a flat tensor of a dtype token that shares these bytes."""
    return (
        torch.from_numpy(raw).view(DTYPES_OF_TORCH[dtype])
        if raw.size
        else torch.empty(0, dtype=DTYPES_OF_TORCH[dtype])
    )


DTYPES_OF_TORCH: dict[str, torch.dtype] = {
    token: getattr(torch, facts.name) for token, facts in DTYPES.items()
}
"""PyTorch's dtype of each token."""
