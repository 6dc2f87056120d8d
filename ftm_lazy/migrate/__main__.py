"""``python -m ftm_lazy.migrate``, and the command ``ftm-migrate``."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterator
from pathlib import Path

from ftm_lazy.migrate.rewrite import MigrateError, migrate

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Runs the command; the exit code is 1 where something would change (--check) or could not be read, else 0."""
    parser = argparse.ArgumentParser(
        prog="ftm-migrate", description="Rewrites programs for torch_xla as plain PyTorch on ftm; shows a diff by default."
    )
    parser.add_argument("paths", nargs="+", type=Path, help="files, or directories of Python files")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--write", action="store_true", help="change the files")
    mode.add_argument("--check", action="store_true", help="only say which files would change, by the exit code too")
    given = parser.parse_args(argv)

    changed = left = failed = 0
    for path in _files(given.paths):
        try:
            source = path.read_bytes()
            result = migrate(source)
        except (OSError, MigrateError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            failed += 1
            continue
        for line, reason in result.left:
            print(f"{path}:{line}: {reason}", file=sys.stderr)
        left += len(result.left)
        if result.code == source:
            continue
        changed += 1
        if given.check:
            print(f"{path}: would change")
        elif given.write:
            path.write_bytes(result.code)
            print(f"{path}: changed")
        else:
            sys.stdout.writelines(_diff(path, source, result.code))
    print(f"{changed} files {'changed' if given.write else 'to change'}, {left} places left to you", file=sys.stderr)
    return 1 if failed or (given.check and changed) else 0


def _files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def _diff(path: Path, before: bytes, after: bytes) -> Iterator[str]:
    old, new = (text.decode(errors="replace").splitlines(keepends=True) for text in (before, after))
    for line in difflib.unified_diff(old, new, f"a/{path}", f"b/{path}"):
        yield line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


if __name__ == "__main__":
    sys.exit(main())
