"""`ftm translate`: compile a program from one stage of the compiler to a later one."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ftm_backend.cli_common import MOST_CORES, Parser, bounded, command, naming
from ftm_backend.tools.input_files import read_text, write

_EPILOG = """\
stages in order (a machine has those whose passes apply on it):
{stages}

examples:
  ftm translate step.trace                          assembly of a recorded trace
  ftm translate --to linalg step.trace              the same trace as linalg on tensors
  ftm translate --from linalg --to asm - < a.mlir   from MLIR on standard input
  ftm translate --to image step.lan -o step.bin     assemble
"""


def parser() -> Parser:
    """Return the command's parser."""
    from ftm_backend import compiler_stages

    names = [stage.name for stage in compiler_stages.STAGES]
    width = max(map(len, names))
    listed = "\n".join(f"  {stage.name:{width}}  {stage.doc}" for stage in compiler_stages.STAGES)
    parser = Parser(
        "ftm translate",
        "Compile a program from one stage of the compiler to a later one.",
        _EPILOG.format(stages=listed),
    )
    parser.add_argument("file", nargs="?", default="-", help="input; - or nothing: standard input")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="STAGE",
        choices=names[:-1],
        help="stage of the input (guessed from its text)",
    )
    parser.add_argument(
        "--to",
        dest="target",
        metavar="STAGE",
        choices=names,
        default="asm",
        help="stage to make (default: asm)",
    )
    parser.add_output("output; - (default): standard output", "-", str)
    parser.add_machine("machine preset to compile for (default: host)", "host")
    parser.add_cores("cores to plan for (default: the preset's)", 0)
    parser.add_argument(
        "--dump", default="", metavar="DIR", help="write every stage on the way into DIR"
    )
    parser.add_argument(
        "--diff", action="store_true", help="with --dump: also write what each pass changes"
    )
    return parser


@command("ftm translate")
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        The exit status: 0, or 2 for a program that does not compile and for wrong usage.
    """
    given = parser().parse_args(arguments)
    from ftm_backend import compiler_stages, driver
    from ftm_backend.compile_options import CompileOptions
    from ftm_backend.target import presets

    cores = bounded("--cores", given.cores, 0, MOST_CORES)
    with naming("--machine", presets.UnknownPreset):
        presets.load(given.machine)
    text = read_text(given.file)
    with naming(given.file, driver.CompileError, ValueError):
        source = given.source or compiler_stages.guess_stage(text)
        result = driver.run_from(
            source,
            text,
            given.target,
            CompileOptions(given.machine, cores, dump=given.dump, dump_diffs=given.diff),
        )
    write(given.output, result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
