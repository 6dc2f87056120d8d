"""``ftm compile``: compile an exported or scripted model to MLIR, assembly, or a package."""

from __future__ import annotations

import argparse
import logging
import math
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ftm_backend.cli_common import Parser, UserError, command, naming
from ftm_backend.tools.input_files import check_fits_memory, check_regular, naming_file, write

if TYPE_CHECKING:
    import torch


_EPILOG = """\
examples:
  ftm compile model.pt2
      assembly, weights and manifest: model.lan, model.npz, model.json
  ftm compile model.pt2 -o model.ftm
      a file that `ftm run model.ftm` runs without PyTorch
  ftm compile model.pt2 --to tosa -o model.mlir
      MLIR: torch, linalg, tosa, stablehlo, ftm
  ftm compile model.pt --input f32[8,16] --to linalg
      a scripted model needs its inputs on the command line
"""

_SHAPE = re.compile(r"(\w+)\[((?:\d{1,18}(?:,\s*)?)*)\]", re.ASCII)


def parser() -> Parser:
    """Return the command's parser."""
    parser = Parser(
        "ftm compile",
        "Compile an exported or scripted model to assembly, a package, or MLIR.",
        _EPILOG,
    )
    parser.add_argument(
        "model", type=Path, help="a .pt2 of torch.export.save, or a .pt of torch.jit.save"
    )
    parser.add_argument(
        "--to",
        choices=("lasm", "package", "torch", "linalg", "tosa", "stablehlo", "ftm"),
        help="output (default: package for a FILE that ends in .ftm, else lasm, the assembly)",
    )
    parser.add_output("file to write (default: next to the model; MLIR: standard output)")
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="DTYPE[SHAPE]",
        help="an input of a scripted model; repeat",
    )
    parser.add_argument(
        "--weights",
        default="npz",
        choices=("npz", "safetensors"),
        help="format of the weights of lasm (default: npz)",
    )
    parser.add_machine("preset to compile for (default: FTM_MACHINE)")
    return parser


@command("ftm compile")
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: Command line without the program's name; None for `sys.argv`.

    Returns:
        The exit status: 0, or 2 for wrong usage and for a model that does not compile.
    """
    given = parser().parse_args(arguments)
    if given.to is None:
        is_package = given.output is not None and given.output.suffix == ".ftm"
        given.to = "package" if is_package else "lasm"
    if not given.model.exists():
        raise UserError(f"there is no file {given.model}")
    check_regular(given.model)
    from ftm_lazy.frontends.package import check_machine

    with naming("--machine", ValueError):
        check_machine(given.machine)
    model, inputs = _load(given)
    # the model's code may raise any exception
    with naming(given.model, Exception):
        try:
            output = _compile(given, model, inputs)
        except RuntimeError as error:
            raise UserError(f"{given.model}: {_without_traceback(str(error))}") from error
    write("-", output)
    return 0


def _load(given: argparse.Namespace) -> tuple[object, list[object]]:
    """Return the model and example inputs; an exported model needs none."""
    import torch

    if given.model.suffix == ".pt2":
        if given.input:
            raise UserError(
                f"--input: {given.model} is an exported model, which has its own inputs"
            )
        with (
            naming(given.model, Exception, what="no exported model of this PyTorch"),
            _without_log("torch.export"),
        ):
            return torch.export.load(given.model), []
    with naming(
        given.model,
        Exception,
        what="no scripted model (an exported model ends in .pt2; a state dict is no model)",
    ):
        try:
            model = torch.jit.load(given.model, map_location="cpu")
        except RuntimeError as error:
            raise ValueError(_without_traceback(str(error)).splitlines()[0]) from error
    _check_inputs(given, model)
    return model, [_example(text) for text in given.input]


def _check_inputs(given: argparse.Namespace, model: torch.jit.ScriptModule) -> None:
    """Raise UserError if an argument of a scripted model without default has no --input."""
    with naming(given.model, Exception, what="no module with a forward method"):
        arguments = model.forward.schema.arguments[1:]  # the first is the module
    needed = [argument for argument in arguments if not argument.has_default_value()]
    if not len(needed) <= len(given.input) <= len(arguments):
        taken = ", ".join(f"{argument.name}: {argument.type}" for argument in arguments)
        raise UserError(
            f"{given.model} takes {taken or 'nothing'}: give --input DTYPE[SHAPE] for each,"
            f" found {len(given.input)}"
        )


def _example(text: str) -> object:
    import torch

    from ftm_lazy.frontends.numpy_program import DTYPES_OF_TORCH

    match = _SHAPE.fullmatch(text)
    if match is None or match[1] not in DTYPES_OF_TORCH:
        raise UserError(f"--input {text}: expected a dtype and a shape, such as f32[8,16]")
    shape, dtype = (
        [int(extent) for extent in match[2].split(",") if extent.strip()],
        DTYPES_OF_TORCH[match[1]],
    )
    check_fits_memory(math.prod(shape) * dtype.itemsize, f"--input {text}")
    with naming(f"--input {text}", RuntimeError):
        return torch.zeros(shape, dtype=dtype)


@contextmanager
def _without_log(name: str) -> Iterator[None]:
    """Disable a logger: PyTorch logs a failed load with its traceback before raising the error."""
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _without_traceback(message: str) -> str:
    """Return the last line of TorchScript's error message, without its interpreter's stack."""
    if "Traceback of TorchScript" in message:
        return message.strip().splitlines()[-1]
    return message.strip() or "it raises a RuntimeError"


def _compile(given: argparse.Namespace, model: object, inputs: list[object]) -> str:
    """Write the output file, and return the text for standard output."""
    from ftm_lazy.frontends.captured_model import capture_model
    from ftm_lazy.frontends.ftm_compiler import FTMCompiler
    from ftm_lazy.frontends.package import package

    compiler = FTMCompiler(given.machine)
    if given.to == "lasm":
        output = given.output or given.model.with_suffix(".lan")
        with naming_file(output):
            path = compiler.compile_to_lasm(
                model, *inputs, output_path=output, weights=given.weights
            )
            return f"{path}\n"
    if given.to == "package":
        output = given.output or given.model.with_suffix(".ftm")
        package(capture_model(model, inputs), output, machine=given.machine)
        return f"{output}\n"
    text = compiler.compile_to_mlir(model, *inputs, dialect=given.to)
    if given.output is None:
        return text
    write(given.output, text)
    return ""


if __name__ == "__main__":
    sys.exit(main())
