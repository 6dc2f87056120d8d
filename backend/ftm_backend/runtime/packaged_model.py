"""A packaged model, loaded: its program on a machine, its weights, its inputs and outputs.

Sections of the file:

    manifest    JSON: format, machine, inputs, outputs, weights, draws (see `Manifest`)
    image       the image that the machine loads
    asm         the same program as assembly text, for people
    parameters  i64 pairs, one for each input of the program: its source (k >= 0: section
                ``weight.k``; -1 - k: input k of the model) and the byte at which it starts there
    results     i64, one for each output of the program: the weight k that it is the new content of,
                -1 - k for input k, or 2**62 for neither
    weight.K    the bytes of weight K, as in memory
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ftm_backend import safe_names
from ftm_backend.dtypes import DTYPES
from ftm_backend.machine import Machine, MachineError
from ftm_backend.machine.emulator import TensorArgument
from ftm_backend.runtime.package_file import PackageError, read, write

MODEL_FORMAT = "ftm model"

INSTRUCTION_LIMIT = 10 * 10**9
"""Limit for one core in one run: about ten seconds of scalar instructions, or hours of others."""

KEEPS = 2**62
"""In ``results``: the program's output replaces neither a weight nor an input."""


@dataclass(frozen=True)
class TensorInfo:
    """A dense, row-major tensor. ``dtype`` is a token; bf16 arrays are their bits in uint16."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Size of its elements in bytes."""
        return math.prod(self.shape) * np.dtype(DTYPES[self.dtype].numpy).itemsize


