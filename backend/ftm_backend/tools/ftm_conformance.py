"""``ftm conformance``: runs the conformance tests on a machine and reports.

ftm conformance /path/to/libmy_machine.so
ftm conformance libmy_machine.so --machine m7032 -o report.json --expected failures.json
ftm conformance host                         # the emulator itself
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from ftm_backend.cli_common import MOST_CORES, Parser, UserError, bounded, command, naming, say
from ftm_backend.conformance import CheckOutcome, report, run_all
from ftm_backend.machine import Machine, MachineError
from ftm_backend.target import presets
from ftm_backend.tools.input_files import read_object, write

_EPILOG = """\
The file of expected failures is JSON, the name of each check with the reason:
{"instruction MMW": "no windows in our first silicon"}. A listed check that fails does not count. A
listed check that passes counts as a failure, so that the file stays true. Exit status: 0
compatible, 1 not, 2 wrong usage.
"""


def parser() -> Parser:
    """Return the command's parser."""
    parser = Parser(
        "ftm conformance", "Check a machine against instruction examples, ops and models.", _EPILOG
    )
    parser.add_argument(
        "library", help="a machine library (.so), or the name of a preset: then the emulator"
    )
    parser.add_argument(
        *("--machine", "--preset"),
        dest="preset",
        metavar="PRESET",
        default="",
        help="preset to compile for (default: host, or the one that is named)",
    )
    parser.add_cores("cores to open the machine with (default 1)", 1)
    parser.add_output("write the report as JSON, too", None, str)
    parser.add_json()
    parser.add_argument(
        "--expected", type=Path, metavar="FILE", help="failures that are expected, as JSON"
    )
    parser.add_argument(
        "--only", metavar="WORD", default="", help="only checks with this word in their name"
    )
    return parser


@command("ftm conformance")
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    given = parser().parse_args(arguments)
    bounded("--cores", given.cores, 1, MOST_CORES)
    library = _library(given.library)
    preset = given.preset or (given.library if given.library in presets.NAMES else presets.DEFAULT)
    with naming("--preset", presets.UnknownPreset):
        presets.load(preset)
    expected = _expected(given.expected)
    with naming(given.library, AttributeError, UnicodeError, MachineError, what="no machine"):
        machine = Machine(cores=given.cores, library=library)
    with machine:
        outcomes = run_all(machine, preset, given.only)
        about = {
            "machine": given.library,
            "description": machine.description,
            "preset": preset,
            "cores": machine.cores,
        }
    if not outcomes:
        raise UserError(f"--only: no check has {given.only!r} in its name")
    outcomes = [_expecting(outcome, expected) for outcome in outcomes]
    checks = [vars(outcome) for outcome in outcomes]
    as_json = json.dumps({**about, "checks": checks}, indent=1)
    say(as_json if given.json else report(outcomes, about))
    if given.output:
        write(given.output, as_json + "\n")
    return 1 if any(outcome.counts for outcome in outcomes) else 0


def _library(word: str) -> Path | None:
    """Return the library's absolute path, which the loader needs; None for a preset."""
    if word in presets.NAMES:
        return None
    path = Path(word)
    if not path.is_file():
        raise UserError(
            f"{word} is neither a file nor a preset: the presets are {', '.join(presets.NAMES)}"
        )
    return path.resolve()


def _expected(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    found = read_object(path)
    if not all(isinstance(reason, str) and reason for reason in found.values()):
        raise UserError(f"{path}: expected an object of names and reasons")
    return found


def _expecting(outcome: CheckOutcome, expected: dict[str, str]) -> CheckOutcome:
    return outcome.expected_to_fail(expected[outcome.name]) if outcome.name in expected else outcome


if __name__ == "__main__":
    sys.exit(main())
