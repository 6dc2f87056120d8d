"""A captured model's program as a function of NumPy arrays, to run it outside of the device.

The Python numbers of the capture become constants of the trace, except for the seed and offset of
random draws, which stay inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ftm_backend.dtypes import DTYPES
from ftm_lazy.compile.trace_importer import trace_of
from ftm_lazy.frontends.captured_model import CapturedModel


class NumpyProgram:
    """Maps a model's tensors to the arrays of its program, and back.

    A *source* is a weight k >= 0, or the input -1 - k.

    Args:
        model: The captured model.

    Attributes:
        trace: The program, with its numbers as constants.
        weights: Name to flat uint8 array [bytes] of the weights, then of the capture's constants.
        inputs: Names of the inputs.
        parameters: For each parameter of the trace its source and the byte at which it begins.
        draws: For each scalar of the trace ("seed", 0) or ("offset", number of the draw).
        draws_made: Number of draws in one run.
        results: For each result of the trace the source that it replaces, or None.
        outputs: For each output of the model (name, "result", "weight" or "input", index, dtype
            token, sizes, strides, offset): a strided view of that array.
    """

    def __init__(self, model: CapturedModel) -> None:
        self.model = model
        captured = model.captured
        drawn: dict[int, tuple[str, int]] = {}
        for seed, offset, number in captured.draws:
            drawn[seed], drawn[offset] = ("seed", 0), ("offset", number)
        values = [None if i in drawn else value for i, value in enumerate(captured.scalars)]
        self.trace = trace_of(captured.trace).with_scalars(values)
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
        """Return a placeholder's source."""
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
        constant: object,
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
        """Return the program's parameters for these inputs of the model, as copies.

        Args:
            inputs: Tensors of the captured shapes and dtypes, on any device.

        Returns:
            One array for each parameter of the trace, of its shape and dtype.
        """
        weight_bytes = [*self.weights.values()]
        input_bytes = [flat_bytes(tensor.detach().cpu().contiguous()) for tensor in inputs]
        arrays = []
        for type_, (source, start) in zip(self.trace.params, self.parameters, strict=True):
            raw = weight_bytes[source] if source >= 0 else input_bytes[-1 - source]
            dtype = np.dtype(DTYPES[type_.dtype].numpy)
            content = raw[start : start + type_.numel * dtype.itemsize].copy()
            arrays.append(content.view(dtype).reshape(type_.shape))
        return arrays

    def scalars(self) -> list[int]:
        """Return seed and offsets from the default generator, without advancing it."""
        state = np.frombuffer(bytes(torch.ftm.get_rng_state().numpy()), np.uint64)
        return [
            int(state[0]) if kind == "seed" else int(state[1]) + number
            for kind, number in self.draws
        ]

    def nested(self, results: Sequence[np.ndarray], inputs: Sequence[torch.Tensor]) -> object:
        """Return the model's outputs from the program's results.

        Args:
            results: The arrays that the program returned.
            inputs: The inputs of the run, which outputs may be views of.

        Returns:
            CPU tensors in the nesting (pytree) of the model's result.
        """
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
    """Return the memory of a dense CPU tensor as a uint8 array [bytes] that shares it."""
    if not tensor.numel():
        return np.empty(0, np.uint8)
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.detach().as_strided((extent,), (1,)).view(torch.uint8).numpy()


def from_bytes(raw: np.ndarray, dtype: str) -> torch.Tensor:
    """Return a 1-d tensor that shares these bytes.

    Args:
        raw: A uint8 array.
        dtype: The tensor's dtype token.
    """
    return (
        torch.from_numpy(raw).view(DTYPES_OF_TORCH[dtype])
        if raw.size
        else torch.empty(0, dtype=DTYPES_OF_TORCH[dtype])
    )


DTYPES_OF_TORCH: dict[str, torch.dtype] = {
    token: getattr(torch, facts.name) for token, facts in DTYPES.items()
}
"""Dtype token to PyTorch's dtype."""