@dataclass(frozen=True)
class OutputInfo:
    """An output: a strided view, in elements, of a result, input or weight.

    Attributes:
        name: Its name.
        source: ``result``, ``input`` or ``weight``.
        index: Number of that tensor.
        dtype: Token.
        sizes: Extents.
        strides: Strides.
        offset: First element.
    """

    name: str
    source: str
    index: int
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class Manifest:
    """Metadata of a package.

    Attributes:
        machine: Preset that the program is compiled for.
        inputs: Inputs of the model.
        outputs: Outputs of the model.
        weights: Names of the weights.
        draws: For each scalar of the program, ("seed", 0) or ("offset", number of the draw).
        draws_made: Random draws of one run.
    """

    machine: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[OutputInfo, ...]
    weights: tuple[str, ...]
    draws: tuple[tuple[str, int], ...] = ()
    draws_made: int = 0

    def to_json(self) -> bytes:
        """Return the section's content."""
        return json.dumps({"format": MODEL_FORMAT, **asdict(self)}, indent=1).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Manifest:
        """Parse a section; raise PackageError if it is no manifest."""
        try:
            raw = json.loads(data)
            if raw.pop("format") != MODEL_FORMAT:
                raise ValueError("the format is another one")
            inputs = tuple(
                TensorInfo(_name(t["name"]), _token(t["dtype"]), _sizes(t["shape"]))
                for t in raw.pop("inputs")
            )
            outputs = tuple(
                OutputInfo(
                    _name(o["name"]),
                    _source(o["source"]),
                    _count(o["index"]),
                    _token(o["dtype"]),
                    _sizes(o["sizes"]),
                    _sizes(o["strides"]),
                    _count(o["offset"]),
                )
                for o in raw.pop("outputs")
            )
            draws = tuple((str(kind), _count(number)) for kind, number in raw.pop("draws"))
            return cls(
                _name(raw["machine"]),
                inputs,
                outputs,
                tuple(map(_name, raw["weights"])),
                draws,
                _count(raw["draws_made"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise PackageError(f"the package's manifest is damaged: {error}") from None


def _name(value: object) -> str:
    if not isinstance(value, str) or not safe_names.is_printable(value):
        raise ValueError(f"{safe_names.shortened(ascii(value))} is no name")
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**48:
        raise ValueError(f"{value!r} is no count")
    return value


def _sizes(values: Sequence[int]) -> tuple[int, ...]:
    if len(values) > 64:
        raise ValueError("a tensor has at most 64 dimensions")
    return tuple(map(_count, values))


def _token(value: object) -> str:
    if value not in DTYPES:
        raise ValueError(f"{value!r} is no dtype")
    return str(value)


def _source(value: object) -> str:
    if value not in ("result", "input", "weight"):
        raise ValueError(f"{value!r} is no source of an output")
    return str(value)


def save(
    path: str | Path,
    manifest: Manifest,
    image: bytes,
    asm: str,
    weights: Sequence[np.ndarray],
    parameters: Sequence[tuple[int, int]],
    results: Sequence[int],
) -> None:
    """Write a package; the arguments are the sections above. OSError if it cannot be written."""
    sections: dict[str, bytes | np.ndarray] = {
        "manifest": manifest.to_json(),
        "image": image,
        "asm": asm.encode(),
        "parameters": b"".join(struct.pack("<qq", *pair) for pair in parameters),
        "results": b"".join(struct.pack("<q", number) for number in results),
        **{f"weight.{k}": weight for k, weight in enumerate(weights)},
    }
    write(path, sections)


def load(
    path: str | Path,
    *,
    cores: int = 0,
    checked: bool = False,
    library: str | Path | None = None,
    instructions: int = INSTRUCTION_LIMIT,
) -> PackagedModel:
    """Load a packaged model.

    Args:
        path: A file that `ftm_lazy.package` wrote.
        cores: Cores of the machine; 0: as many as the process may use.
        checked: Detect more faults, slowly.
        library: A machine library (``.so``); the emulator if None.
        instructions: Instructions of one core after which a run faults; 0: unlimited.

    Returns:
        The model; call it with arrays.

    Raises:
        PackageError: The file is no package, is damaged, or its program does not fit its manifest.
        MachineError: The machine cannot be opened.
        OSError: The file cannot be read.
    """
    return PackagedModel(
        read(path), str(path), Machine(cores, checked, library=library, instructions=instructions)
    )


class PackagedModel:
    """A loaded model: call it with arrays, by position or by name.

    A program may update weights. The update lasts for this process and is not written to the file.

    Attributes:
        inputs: Names, dtypes and shapes of the inputs.
        outputs: Likewise of the outputs.
    """

    def __init__(self, sections: Mapping[str, np.ndarray], where: str, machine: Machine) -> None:
        missing = [
            name for name in ("manifest", "image", "parameters", "results") if name not in sections
        ]
        if missing:
            raise PackageError(f"{where} is damaged: it has no section {missing[0]!r}")
        self._where, self._machine = where, machine
        self.manifest = Manifest.from_json(sections["manifest"].tobytes())
        self.inputs, self.outputs = self.manifest.inputs, self.manifest.outputs
        try:
            self._weights = [sections[f"weight.{k}"] for k in range(len(self.manifest.weights))]
            self._program = machine.load(sections["image"].tobytes())
        except KeyError as error:
            raise PackageError(f"{where} is damaged: it has no section {error}") from None
        except MachineError as error:
            raise PackageError(f"{where} is damaged: {error}") from None
        self._parameters = _pairs(sections["parameters"], where)
        self._results = _numbers(sections["results"], where)
        self._check()
        self._seed, self._offset = int.from_bytes(os.urandom(7), "little"), 0

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """Current bytes (uint8) of each weight, by name."""
        return dict(zip(self.manifest.weights, self._weights, strict=True))

    def seed(self, seed: int) -> None:
        """Restart random numbers as ``torch.manual_seed(seed)`` does on ftm."""
        self._seed, self._offset = seed, 0

    def __call__(self, *arrays: object, **named: object) -> Any:
        """Run the model.

        Args:
            *arrays: One array per input, of its shape and dtype.
            **named: Inputs by name.

        Returns:
            An array for a model with one output, else a tuple in the order of ``outputs``.

        Raises:
            PackageError: An array does not fit.
            MachineError: The program faults, for example by an index out of bounds; the message has
                the line of assembly.
        """
        given = [
            self._checked(tensor, array)
            for tensor, array in zip(self.inputs, self._bound(arrays, named), strict=True)
        ]
        inputs = []
        for (source, start), tensor in zip(self._parameters, self._program.inputs, strict=True):
            raw = self._bytes(source, given)
            nbytes = _nbytes(tensor)
            inputs.append(raw[start : start + nbytes].view(tensor.dtype).reshape(tensor.shape))
        scalars = [
            self._seed if kind == "seed" else self._offset + number
            for kind, number in self.manifest.draws
        ]
        self._offset += self.manifest.draws_made
        results = self._program.run(inputs, scalars)
        for target, result in zip(self._results, results, strict=True):
            if target != KEEPS:
                self._bytes(target, given)[:] = result.reshape(-1).view(np.uint8)
        outputs = tuple(self._output(output, results, given) for output in self.outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def _bytes(self, source: int, given: list[np.ndarray]) -> np.ndarray:
        return self._weights[source] if source >= 0 else given[-1 - source]

    def _bound(self, arrays: tuple[object, ...], named: dict[str, object]) -> list[object]:
        names = [tensor.name for tensor in self.inputs]
        missing = names[len(arrays) :]
        if len(arrays) > len(names) or set(named) != set(missing):
            signature = ", ".join(f"{t.name}: {t.dtype}{list(t.shape)}" for t in self.inputs)
            raise PackageError(
                f"{self._where} takes {signature}; {len(arrays)} arrays and the names "
                f"{sorted(named)} were given"
            )
        return [*arrays, *(named[name] for name in missing)]

    @staticmethod
    def _checked(tensor: TensorInfo, array: object) -> np.ndarray:
        """Return the bytes of an argument, copied if it is not contiguous."""
        array = np.asarray(array)
        wanted = np.dtype(DTYPES[tensor.dtype].numpy)
        if array.dtype != wanted:
            raise PackageError(
                f"input {tensor.name} is {wanted}, found {array.dtype}: convert the array"
            )
        if array.shape != tensor.shape:
            raise PackageError(
                f"input {tensor.name} is {wanted} of shape {list(tensor.shape)}, found "
                f"{array.dtype} of shape {list(array.shape)}: programs have static shapes, "
                "package the model for this one"
            )
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8)

    def _output(
        self, output: OutputInfo, results: list[np.ndarray], given: list[np.ndarray]
    ) -> np.ndarray:
        if output.source == "result":
            raw = results[output.index].reshape(-1).view(np.uint8)
        else:
            raw = self._weights[output.index] if output.source == "weight" else given[output.index]
        flat = raw.view(np.dtype(DTYPES[output.dtype].numpy))
        step = flat.itemsize
        view = np.lib.stride_tricks.as_strided(
            flat[output.offset :], output.sizes, [s * step for s in output.strides]
        )
        dense = output.source == "result" and view.flags.c_contiguous
        return view if dense else view.copy()

    def _check(self) -> None:
        """Check all sizes in the file against each other, before anything is accessed by them."""
        program = self._program
        if len(self._parameters) != len(program.inputs) or len(self._results) != len(
            program.outputs
        ):
            self._damaged("its program has another number of inputs or outputs")
        if len(self.manifest.draws) != len(program.scalars):
            self._damaged("its program has another number of scalars")
        for (source, start), tensor in zip(self._parameters, program.inputs, strict=True):
            if (
                start < 0
                or start % tensor.dtype.itemsize
                or start + _nbytes(tensor) > self._size(source)
            ):
                self._damaged(f"input {tensor.name} of its program lies outside of its tensor")
        for target, tensor in zip(self._results, program.outputs, strict=True):
            if target != KEEPS and self._size(target) != _nbytes(tensor):
                self._damaged(
                    f"output {tensor.name} of its program has another size than what it replaces"
                )
        self._check_outputs()

    def _check_outputs(self) -> None:
        sources = {
            "result": [_nbytes(tensor) for tensor in self._program.outputs],
            "input": [tensor.nbytes for tensor in self.inputs],
            "weight": [weight.nbytes for weight in self._weights],
        }
        for output in self.outputs:
            sizes = sources[output.source]
            step = np.dtype(DTYPES[output.dtype].numpy).itemsize
            if (
                output.index >= len(sizes)
                or len(output.sizes) != len(output.strides)
                or sizes[output.index] % step
            ):
                self._damaged(f"output {output.name} is of nothing that it has")
            last = output.offset + sum(
                (n - 1) * s for n, s in zip(output.sizes, output.strides, strict=True)
            )
            if math.prod(output.sizes) and (last + 1) * step > sizes[output.index]:
                self._damaged(f"output {output.name} lies outside of its tensor")

    def _size(self, source: int) -> int:
        if not -len(self.inputs) <= source < len(self._weights):
            self._damaged(f"it has no tensor {source}")
        return self._weights[source].nbytes if source >= 0 else self.inputs[-1 - source].nbytes

    def _damaged(self, why: str) -> None:
        raise PackageError(f"{self._where} is damaged: {why}")


def _nbytes(tensor: TensorArgument) -> int:
    return math.prod(tensor.shape) * tensor.dtype.itemsize


def _numbers(section: np.ndarray, where: str) -> list[int]:
    if section.nbytes % 8:
        raise PackageError(f"{where} is damaged: a table of numbers is cut short")
    return [int(n) for n in section.view("<i8")]


def _pairs(section: np.ndarray, where: str) -> list[tuple[int, int]]:
    numbers = _numbers(section, where)
    if len(numbers) % 2:
        raise PackageError(f"{where} is damaged: a table of pairs is cut short")
    return list(zip(numbers[::2], numbers[1::2], strict=True))
