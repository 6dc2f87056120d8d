"""Common behaviour of all commands: error messages, exit status, and argument parsing.

Exit status: 0 success; 2 the command line or a file is invalid, after a message on stderr that
names it; 130 interrupted; 141 the reader of standard output has closed it. 1 is reserved for
commands that answer a question with no, as ``cmp`` does.
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
from ftm_backend.optional_packages import MissingPackageError

__all__ = ["MOST_CORES", "Parser", "UserError", "bounded", "command", "naming", "say"]

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


class Parser(argparse.ArgumentParser):
    """An ArgumentParser with short, terminal-safe messages; its help keeps the layout."""

    def __init__(self, prog: str, description: str, epilog: str = "") -> None:
        """Create a parser for the program `prog`."""
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """Print usage and message, and exit with status 2."""
        super().error(safe_names.printable(safe_names.shortened(message, _LONGEST_MESSAGE)))


def command(program: str) -> Callable[[Main], Main]:
    """Decorator: turn a function from arguments to exit status into a command.

    The command reports every exception as one message and returns the status listed in the module's
    docstring. The message for an unexpected exception includes the command line; Python's
    development mode raises it instead.
    """

    def wrap(body: Main) -> Main:
        @functools.wraps(body)
        def main(arguments: Sequence[str] | None = None) -> int:
            try:
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
                command_line = shlex.join(
                    [program, *map(str, sys.argv[1:] if arguments is None else arguments)]
                )
                _report(
                    program,
                    f"`{command_line}` failed inside: {_message(error)}"
                    " (python -X dev shows where)",
                )
            return 2

        return main

    return wrap


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


def say(text: str) -> None:
    """Print a line that may contain names from files on standard output."""
    print(safe_names.printable(text))


def _report(program: str, message: str) -> None:
    with contextlib.suppress(OSError):  # stderr is closed
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
    """Redirect standard output to the null device, so that the flush at exit succeeds."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
