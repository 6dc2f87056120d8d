"""What is run for an entry of module_db.

| check | what must agree with the CPU |
|---|---|
| train | the results and the buffers of every input, in training mode |
| eval | the results of every input, in evaluation mode |
| backward | the gradients of inputs and parameters, for random cotangents |
| copies | results of the module loaded from a state dict, deeply copied and pickled |
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator
from typing import Any

import torch

# by this name, the engine's search for what is random does not change it
from torch import manual_seed as seed
from torch import nn

from opdb.compare import Tolerance
from opdb.engine import Case, Leaf
from opdb.op_checks import gradients, leaves
from opdb.place import Place

__all__ = ["CHECKS", "DTYPES", "applies", "cases", "tolerance"]

CHECKS = ("train", "eval", "backward", "copies")
DTYPES = (torch.float32, torch.float64)
"""Checked dtypes: those of module_db on the CPU."""

_SEED = 5


def applies(info: Any, dtype: torch.dtype, check: str) -> bool:
    """Whether the entry has the check in this dtype: all of them in all it supports."""
    return dtype in info.supported_dtypes("cpu")


def tolerance(info: Any, dtype: torch.dtype) -> Tolerance:
    """The entries have no overrides for a comparison with the CPU."""
    return Tolerance()


def cases(info: Any, dtype: torch.dtype, check: str) -> Iterator[Case]:
    """The cases of one check."""
    seed(_SEED)
    training = check != "eval"
    inputs = info.module_inputs_func(
        info, device="cpu", dtype=dtype, requires_grad=check == "backward", training=training
    )
    for index, given in enumerate(inputs):
        if given.forward_input is not None:
            yield Case(f"input {index} {given.desc}".strip(), _Run(info, dtype, check, given))


class _Run:
    """Creates the module on a device and runs a check."""

    def __init__(self, info: Any, dtype: torch.dtype, check: str, given: Any) -> None:
        self._info = info
        self._dtype = dtype
        self._check = check
        self._given = given

    def __call__(self, place: Place) -> list[Leaf]:
        module = self._make(place).train(self._check != "eval")
        forward = self._given.forward_input
        args, kwargs = arguments = place.put((forward.args, forward.kwargs))
        if self._info.is_lazy:
            self._materialize(module, args, kwargs)
        if self._check == "copies":
            return self._copies(module, place, args, kwargs)
        torch.manual_seed(_SEED)
        result = module(*args, **kwargs)
        if self._check == "backward":
            return gradients(place, result, [arguments, list(module.parameters())])
        return leaves("result", result) + [
            (f"buffer {name}", value) for name, value in module.named_buffers()
        ]

    def _materialize(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """A lazy module draws its parameters at the place, where random numbers are others: they
        become the same."""
        generator = torch.Generator().manual_seed(_SEED)
        with torch.no_grad():
            module(*args, **kwargs)
            for parameter in module.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))

    def _make(self, place: Place) -> nn.Module:
        seed(_SEED)
        given = self._given.constructor_input
        module = self._info.module_cls(*given.args, **given.kwargs)
        with torch.no_grad():
            return module.to(self._dtype).to(device=place.device, dtype=place.dtype(self._dtype))

    def _copies(self, module: nn.Module, place: Place, args: Any, kwargs: Any) -> list[Leaf]:
        file = io.BytesIO()
        torch.save(module.state_dict(), file)
        file.seek(0)
        loaded = self._make(place)
        with torch.no_grad():
            for parameter in loaded.parameters():
                if not nn.parameter.is_lazy(parameter):
                    parameter.zero_()
        loaded.load_state_dict(torch.load(file, map_location=place.device))
        copies = {
            "loaded": loaded,
            "copied": copy.deepcopy(module),
            "pickled": pickle.loads(pickle.dumps(module)),
        }
        found: list[Leaf] = []
        for name, twin in copies.items():
            torch.manual_seed(_SEED)
            found += leaves(name, twin(*args, **kwargs))
            found += [(f"{name} {key}", value) for key, value in twin.state_dict().items()]
        return found
