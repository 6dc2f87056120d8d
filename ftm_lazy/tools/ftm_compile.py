"""``ftm-compile``: an exported (``.pt2``) or scripted (``.pt``) model as MLIR, as assembly, or as a package."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

__all__ = ["main"]

_EPILOG = """\
examples:
  ftm-compile model.pt2                                assembly, weights and manifest: model.lan, .npz, .json
  ftm-compile model.pt2 --to package -o model.ftm      a file that `ftm-run model.ftm` runs without PyTorch
  ftm-compile model.pt2 --to tosa -o model.mlir        MLIR: torch, linalg, tosa, stablehlo, ftm
  ftm-compile model.pt --input f32[8,16] --to linalg   a scripted model says its inputs on the command line
"""

_SHAPE = re.compile(r"(\w+)\[([\d,\s]*)\]")


class UsageError(Exception):
    """The command line does not fit; the message says what to do."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ftm-compile",
        description="Compile an exported or scripted model.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path, help="a .pt2 of torch.export.save, or a .pt of torch.jit.save")
    parser.add_argument(
        "--to",
        default="lasm",
        choices=("lasm", "package", "torch", "linalg", "tosa", "stablehlo", "ftm"),
        help="what to make (default: lasm)",
    )
    parser.add_argument("-o", dest="output", type=Path, help="file to write (default: beside the model; MLIR: standard output)")
    parser.add_argument("--input", action="append", default=[], metavar="DTYPE[SHAPE]", help="an input of a scripted model; repeat")
    parser.add_argument("--weights", default="npz", choices=("npz", "safetensors"), help="how lasm writes weights (default: npz)")
    parser.add_argument("--machine", help="preset to compile for (default: FTM_MACHINE)")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Command line; gives the exit code: 0, 1 for a model that does not compile, 2 for wrong usage."""
    given = _parser().parse_args(arguments)
    from ftm_backend.upstream.dialects import DialectError
    from ftm_lazy.compiler import CompileError
    from ftm_lazy.frontends.capture import CaptureError

    try:
        model, inputs = _load(given)
        _write(given, model, inputs)
    except (CaptureError, CompileError, DialectError) as error:
        print(f"ftm-compile: {given.model}: {error}", file=sys.stderr)
        return 1
    except (UsageError, ValueError) as error:
        print(f"ftm-compile: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"ftm-compile: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    return 0


def _load(given: argparse.Namespace) -> tuple[Any, list[Any]]:
    import torch

    if not given.model.is_file():
        raise UsageError(f"there is no file {given.model}")
    if given.model.suffix == ".pt2":
        if given.input:
            raise UsageError("an exported model has its own inputs: leave --input out")
        try:
            return torch.export.load(given.model), []
        except (RuntimeError, ValueError, KeyError) as error:
            raise UsageError(f"{given.model} is no exported model of this PyTorch: {error}") from error
    try:
        model = torch.jit.load(given.model, map_location="cpu")
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0]
        raise UsageError(f"{given.model} is no scripted model: {reason} (an exported one is called .pt2)") from error
    return model, [_example(text) for text in given.input]


def _example(text: str) -> Any:
    import torch

    from ftm_lazy.frontends.arrays import DTYPES_OF_TORCH

    match = _SHAPE.fullmatch(text)
    if match is None or match[1] not in DTYPES_OF_TORCH:
        raise UsageError(f"--input {text}: expected a dtype and a shape, such as f32[8,16]")
    return torch.zeros([int(extent) for extent in match[2].split(",") if extent.strip()], dtype=DTYPES_OF_TORCH[match[1]])


def _write(given: argparse.Namespace, model: Any, inputs: list[Any]) -> None:
    from ftm_lazy.frontends.compiler import FTMCompiler
    from ftm_lazy.frontends.model import capture_model
    from ftm_lazy.frontends.package import package

    compiler = FTMCompiler(given.machine)
    if given.to == "lasm":
        output = given.output or given.model.with_suffix(".lan")
        print(compiler.compile_to_lasm(model, *inputs, output_path=output, weights=given.weights))
    elif given.to == "package":
        output = given.output or given.model.with_suffix(".ftm")
        package(capture_model(model, inputs), output, machine=given.machine)
        print(output)
    else:
        text = compiler.compile_to_mlir(model, *inputs, dialect=given.to)
        sys.stdout.write(text) if given.output is None else given.output.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
