"""Writes, prints and compares the outputs of ``ftm run``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ftm_backend import safe_names
from ftm_backend.cli_common import UserError, naming, say
from ftm_backend.ir.asm.program import AsmProgram
from ftm_backend.machine import array_compare
from ftm_backend.perf_model import cycle_model
from ftm_backend.target import presets
from ftm_backend.tools.input_files import naming_file, read_array


class Result(NamedTuple):
    """One output. ``dtype`` is a token; bf16 arrays are their bits in uint16."""

    name: str
    dtype: str
    array: np.ndarray


def print_profile(subject: Path, program: AsmProgram | str, options: argparse.Namespace) -> None:
    """Print the modelled profile of a program."""
    with naming(f"--profile: {subject}", presets.UnknownPreset, cycle_model.WalkError, ValueError):
        limit = min(options.instructions, cycle_model.WALK_LIMIT)
        say(
            cycle_model.model(
                program, machine=options.machine, cores=options.cores, limit=limit
            ).table()
        )


def output_files(declared: Sequence[str], folder: Path | None) -> list[Path]:
    """Return FOLDER/NAME.npy for each output, or nothing without a folder.

    Raises:
        UserError: A declared name cannot be a file name.
    """
    if folder is None:
        return []
    with naming("outputs", safe_names.InvalidName):
        return [safe_names.file_in(folder, name, ".npy") for name in declared]


def write_outputs(results: Sequence[Result], folder: Path | None) -> None:
    """Write each output to FOLDER/NAME.npy."""
    if folder is None:
        return
    files = output_files([result.name for result in results], folder)
    folder.mkdir(parents=True, exist_ok=True)
    for file, result in zip(files, results, strict=True):
        with naming_file(file):
            np.save(file, result.array)


def report(results: Sequence[Result], folder: Path | None, options: argparse.Namespace) -> int:
    """Print one line per output; return 1 if one differs from the expected array in the folder."""
    expected: Sequence[Path | None] = output_files([result.name for result in results], folder) or [
        None
    ] * len(results)
    differing = 0
    for result, path in zip(results, expected, strict=True):
        summary = array_compare.summary(result.array, result.dtype)
        line = f"{result.name}  {result.dtype} {list(result.array.shape)}  {summary}"
        if path is not None and path.exists():
            wanted = fitting(
                read_array(path),
                path,
                f"output {result.name}",
                result.array.dtype,
                result.array.shape,
                result.dtype,
            )
            difference = array_compare.difference(
                result.array, wanted, result.dtype, options.rtol, options.atol
            )
            differing += difference is not None
            line += f"  {difference or 'equal within tolerance'}"
        elif options.compare is not None:
            raise UserError(f"--compare: {path} does not exist")
        say(line)
    return 1 if differing else 0


def missing_input(program: Path, name: str, dtype: str, shape: Sequence[int]) -> UserError:
    """Make the error for an input that the command line does not give."""
    return UserError(
        f"{program}: no array for input {name} ({dtype} {list(shape)}): give --in {name}=FILE.npy, "
        "or --random"
    )


def fitting(
    array: np.ndarray, path: Path, what: str, dtype: np.dtype, shape: Sequence[int], token: str
) -> np.ndarray:
    """Return a file's array in the declared shape; UserError if dtype or size differ."""
    if array.dtype != dtype:
        hint = " (bf16 is given as its bits, in uint16)" if token == "bf16" else ""
        raise UserError(f"{path}: {what} is {dtype}, the file has {array.dtype}{hint}")
    if array.size != np.prod(shape, dtype=object):
        raise UserError(f"{path}: {what} has shape {list(shape)}, the file {list(array.shape)}")
    return np.ascontiguousarray(array).reshape(shape)  # which makes 0-dim arrays 1-dim
