"""`ftm-translate`: takes a program from one stage of the compiler to a later one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ftm_backend.tools.files import read_text

__all__ = ["main"]

_EPILOG = """\
stages, in order:
{stages}

examples:
  ftm-translate step.trace                          assembly of a recorded trace
  ftm-translate --to linalg step.trace              the same trace as linalg on tensors
  ftm-translate --from linalg --to asm - < a.mlir   from MLIR on standard input
  ftm-translate --to image step.lan -o step.bin     assemble
"""


def _parser() -> argparse.ArgumentParser:
    from ftm_backend import driver

    names = [stage.name for stage in driver.STAGES]
    width = max(map(len, names))
    listed = "\n".join(f"  {stage.name:{width}}  {stage.doc}" for stage in driver.STAGES)
    parser = argparse.ArgumentParser(
        prog="ftm-translate",
        description="Takes a program from one stage of the compiler to a later one.",
        epilog=_EPILOG.format(stages=listed),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", nargs="?", default="-", help="input; - or nothing: standard input")
    parser.add_argument("--from", dest="source", choices=names[:-1], help="stage of the input (guessed from its text)")
    parser.add_argument("--to", dest="target", choices=names, default="asm", help="stage to make (default: asm)")
    parser.add_argument("-o", dest="output", default="-", metavar="FILE", help="output; - (default): standard output")
    parser.add_argument("--machine", default="host", help="machine preset to compile for (default: host)")
    parser.add_argument("--cores", type=int, default=0, help="cores to plan for (default: the preset's)")
    parser.add_argument("--dump", default="", metavar="DIR", help="write every stage on the way into DIR")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Command line; gives the exit code: 0, 1 for a program that does not compile, 2 for wrong usage."""
    parser = _parser()
    given = parser.parse_args(arguments)
    from ftm_backend import driver
    from ftm_backend.options import Options

    try:
        text = read_text(given.file)
        options = Options(machine=given.machine, cores=given.cores, dump=given.dump)
        source = given.source or driver.guess_stage(text)
        result = driver.run_from(source, text, given.target, options)
    except driver.CompileError as error:
        print(f"ftm-translate: {given.file}: {error}", file=sys.stderr)
        return 1
    except (OSError, ValueError) as error:
        print(f"ftm-translate: {error}", file=sys.stderr)
        return 2
    return write(given.output, result, "ftm-translate")


def write(path: str, content: str | bytes, program: str) -> int:
    """Writes to a file, or to standard output for ``-``; gives the exit code."""
    data = content if isinstance(content, bytes) else content.encode()
    try:
        if path == "-":
            sys.stdout.buffer.write(data)
            sys.stdout.flush()
        else:
            Path(path).write_bytes(data)
    except OSError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
