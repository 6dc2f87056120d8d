"""`ftm-opt`: reads the text of any stage, runs passes of this compiler or of upstream MLIR, prints
what they leave."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ftm_backend.cli import MOST_CORES, Parser, bounded, command, naming
from ftm_backend.pass_manager import IRFormat, Pass
from ftm_backend.target.presets import MachineParameters
from ftm_backend.tools.input_files import read_text, write

__all__ = ["main"]

_EPILOG = """\
examples:
  ftm-opt --list-passes
  ftm-opt --resolve-in-place --fuse-ops a.mlir           two passes, in this order
  ftm-opt --insert-waits a.tiles                          one pass of the tile level
  ftm-opt --ftm-pipeline a.mlir                          all passes, from linalg to assembly
  ftm-opt --pass-pipeline='builtin.module(canonicalize)' a.mlir
  ftm-opt --verify a.mlir                                 parse, verify and print
"""


_STAGE_OF_TILES = re.compile(r"^@stage ", re.MULTILINE)
"""What a text of the tile level says first, after comments."""


class _Append(argparse.Action):
    """Collects what is to be run in the order of the command line."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        namespace.steps = [*(namespace.steps or []), (self.dest, values or self.const)]


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        "ftm-opt",
        "Runs passes on the text of any stage of the compiler and prints the result.",
        _EPILOG,
    )
    parser.add_argument("file", nargs="?", default="-", help="input; - or nothing: standard input")
    parser.add_argument(
        "-o",
        dest="output",
        default="-",
        metavar="FILE",
        help="output; - (default): standard output",
    )
    parser.add_argument(
        "--list-passes", action="store_true", help="print the passes in the order of the pipeline"
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="verify MLIR after each pass (this is the default; --no-verify turns it off)",
    )
    parser.add_argument("--no-verify", action="store_true", help="do not verify")
    parser.add_argument(
        "--machine", default="host", help="machine preset that passes read (default: host)"
    )
    parser.add_argument(
        "--cores", type=int, default=0, help="cores to plan for (default: the preset's)"
    )
    passes = parser.add_argument_group("passes, run in the order of the command line")
    passes.add_argument(
        "--ftm-pipeline",
        dest="ftm",
        nargs=0,
        const="all",
        action=_Append,
        help="all passes of this compiler, from linalg on",
    )
    passes.add_argument(
        "--pass-pipeline",
        dest="upstream",
        metavar="PIPELINE",
        action=_Append,
        help="upstream passes, e.g. 'builtin.module(canonicalize,cse)'",
    )
    for step in _passes():
        passes.add_argument(
            f"--{step.name}", dest="ftm", nargs=0, const=step.name, action=_Append, help=step.doc
        )
    parser.set_defaults(steps=[])
    return parser


def _passes() -> tuple[Pass, ...]:
    from ftm_backend import codegen
    from ftm_backend.midend import pipeline

    return (*pipeline.PASSES, *codegen.PASSES, codegen.EMIT)


class _Program:
    """What passes work on: a text, or the value that the last pass has left."""

    def __init__(self, text: str, machine: MachineParameters, verify: bool) -> None:
        self._machine, self._verify = machine, verify
        self._text: str | None = text
        self._value: Any = None
        self._last: Pass | None = None

    def text(self) -> str:
        """The program as it is now; MLIR is verified.

        Raises:
            ir.MLIRError: it is not valid.
        """
        if self._text is None:
            assert self._last is not None
            self._text = self._last.form.write(self._value, self._last.stage)
        is_mlir = (
            self._last.form.suffix == ".mlir"
            if self._last
            else not _STAGE_OF_TILES.search(self._text)
        )
        if self._verify and is_mlir:
            self._upstream("")
        return self._text

    def _upstream(self, pipeline: str) -> str:
        from ftm_backend import mlir

        with mlir.context(), mlir.ir.Location.unknown():
            module = mlir.ir.Module.parse(self._text)
            if pipeline:
                mlir.run_passes(module, pipeline)
            module.operation.verify()
            return str(module) + "\n"

    def run(self, kind: str, name: str) -> None:
        """One pass: ``upstream`` with a pipeline in MLIR's syntax, or one of ours by its name."""
        if kind == "upstream":
            self.text()
            self._text, self._value = self._upstream(name), None
            return
        before = _input_forms()
        step = next(p for p in _passes() if p.name == name)
        if self._value is None or self._last is None or self._last.form is not before[name]:
            self._value = before[name].read(self.text(), self._machine)
        self._value, self._last, self._text = step.run(self._value, self._machine), step, None
        step.form.verify(self._value)
        if self._verify:
            self.text()


def _input_forms() -> dict[str, IRFormat]:
    """The form of what each pass takes."""
    from ftm_backend.midend import pipeline

    forms = [pipeline.FUNCTION, *(step.form for step in _passes())]
    return {step.name: form for step, form in zip(_passes(), forms, strict=False)}


@command("ftm-opt")
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; gives the exit status: 0, or 2 for wrong usage, a wrong input or a pass that
    fails."""
    given = _parser().parse_args(arguments)
    from ftm_backend.target import presets

    if given.list_passes:
        width = max(len(step.name) for step in _passes())
        print("\n".join(f"{step.name:{width}}  {step.doc}" for step in _passes()))
        return 0
    cores = bounded("--cores", given.cores, 0, MOST_CORES)
    with naming("--machine", presets.UnknownPreset):
        machine = presets.load(given.machine)
    if cores:
        machine = replace(machine, cores=cores)
    program = _Program(read_text(given.file), machine, not given.no_verify)
    for kind, name in given.steps:
        for single in [p.name for p in _passes()] if name == "all" else [name]:
            # whatever a pass raises is its diagnosis, for the user to read
            with naming(f"{given.file}: pass {single}", Exception):
                program.run(kind, single)
    with naming(f"{given.file}: reading the input", Exception):
        result = program.text()
    write(given.output, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
