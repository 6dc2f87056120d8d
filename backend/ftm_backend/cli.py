"""What every command does the same way: how it reports errors, ends, and takes its arguments.

Exit status: 0 done; 2 the command line or a file is wrong, after a message on stderr that names it;
130 interrupted; 141 whoever read standard output has closed it. 1 is left to commands that answer a
question with no, as ``cmp`` does.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NoReturn, Protocol

from ftm_backend import safe_names

__all__ = ["MOST_CORES", "Parser", "UserError", "bounded", "command", "naming", "say"]

MOST_CORES = 256
"""Cores that a machine can have, see ``ftm_config`` in ``ftm_machine.h``."""

_INTERRUPTED = 128 + 2  # as a shell reports SIGINT
_CLOSED_PIPE = 128 + 13  # as a shell reports SIGPIPE
_LONGEST_MESSAGE = 4000


class Main(Protocol):
    """A command: takes its arguments, or those of the process, and returns the exit status."""

    def __call__(self, arguments: Sequence[str] | None = None) -> int:
        """Runs it."""


class UserError(Exception):
    """The command line or a file that it names is wrong; the message says which and what to do."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose messages are short and safe for a terminal, and whose help keeps its
    layout."""

    def __init__(self, prog: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """Prints the usage and the message, and exits with 2."""
        super().error(safe_names.printable(safe_names.shortened(message, _LONGEST_MESSAGE)))


def command(program: str) -> Callable[[Main], Main]:
    """Makes a command of a function that takes the arguments and returns the exit status.

    The command reports every exception as one message and returns the status that the module's
    docstring lists. An exception that nothing foresaw is reported with the command line; in
    Python's development mode it is raised.
    """

    def wrap(body: Main) -> Main:
        @functools.wraps(body)
        def main(arguments: Sequence[str] | None = None) -> int:
            try:
                try:
                    status = body(arguments)
                finally:  # also after argparse's help, which ends with SystemExit
                    _flush()
                return status
            except BrokenPipeError:
                _discard_output()
                return _CLOSED_PIPE
            except KeyboardInterrupt:
                _report(program, "interrupted")
                return _INTERRUPTED
            except (UserError, OSError, MemoryError) as error:
                _report(program, _message(error))
            except Exception as error:
                if sys.flags.dev_mode:
                    raise
                given = shlex.join(
                    [program, *map(str, sys.argv[1:] if arguments is None else arguments)]
                )
                _report(
                    program,
                    f"`{given}` failed inside: {_message(error)} (python -X dev shows where)",
                )
            return 2

        return main

    return wrap


@contextlib.contextmanager
def naming(subject: Path | str, *kinds: type[Exception], what: str = "") -> Iterator[None]:
    """Turns exceptions of the given kinds into a UserError that begins with what they are about.

    Args:
        subject: The file or the option that is at fault.
        kinds: Exceptions to turn; for a parser of other people's formats, ``Exception``.
        what: What the subject turned out to be, as "no JSON".
    """
    caught: tuple[type[Exception], ...] = (MemoryError, *kinds)
    try:
        yield
    except (UserError, OSError):
        raise
    except caught as error:
        raise UserError(f"{subject}{f' is {what}' if what else ''}: {_message(error)}") from error


def bounded(option: str, value: int, low: int, high: int) -> int:
    """The value of an option; UserError unless it lies between the bounds, both included."""
    if not low <= value <= high:
        raise UserError(
            f"{option} {safe_names.shortened(str(value), 40)}: expected a whole number from {low} to {high}"
        )
    return value


def say(text: str) -> None:
    """Prints a line on standard output that holds names from files."""
    print(safe_names.printable(text))


def _report(program: str, message: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads stderr
        print(
            f"{program}: {safe_names.printable(safe_names.shortened(message, _LONGEST_MESSAGE))}",
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
    """Lets the interpreter's own flush at exit succeed: it would complain of the closed pipe."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
