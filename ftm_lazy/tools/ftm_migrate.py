"""``ftm migrate``: rewrite torch_xla programs as plain PyTorch on ftm."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ftm_backend import optional_packages
from ftm_backend.cli_common import Parser, UserError, command, note, say
from ftm_backend.safe_names import printable
from ftm_backend.tools.input_files import read_bytes


def parser() -> Parser:
    """Return the command's parser."""
    parser = Parser(
        "ftm migrate",
        "Rewrite torch_xla programs as plain PyTorch on ftm; print a diff by default.",
        """\
examples:
  ftm migrate train.py                 what would change, and what is left to you
  ftm migrate --write train.py models  change a file and a directory of files
""",
    )
    parser.add_argument("paths", nargs="+", type=Path, help="files, or directories of Python files")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--write", action="store_true", help="change the files")
    mode.add_argument(
        "--check",
        action="store_true",
        help="list the files that would change, and exit with 1 if there are any",
    )
    return parser


@command("ftm migrate")
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: Command line without the program's name; None for `sys.argv`.

    Returns:
        The exit status: 2 if a file could not be read, 1 if one would change (--check), else 0.
    """
    options = parser().parse_args(arguments)
    with optional_packages.needed("rewriting programs"):
        from ftm_lazy.migrate.rewrite import MigrateError, migrate

    changed = left = failed = 0
    for path in _files(options.paths):
        try:
            source = read_bytes(path)
            result = migrate(source)
        except (OSError, UserError, MigrateError) as error:
            reason = str(error) if str(path) in str(error) else f"{path}: {error}"
            print(printable(f"ftm migrate: {reason}"), file=sys.stderr)
            failed += 1
            continue
        for line, reason in result.left:
            print(printable(f"{path}:{line}: {reason}"), file=sys.stderr)
        left += len(result.left)
        if result.code == source:
            continue
        changed += 1
        if options.check:
            say(f"{path}: would change")
        elif options.write:
            path.write_bytes(result.code)
            say(f"{path}: changed")
        else:
            sys.stdout.writelines(_diff(path, source, result.code))
    note(
        f"{changed} files {'changed' if options.write else 'to change'}, {left} places left to you"
    )
    if failed:
        return 2
    return 1 if options.check and changed else 0


def _files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def _diff(path: Path, before: bytes, after: bytes) -> Iterator[str]:
    old, new = (text.decode(errors="replace").splitlines(keepends=True) for text in (before, after))
    for line in difflib.unified_diff(old, new, f"a/{path}", f"b/{path}"):
        yield line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


if __name__ == "__main__":
    sys.exit(main())
