"""``ftm-run``: runs an assembly file on the machine, on arrays from files or on random ones.

ftm-run axpb.lan --in b0=x.npy --out results
ftm-run axpb.lan --random --seed 1 --checked
ftm-run dump/0003_step --checked            # a folder: program, inputs and expected outputs together
ftm-run axpb.lan --profile                  # modelled cycles of each kernel, without running
ftm-run model.ftm --in x0=x.npy             # a packaged model
"""

from __future__ import annotations

import argparse
import json
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ftm_backend import isa
from ftm_backend.instructions.types import BY_TOKEN
from ftm_backend.isa.program import Buffer, Program, ScalarArgument
from ftm_backend.machine import compare, cycles, presets
from ftm_backend.tools.files import read_text

_MOST_CORES = 256
_INT64 = range(-(2**63), 2**63)


class UsageError(Exception):
    """The command line or a file that it names does not fit the program; the message says what to do."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(
        prog="ftm-run",
        description="Run a matrix assembly program (.lan) on the machine.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="""\
A folder in place of a file holds one .lan, and beside it NAME.npy for each input, scalars.json
({"s0": 1.5}) and, where outputs are to be compared, NAME.npy for outputs.  bf16 arrays are their
bits in uint16.  Exit status: 0 done, 1 outputs differ or the program faulted, 2 wrong usage.""",
    )
    p.add_argument("program", type=Path, help="a .lan file, a folder with one (see below), or a packaged model (.ftm)")
    p.add_argument("--in", dest="inputs", action="append", default=[], metavar="NAME=FILE.npy", help="array for an input; repeat for each")
    p.add_argument("--scalar", action="append", default=[], metavar="NAME=VALUE", help="value of a scalar argument")
    p.add_argument("--random", action="store_true", help="random values for inputs and scalars that are not given")
    p.add_argument("--seed", type=int, default=0, help="seed of --random (default 0)")
    p.add_argument("--out", type=Path, metavar="DIR", help="write each output to DIR/NAME.npy")
    p.add_argument("--compare", type=Path, metavar="DIR", help="compare outputs with DIR/NAME.npy")
    p.add_argument("--rtol", type=float, default=1e-5, help="relative tolerance of comparisons (default 1e-5)")
    p.add_argument("--atol", type=float, default=1e-6, help="absolute tolerance of comparisons (default 1e-6)")
    p.add_argument("--checked", action="store_true", help="find reads of unwritten data and slots in flight, too")
    p.add_argument("--cores", type=int, default=1, help="number of cores (default 1)")
    p.add_argument(
        "--profile",
        action="store_true",
        help="print modelled cycles, DMA bytes and utilisation of each kernel; runs the program only when inputs are given too",
    )
    p.add_argument("--machine", metavar="PRESET", help="preset to model in --profile (default: the program's own)")
    return p


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    options = parser().parse_args(arguments)
    try:
        if options.program.suffix == ".ftm":
            from ftm_backend.tools.run_model import run_model

            return run_model(options)
        return _run(options)
    except OSError as error:
        print(f"ftm-run: {error.filename}: {error.strerror}", file=sys.stderr)
    except (UsageError, isa.AsmError) as error:
        print(f"ftm-run: {error}", file=sys.stderr)
    except MemoryError as error:
        print(f"ftm-run: there is not enough memory for the program's arrays: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("ftm-run: interrupted", file=sys.stderr)
        return 130
    return 2


def _run(options: argparse.Namespace) -> int:
    path, folder = _locate(options.program)
    program = isa.parse(_text(path))
    image = isa.assemble(program)
    if not 1 <= options.cores <= _MOST_CORES:
        raise UsageError(f"--cores {options.cores}: expected at least one core, and at most {_MOST_CORES}")
    if options.seed < 0:
        raise UsageError(f"--seed {options.seed}: expected 0 or more")
    if options.profile:
        try:
            print(cycles.model(program, machine=options.machine, cores=options.cores).table())
        except (presets.UnknownPreset, cycles.WalkError) as error:
            raise UsageError(f"--profile: {error}") from None
        if not (options.inputs or options.random or folder):
            return 0
    data = Data(program, folder, options)
    outputs = _execute(image, data.inputs(), data.scalars(), options)
    if outputs is None:
        return 1
    named = dict(zip([b.name for b in program.buffers("out")], outputs, strict=True))
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        for name, array in named.items():
            np.save(options.out / f"{name}.npy", array)
    return _report(program, named, options.compare or folder, options)


def _locate(path: Path) -> tuple[Path, Path | None]:
    """The assembly file, and the folder with its data if a folder was named."""
    if not path.is_dir():
        return path, None
    found = sorted(path.glob("*.lan"))
    if len(found) != 1:
        raise UsageError(f"{path} has {len(found)} .lan files; name one of them" if found else f"{path} has no .lan file")
    return found[0], path


def _named(words: list[str], flag: str, known: list[str]) -> dict[str, str]:
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"{flag} {word}: expected NAME=VALUE")
        if name not in known:
            raise UsageError(f"{flag} {word}: the program has no {name!r}; it has {', '.join(known) or 'none'}")
        pairs[name] = value
    return pairs


class Data:
    """Where a run's inputs and scalars come from: the command line, then the folder, then random numbers."""

    def __init__(self, program: Program, folder: Path | None, options: argparse.Namespace) -> None:
        self.program, self.folder = program, folder
        self.files = _named(options.inputs, "--in", [b.name for b in program.buffers("in")])
        self.values = _named(options.scalar, "--scalar", [s.name for s in program.scalars()])
        self.generator = np.random.default_rng(options.seed) if options.random else None

    def inputs(self) -> list[np.ndarray]:
        """One array for each input, of its type and shape."""
        return [self._input(buffer) for buffer in self.program.buffers("in")]

    def _input(self, buffer: Buffer) -> np.ndarray:
        if buffer.name in self.files:
            return _load(Path(self.files[buffer.name]), buffer)
        if self.folder is not None and (self.folder / f"{buffer.name}.npy").exists():
            return _load(self.folder / f"{buffer.name}.npy", buffer)
        if self.generator is not None:
            return compare.random_array(self.generator, buffer)
        raise UsageError(
            f"no array for input {buffer.name} ({buffer.dtype} {list(buffer.shape)}): give --in {buffer.name}=FILE.npy, or --random"
        )

    def scalars(self) -> list[float | int]:
        """One number for each scalar argument."""
        values: dict[str, Any] = {}
        if self.folder is not None and (self.folder / "scalars.json").exists():
            values = _object(self.folder / "scalars.json")
        values |= self.values
        return [self._scalar(scalar, values.get(scalar.name)) for scalar in self.program.scalars()]

    def _scalar(self, scalar: ScalarArgument, value: Any) -> float | int:
        if value is None:
            if self.generator is None:
                raise UsageError(f"no value for scalar {scalar.name} ({scalar.dtype}): give --scalar {scalar.name}=VALUE")
            value = self.generator.uniform(0.1, 1.0) if scalar.dtype == "f64" else self.generator.integers(0, 8)
        try:
            number = float(value) if scalar.dtype == "f64" else int(value)
        except (TypeError, ValueError, OverflowError):
            shown = repr(value) if len(str(value)) < 100 else f"{str(value)[:40]}... ({len(str(value))} characters)"
            raise UsageError(f"scalar {scalar.name} is {scalar.dtype}, found {shown}") from None
        if scalar.dtype == "i64" and number not in _INT64:
            raise UsageError(f"scalar {scalar.name} is i64, and {number} does not fit in 64 bits")
        return number


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError(f'{path}: expected an object such as {{"s0": 1.5}}')
    return found


