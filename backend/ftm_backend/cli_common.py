"""Common behaviour of the command ``ftm`` and its subcommands: options, errors, exit status.

An error is one line on stderr, ``ftm run: a.lan: No such file or directory``, of three kinds:

- wrong usage: the line ends with the command that shows the options;
- wrong input: the line names the file or option, and the remedy;
- a fault of ftm: the line quotes the command line, and says "failed inside".

Exit status: 0 success; 2 an error; 130 interrupted; 141 the reader of standard output is gone.
1 is reserved for commands that answer a question with no, as ``cmp`` does.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn, Protocol

from ftm_backend import safe_names
from ftm_backend.optional_packages import MissingPackageError

MOST_CORES = 256
"""Maximum number of cores of a machine, see ``ftm_config`` in ``ftm_machine.h``."""

_INTERRUPTED = 128 + 2  # as a shell reports SIGINT
_CLOSED_PIPE = 128 + 13  # as a shell reports SIGPIPE
_LONGEST_MESSAGE = 4000


class Main(Protocol):
    """A command: takes its arguments, by default the process's, and returns the exit status."""

    def __call__(self, arguments: Sequence[str] | None = None) -> int:
        """Run the command."""


class UserError(Exception):
    """The command line or a file that it names is invalid; the message names it and the remedy."""


class _Verbosity:
    """How much the running command prints on stderr: -1 quiet, 0, or 1 verbose."""

    level = 0


class _Version(argparse.Action):
    """Print the version of ftm and exit; it is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> NoReturn:
        print(f"ftm {version()}")
        parser.exit()


class Parser(argparse.ArgumentParser):
    """The parser of one subcommand, with the options that all of them share.

    Args:
        prog: The subcommand, such as "ftm run".
        description: One sentence, which begins with a verb.
        epilog: Examples and notes, printed as they are.
    """

    def __init__(self, prog: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,  # otherwise `ftm opt --all` runs --allocate-scratchpad
        )
        shared = self.add_argument_group("options of every command")
        shared.add_argument("--version", nargs=0, action=_Version, help="print the version")
        volume = shared.add_mutually_exclusive_group()
        volume.add_argument("-q", "--quiet", action="store_true", help="print no notes on stderr")
        volume.add_argument(
            "-v", "--verbose", action="store_true", help="show the traceback of a fault of ftm"
        )

    def add_machine(self, text: str, default: str | None = None) -> None:
        """Add ``--machine PRESET``."""
        self.add_argument("--machine", metavar="PRESET", default=default, help=text)

    def add_cores(self, text: str, default: int) -> None:
        """Add ``--cores N``; the command checks the bounds."""
        self.add_argument("--cores", type=int, metavar="N", default=default, help=text)

    def add_output(
        self, text: str, default: object = None, kind: Callable[[str], object] = Path
    ) -> None:
        """Add ``-o``, ``--output FILE``."""
        self.add_argument("-o", "--output", type=kind, metavar="FILE", default=default, help=text)

    def add_json(self) -> None:
        """Add ``--json``, for commands that otherwise print a table."""
        self.add_argument("--json", action="store_true", help="print JSON in place of the table")

    # argparse does not type its results
    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the command line, and remember how much to print."""
        found = super().parse_args(args, namespace)
        _Verbosity.level = found.verbose - found.quiet
        return found

    def error(self, message: str) -> NoReturn:
        """Print one line, and exit with status 2."""
        _report(self.prog, f"{message} (`{self.prog} --help` lists the options)")
        raise SystemExit(2)


def command(program: str) -> Callable[[Main], Main]:
    """Decorator: turn a function from arguments to exit status into a command.

    The command reports every exception as one message and returns the status listed in the module's
    docstring. The message for an unexpected exception includes the command line; ``--verbose`` adds
    the traceback, and Python's development mode raises it instead.

    Args:
        program: The command's name in messages, such as "ftm run".
    """

    def wrap(body: Main) -> Main:
        @functools.wraps(body)
        def main(arguments: Sequence[str] | None = None) -> int:
            _Verbosity.level = 0
            try:
                _refuse_nul(arguments or ())
                try:
                    status = body(arguments)
                finally:  # argparse's help ends with SystemExit
                    _flush()
                return status
            except BrokenPipeError:
                _discard_output()
                return _CLOSED_PIPE
            except KeyboardInterrupt:
                _report(program, "interrupted")
                return _INTERRUPTED
            except (UserError, MissingPackageError, OSError, MemoryError) as error:
                _report(program, _message(error))
            except Exception as error:
                if sys.flags.dev_mode:
                    raise
                given = sys.argv[1:] if arguments is None else arguments
                if _Verbosity.level > 0:
                    traceback.print_exc()
                _report(
                    program,
                    f"`{program} {shlex.join(map(str, given))}` failed inside: {_message(error)}"
                    " (-v shows where)",
                )
            return 2

        return main

    return wrap


def _refuse_nul(arguments: Sequence[str]) -> None:
    """Raise UserError for an argument that no file can be named by."""
    for argument in arguments:
        if "\0" in argument:
            raise UserError(f"{argument}: a name cannot contain a NUL")


@contextlib.contextmanager
def naming(subject: Path | str, *kinds: type[Exception], what: str = "") -> Iterator[None]:
    """Convert exceptions of the given kinds to a UserError that begins with its subject.

    Args:
        subject: The file or option at fault.
        kinds: Exceptions to convert; for a parser of foreign formats, ``Exception``.
        what: A description of the subject's fault, such as "no JSON".
    """
    caught: tuple[type[Exception], ...] = (MemoryError, *kinds)
    try:
        yield
    except (UserError, MissingPackageError, OSError):
        raise
    except caught as error:
        raise UserError(f"{subject}{f' is {what}' if what else ''}: {_message(error)}") from error


def bounded(option: str, value: int, low: int, high: int) -> int:
    """Return an option's value; raise UserError unless ``low <= value <= high``."""
    if not low <= value <= high:
        raise UserError(
            f"{option} {safe_names.shortened(str(value), 40)}:"
            f" expected a whole number from {low} to {high}"
        )
    return value


def version() -> str:
    """Return the installed version of ftm; "unknown" if the sources are used uninstalled."""
    try:
        return metadata.version("torch-ftm")
    except metadata.PackageNotFoundError:
        return "unknown"


def note(text: str) -> None:
    """Print a line on stderr that is no result and no error, unless ``--quiet`` is given."""
    if _Verbosity.level >= 0:
        print(safe_names.printable(text), file=sys.stderr)


def say(text: str) -> None:
    """Print a line that may contain names from files on standard output."""
    print(safe_names.printable(text))


def _report(program: str, message: str) -> None:
    with contextlib.suppress(OSError, AttributeError):  # stderr is closed
        is_coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        name = f"\033[1;31m{program}:\033[0m" if is_coloured else f"{program}:"
        print(
            f"{name} {safe_names.printable(safe_names.shortened(message, _LONGEST_MESSAGE))}",
            file=sys.stderr,
        )


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return (
            f"{os.fspath(error.filename)}: {error.strerror}"
            if error.filename is not None
            else error.strerror
        )
    if isinstance(error, MemoryError):
        return f"not enough memory{f': {error}' if str(error) else ''}"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return str(error).strip() or type(error).__name__


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _discard_output() -> None:
    """Redirect standard output to the null device, so that the flush at exit succeeds."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
