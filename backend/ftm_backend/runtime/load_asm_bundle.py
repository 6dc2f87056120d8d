"""Runs the assembly that ``ftm compile`` wrote: ``model.lan``, its weights, and a manifest.

The manifest is JSON:

    format    "ftm assembly"
    machine   preset that the model is compiled for
    inputs    name, dtype and shape of each input of the model
    buffers   for each input of the program: ``buffer``, its name; ``kind`` and ``name`` of the
              weight or input that it is a part of; ``byte``, where the part starts
    scalars   name to ("seed", 0) or ("offset", number of the draw)
    outputs   name, dtype, sizes, strides and offset (in elements) of each output of the model. It
              is a view of a program's output (``kind`` is ``result``, ``buffer`` its name), or of
              the weight or input named by ``of``
    replaced  program's outputs (``buffer``) that are the new content of a weight or an input
              (``kind`` and ``name``)

The weights file (``.npz`` or ``.safetensors``) has one array per buffer that is part of a weight,
under the buffer's name. It also has, under ``of.NAME``, the bytes of each whole weight that an
output of the model is a view of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ftm_backend.ir.asm.program import AsmProgram
from ftm_backend.machine import Machine
from ftm_backend.runtime.package_file import PackageError
from ftm_backend.runtime.packaged_model import KEEPS, MODEL_FORMAT, PackagedModel
from ftm_backend.target.element_types import BY_TOKEN

FORMAT = "ftm assembly"
WHOLE = "of."
"""Prefix of the names of arrays that are whole weights."""


def load_compiled(
    where: Path,
    program: AsmProgram,
    image: bytes,
    manifest: Mapping[str, object],
    arrays: Mapping[str, np.ndarray],
    machine: Machine,
) -> PackagedModel:
    """Make the model of an assembly file, for one call: new contents of weights are not kept.

    Args:
        where: The assembly file, for messages.
        program: Its content, parsed.
        image: Its content, assembled.
        manifest: The JSON object of the manifest.
        arrays: Those of the weights file.
        machine: Where it runs.

    Raises:
        PackageError: The parts do not fit together.
    """
    try:
        return PackagedModel(_sections(program, image, manifest, arrays), str(where), machine)
    except PackageError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise PackageError(
            f"{where} does not fit its manifest and weights: {type(error).__name__}: {error}"
        ) from None


def _sections(
    program: AsmProgram, image: bytes, manifest: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the sections of an equivalent package; see `ftm_backend.runtime.packaged_model`."""
    inputs = [tensor["name"] for tensor in manifest["inputs"]]
    results = {buffer.name: number for number, buffer in enumerate(program.buffers("out"))}
    replaced = {(entry["kind"], entry["name"]): entry["buffer"] for entry in manifest["replaced"]}
    weights = {
        b["buffer"]: _bytes(arrays[b["buffer"]])
        for b in manifest["buffers"]
        if b["kind"] == "weight"
    }
    for output in manifest["outputs"]:
        if output["kind"] == "weight":
            new = replaced.get(("weight", output["of"]))
            whole = f"{WHOLE}{output['of']}"
            weights[whole] = (
                _bytes(arrays[whole]) if new is None else np.zeros(_size(program, new), np.uint8)
            )
    numbers = {name: number for number, name in enumerate(weights)}

    entries = {b["buffer"]: b for b in manifest["buffers"]}
    parameters: list[int] = []
    for buffer in program.buffers("in"):
        entry = entries[buffer.name]
        part_of_weight = entry["kind"] == "weight"
        parameters += (
            (numbers[buffer.name], 0)
            if part_of_weight
            else (-1 - inputs.index(entry["name"]), int(entry["byte"]))
        )
    targets = [KEEPS] * len(results)
    for (kind, name), buffer_name in replaced.items():
        target = (
            numbers.get(f"{WHOLE}{name}", KEEPS) if kind == "weight" else -1 - inputs.index(name)
        )
        targets[results[buffer_name]] = target

    package = {
        "format": MODEL_FORMAT,
        "machine": manifest["machine"],
        "inputs": manifest["inputs"],
        "outputs": [_output(output, results, inputs, numbers) for output in manifest["outputs"]],
        "weights": list(weights),
        "draws": [manifest["scalars"][scalar.name] for scalar in program.scalars()],
        "draws_made": 0,
    }
    return {
        "manifest": np.frombuffer(json.dumps(package).encode(), np.uint8),
        "image": np.frombuffer(image, np.uint8),
        "parameters": np.array(parameters, "<i8").view(np.uint8),
        "results": np.array(targets, "<i8").view(np.uint8),
        **{f"weight.{number}": content for number, content in enumerate(weights.values())},
    }


def _output(
    output: Mapping[str, Any],
    results: Mapping[str, int],
    inputs: list[str],
    weights: Mapping[str, int],
) -> dict[str, object]:
    kind = output["kind"]
    if kind == "result":
        index = results[output["buffer"]]
    else:
        index = inputs.index(output["of"]) if kind == "input" else weights[f"{WHOLE}{output['of']}"]
    return {key: output[key] for key in ("name", "dtype", "sizes", "strides", "offset")} | {
        "source": kind,
        "index": index,
    }


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _size(program: AsmProgram, name: str) -> int:
    (buffer,) = (buffer for buffer in program.buffers("out") if buffer.name == name)
    return buffer.elements * BY_TOKEN[buffer.dtype].bytes
