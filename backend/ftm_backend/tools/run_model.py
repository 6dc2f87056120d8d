"""``ftm-run model.ftm``: runs a packaged model on arrays from files or on random ones."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from ftm_backend import runtime
from ftm_backend.dtypes import DTYPES
from ftm_backend.machine import MachineError
from ftm_backend.runtime.model import Tensor

__all__ = ["run_model"]


def run_model(options: argparse.Namespace) -> int:
    """Runs the package that the command line of ``ftm-run`` names; gives the exit code."""
    try:
        model = runtime.load(options.program, cores=options.cores, checked=options.checked)
        model.seed(options.seed)
        given = dict(_assignment(word) for word in options.inputs)
        unknown = sorted(set(given) - {tensor.name for tensor in model.inputs})
        if unknown:
            names = ", ".join(tensor.name for tensor in model.inputs)
            raise runtime.PackageError(f"--in {unknown[0]}: the model has no such input; it has {names}")
        generator = np.random.default_rng(options.seed) if options.random else None
        results = model(*(_array(tensor, given.get(tensor.name), generator) for tensor in model.inputs))
    except (runtime.PackageError, MachineError) as error:
        print(f"ftm-run: {error}", file=sys.stderr)
        return 1 if isinstance(error, MachineError) else 2
    arrays = results if isinstance(results, tuple) else (results,)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
    for output, array in zip(model.outputs, arrays, strict=True):
        print(f"{output.name}  {output.dtype} {list(output.sizes)}  {_summary(array)}")
        if options.out is not None:
            np.save(options.out / f"{output.name}.npy", array)
    return 0


def _assignment(word: str) -> tuple[str, str]:
    name, equals, path = word.partition("=")
    if not equals:
        raise runtime.PackageError(f"--in {word}: expected NAME=FILE.npy")
    return name, path


def _array(tensor: Tensor, path: str | None, generator: np.random.Generator | None) -> np.ndarray:
    dtype = np.dtype(DTYPES[tensor.dtype].numpy)
    if path is not None:
        try:
            return np.load(Path(path), allow_pickle=False)
        except ValueError as error:
            raise runtime.PackageError(f"{path} is no .npy array: {error}") from None
    if generator is None:
        raise runtime.PackageError(
            f"no array for input {tensor.name} ({tensor.dtype} {list(tensor.shape)}): give --in {tensor.name}=FILE.npy, or --random"
        )
    if dtype.kind == "f":
        return generator.standard_normal(tensor.shape).astype(dtype)
    return generator.integers(0, 2, tensor.shape).astype(dtype)


def _summary(array: np.ndarray) -> str:
    if not array.size or array.dtype.kind not in "fiu":
        return f"{array.size} elements"
    wide = array.astype(np.float64)
    return f"min {wide.min():.6g}  max {wide.max():.6g}  mean {wide.mean():.6g}"
