"""`ftm-opt`: reads MLIR of any stage, runs passes of this compiler or of upstream MLIR, prints MLIR."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ftm_backend.tools.ftm_translate import write

__all__ = ["main"]

_EPILOG = """\
examples:
  ftm-opt --list-passes
  ftm-opt --simplify --group-kernels a.mlir              two passes, in this order
  ftm-opt --ftm-pipeline a.mlir                          all passes of the midend
  ftm-opt --pass-pipeline='builtin.module(canonicalize)' a.mlir
  ftm-opt --verify a.mlir                                 parse, verify and print
"""


class _Append(argparse.Action):
    """Collects what is to be run in the order of the command line."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any,
                 option_string: str | None = None) -> None:
        namespace.steps = [*(namespace.steps or []), (self.dest, values if values else self.const)]


def _parser() -> argparse.ArgumentParser:
    from ftm_backend.midend import pipeline

    parser = argparse.ArgumentParser(
        prog="ftm-opt", description="Runs passes on MLIR of any stage of the compiler and prints the result.",
        epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", nargs="?", default="-", help="input; - or nothing: standard input")
    parser.add_argument("-o", dest="output", default="-", metavar="FILE", help="output; - (default): standard output")
    parser.add_argument("--list-passes", action="store_true", help="print the passes in the order of the pipeline")
    parser.add_argument("--verify", action="store_true",
                        help="verify the result, and between passes (this is the default; --no-verify turns it off)")
    parser.add_argument("--no-verify", action="store_true", help="do not verify")
    parser.add_argument("--machine", default="host", help="machine preset that passes read (default: host)")
    parser.add_argument("--cores", type=int, default=0, help="cores to plan for (default: the preset's)")
    passes = parser.add_argument_group("passes, run in the order of the command line")
    passes.add_argument("--ftm-pipeline", dest="ftm", nargs=0, const="all", action=_Append,
                        help="all passes of the midend")
    passes.add_argument("--pass-pipeline", dest="upstream", metavar="PIPELINE", action=_Append,
                        help="upstream passes, e.g. 'builtin.module(canonicalize,cse)'")
    for step in pipeline.PASSES:
        passes.add_argument(f"--{step.name}", dest="ftm", nargs=0, const=step.name, action=_Append, help=step.doc)
    parser.set_defaults(steps=[])
    return parser


def _runs(given: argparse.Namespace) -> list[tuple[str, Callable[[Any], None]]]:
    """What to run, in order: names and functions that change a module in place."""
    from ftm_backend import mlir
    from ftm_backend.machine import presets
    from ftm_backend.midend import pipeline

    machine = presets.load(given.machine)
    if given.cores:
        machine = replace(machine, cores=given.cores)
    runs: list[tuple[str, Callable[[Any], None]]] = []
    for kind, name in given.steps:
        if kind == "upstream":
            runs.append((name, lambda module, text=name: mlir.run_passes(module, text)))
            continue
        for step in pipeline.PASSES:
            if name in ("all", step.name):
                runs.append((step.name, lambda module, at=step: at.run(module, machine)))
    return runs


def main(arguments: list[str] | None = None) -> int:
    """Command line; gives the exit code: 0, 1 when the input or a pass fails, 2 for wrong usage."""
    given = _parser().parse_args(arguments)
    from ftm_backend import mlir
    from ftm_backend.codegen.verify import verify
    from ftm_backend.midend import pipeline

    if given.list_passes:
        width = max(len(step.name) for step in pipeline.PASSES)
        print("\n".join(f"{step.name:{width}}  {step.doc}" for step in pipeline.PASSES))
        return 0
    try:
        text = sys.stdin.read() if given.file == "-" else Path(given.file).read_text()
        runs = _runs(given)
    except (OSError, ValueError) as error:
        print(f"ftm-opt: {error}", file=sys.stderr)
        return 2
    doing = "parsing"
    try:
        with mlir.context(), mlir.ir.Location.unknown():
            module = mlir.ir.Module.parse(text)
            if not given.no_verify:
                doing = "verifying the input"
                verify(module)
            for name, run in runs:
                doing = f"pass {name}"
                run(module)
                if not given.no_verify:
                    doing = f"verifying after {name}"
                    verify(module)
            result = str(module) + "\n"
    except Exception as error:  # whatever a pass raises is its diagnosis, for the user to read
        print(f"ftm-opt: {given.file}: {doing}: {error}", file=sys.stderr)
        return 1
    return write(given.output, result, "ftm-opt")


if __name__ == "__main__":
    sys.exit(main())
