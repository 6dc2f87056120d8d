"""`ftm opt`: run passes of this compiler or of upstream MLIR on the text of any stage."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import replace

from ftm_backend.cli_common import MOST_CORES, Parser, bounded, command, naming
from ftm_backend.pass_manager import Pass, changes, select
from ftm_backend.target.presets import MachineParameters
from ftm_backend.tools.input_files import read_text, write

_EPILOG = """\
examples:
  ftm opt --list-passes --machine m7032
  ftm opt --insert-copies --fuse-ops a.mlir           two passes, in this order
  ftm opt --insert-waits a.tiles                         one pass on tiles
  ftm opt --ftm-pipeline a.mlir                          all passes, from linalg to assembly
  ftm opt --ftm-pipeline --print-changed a.mlir -o a.lan and what each pass changes
  ftm opt --pass-pipeline='builtin.module(canonicalize)' a.mlir
  ftm opt --fuse-gemm-prologue --explain --machine m7032 a.mlir   and why
  ftm opt --verify a.mlir                                parse, verify and print
"""


_STAGE_OF_TILES = re.compile(r"^@stage ", re.MULTILINE)
"""First line of a text of tiles, after comments."""


class _Append(argparse.Action):
    """Collects passes and pipelines in the order of the command line."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        namespace.steps = [*(namespace.steps or []), (self.dest, values or self.const)]


def parser() -> Parser:
    """Return the command's parser."""
    parser = Parser(
        "ftm opt",
        "Run passes on the text of any stage of the compiler, and print the result.",
        _EPILOG,
    )
    # without the option of each pass, which the help lists
    parser.usage = "%(prog)s [-h] [--version] [-q | -v] [OPTION ...] [PASS ...] [file]"
    parser.add_argument("file", nargs="?", default="-", help="input; - or nothing: standard input")
    parser.add_output("output; - (default): standard output", "-", str)
    parser.add_argument(
        "--list-passes",
        action="store_true",
        help="print the passes of the machine in order: name, IR before -> after, effect",
    )
    parser.add_argument(
        "--print-changed",
        action="store_true",
        help="print a diff of what each pass changes, to standard error",
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="verify MLIR after each pass (this is the default; --no-verify turns it off)",
    )
    parser.add_argument("--no-verify", action="store_true", help="do not verify")
    parser.add_machine("machine preset to run passes for (default: host)", "host")
    parser.add_cores("cores to plan for (default: the preset's)", 0)
    parser.add_argument(
        "--tune",
        default="",
        metavar="DECISION=CHOICE,...",
        help="decide instead of the cost model, as FTM_TUNE does",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="print each decision and the modelled cycles of all alternatives, to standard error",
    )
    passes = parser.add_argument_group("passes, run in the order of the command line")
    passes.add_argument(
        "--ftm-pipeline",
        dest="ftm",
        nargs=0,
        const="all",
        action=_Append,
        help="all passes of this compiler that apply on the machine, from linalg on",
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


def _listing(machine: MachineParameters) -> str:
    """List the passes of a machine, then those that it lacks something for."""
    passes = select(_passes(), machine)
    names, irs = (
        max(map(len, column)) for column in ((s.name for s in passes), (str(s.ir) for s in passes))
    )
    lines = [f"{step.name:{names}}  {step.ir!s:{irs}}  {step.doc}" for step in passes]
    left_out: dict[str, list[str]] = {}
    for step in _passes():
        if step not in passes:
            left_out.setdefault(step.missing(machine), []).append(step.name)
    for missing, others in left_out.items():
        lines += ["", f"Not on {machine.name}, which lacks {missing}: {', '.join(others)}."]
    return "\n".join(lines)


class _Program:
    """The program that passes run on: a text, or the value that the last pass returned."""

    def __init__(self, text: str, machine: MachineParameters, verify: bool) -> None:
        self._machine, self._verify = machine, verify
        self._text: str | None = text
        self._value: object = None
        self._last: Pass | None = None

    def text(self) -> str:
        """Return the program's current text; MLIR is verified.

        Raises:
            ir.MLIRError: The text is not valid.
        """
        if self._text is None:
            assert self._last is not None
            self._text = self._last.ir.after.write(self._value, self._last.stage)
        is_mlir = (
            self._last.ir.after.suffix == ".mlir"
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
        """Run one pass.

        Args:
            kind: ``upstream`` for passes of MLIR, ``ftm`` for a pass of this compiler.
            name: A pipeline in MLIR's syntax, or the name of the pass.

        Raises:
            ValueError: The pass does not apply on the machine.
        """
        if kind == "upstream":
            self.text()
            self._text, self._value = self._upstream(name), None
            return
        step = next(p for p in _passes() if p.name == name)
        missing = step.missing(self._machine)
        if missing:
            raise ValueError(
                f"the pass is not in the pipeline of machine {self._machine.name!r}: "
                f"it needs {missing}"
            )
        if self._value is None or self._last is None or self._last.ir.after != step.ir.before:
            self._value = step.ir.before.read(self.text(), self._machine)
        self._value, self._last, self._text = step.run(self._value, self._machine), step, None
        step.ir.after.verify(self._value)
        if self._verify:
            self.text()


def _print_changes(step: str, before: str, after: str) -> None:
    """Print a diff of the texts before and after a pass to standard error."""
    diff = changes(before, after, (f"before {step}", f"after {step}"))
    print(diff.rstrip("\n") if diff else f"pass {step}: no change", file=sys.stderr)


@command("ftm opt")
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        The exit status: 0, or 2 for wrong usage, a wrong input or a pass that fails.
    """
    given = parser().parse_args(arguments)
    from ftm_backend.midend.schedule.choose_by_cost import explaining
    from ftm_backend.target import presets, tuning_overrides

    cores = bounded("--cores", given.cores, 0, MOST_CORES)
    with naming("--machine", presets.UnknownPreset):
        machine = presets.load(given.machine)
    with naming("--tune", ValueError):
        machine = replace(
            machine, cores=cores or machine.cores, choices=tuning_overrides.parse(given.tune)
        )
    if given.list_passes:
        print(_listing(machine))
        return 0
    program = _Program(read_text(given.file), machine, not given.no_verify)
    for kind, name in given.steps:
        names = [p.name for p in select(_passes(), machine)] if name == "all" else [name]
        for single in names:
            # an exception of a pass is its diagnosis, for the user to read
            with naming(f"{given.file}: pass {single}", Exception), explaining() as choices:
                before = program.text() if given.print_changed else ""
                program.run(kind, single)
                for choice in choices if given.explain else ():
                    print(choice, file=sys.stderr)
                if given.print_changed:
                    _print_changes(single, before, program.text())
    with naming(f"{given.file}: reading the input", Exception):
        result = program.text()
    write(given.output, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