def _load(path: Path, buffer: Buffer) -> np.ndarray:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path} is no .npy array: {error}") from None
    if not isinstance(array, np.ndarray):
        raise UsageError(f"{path} holds several arrays: give one, as .npy")
    wanted = BY_TOKEN[buffer.dtype].array
    if array.dtype != wanted:
        hint = " (bf16 is given as its bits, in uint16)" if buffer.dtype == "bf16" else ""
        raise UsageError(f"{path}: input {buffer.name} is {wanted}, the file has {array.dtype}{hint}")
    if array.size != buffer.elements:
        raise UsageError(f"{path}: {buffer.name} has shape {list(buffer.shape)}, the file {list(array.shape)}")
    return np.ascontiguousarray(array).reshape(buffer.shape)  # the former makes 0-dim arrays 1-dim


def _execute(image: bytes, inputs: list[np.ndarray], scalars: list[float | int], options: argparse.Namespace) -> list[np.ndarray] | None:
    """The outputs, or None after printing the fault that stopped the program."""
    from ftm_backend.machine import Machine, MachineError

    try:
        return Machine(cores=options.cores, checked=options.checked).load(image).run(inputs, scalars)
    except MachineError as error:
        print(f"ftm-run: {error}", file=sys.stderr)
        return None


def _report(program: Program, outputs: dict[str, np.ndarray], folder: Path | None, options: argparse.Namespace) -> int:
    """Prints one line for each output; 1 when one differs from the expected array."""
    differing = 0
    for buffer in program.buffers("out"):
        array = outputs[buffer.name]
        line = f"{buffer.name}  {buffer.dtype} {list(buffer.shape)}  {compare.summary(array, buffer.dtype)}"
        path = folder / f"{buffer.name}.npy" if folder is not None else None
        if path is not None and path.exists():
            difference = compare.difference(array, _load(path, buffer), buffer.dtype, options.rtol, options.atol)
            differing += difference is not None
            line += f"  {difference or 'equal within tolerance'}"
        elif options.compare is not None:
            raise UsageError(f"--compare: {path} does not exist")
        print(line)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
