"""``ftm cache``: looks at and changes the disk cache of compiled programs."""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path

from ftm_backend.cli_common import Parser, UserError, command, naming, note, say
from ftm_backend.tools.input_files import check_regular

_EPILOG = """\
examples:
  ftm cache                            each program and function: size, last use, machine
  ftm cache verify                     exit status 1 if a file is damaged
  ftm cache prune --size 500M --days 30
  ftm cache export programs.tar        on a machine that has compiled a step
  ftm cache import programs.tar        on the others

An entry is found only by the version of ftm that made it, for the same machine and cores. Programs
of an archive run in your process: import only what you or your cluster has exported.
"""


def parser() -> Parser:
    """Return the command's parser."""
    parser = Parser(
        "ftm cache", "List, verify, prune, export or import the cache of programs.", _EPILOG
    )
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        choices=("list", "verify", "prune", "export", "import"),
        help="default: list",
    )
    parser.add_argument("archive", nargs="?", type=Path, help="the file of export and import")
    parser.add_argument(
        "--dir", type=Path, metavar="DIR", help="the cache (default: FTM_CACHE_DIR)"
    )
    parser.add_argument(
        "--size", metavar="BYTES", help="prune: keep at most so much, such as 500M (default: all)"
    )
    parser.add_argument(
        "--days", type=float, metavar="N", help="prune: keep what was used in the last N days"
    )
    parser.add_argument(
        "--remove", action="store_true", help="verify: remove the files that are damaged"
    )
    parser.add_json()
    return parser


@command("ftm cache")
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 if `verify` finds a damaged file."""
    given = parser().parse_args(arguments)
    needs_archive = given.action in ("export", "import")
    if needs_archive != (given.archive is not None):
        wrong = "name the archive" if needs_archive else f"{given.archive} is not expected"
        raise UserError(f"{given.action}: {wrong}")
    directory = _directory(given.dir)
    return {
        "list": _list,
        "verify": _verify,
        "prune": _prune,
        "export": _export,
        "import": _import,
    }[given.action](directory, given)


def _directory(chosen: Path | None) -> Path:
    from ftm_lazy import settings

    with naming("the environment", settings.SettingsError):
        directory = chosen or settings.current().cache_dir
    if directory is None:
        raise UserError("the cache is off (FTM_CACHE_DIR): name a directory with --dir")
    return directory


def _list(directory: Path, given: argparse.Namespace) -> int:
    from ftm_lazy.compile import cache_files

    found = list(cache_files.entries(directory))
    if given.json:
        rows = [
            {
                "file": entry.path.name,
                "bytes": entry.size,
                "used": entry.used,
                "fault": entry.fault,
                "machine": entry.key.get("machine"),
                "cores": entry.key.get("cores"),
                "compiler": entry.key.get("compiler"),
            }
            for entry in found
        ]
        say(json.dumps(rows, indent=1))
        return 0
    say(f"{directory}: {len(found)} files, {sum(entry.size for entry in found):,} bytes")
    for entry in found:
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.used))
        is_program = "cores" in entry.key
        target = f"{entry.key['machine']}, {entry.key['cores']} cores" if is_program else ""
        say(f"{entry.path.name:49}  {entry.size:>12,}  {used}  {entry.fault or target}".rstrip())
    return 0


def _verify(directory: Path, given: argparse.Namespace) -> int:
    from ftm_lazy.compile import cache_files

    found = list(cache_files.entries(directory))
    damaged = [entry for entry in found if entry.fault]
    for entry in damaged:
        say(f"{entry.path}: {entry.fault}")
    if given.remove:
        cache_files.remove_damaged(directory)
    note(f"{len(found)} files, {len(damaged)} damaged{' and removed' if given.remove else ''}")
    return 1 if damaged and not given.remove else 0


def _prune(directory: Path, given: argparse.Namespace) -> int:
    from ftm_lazy import settings
    from ftm_lazy.compile import cache_files

    if given.size is None and given.days is None:
        raise UserError("prune: say how much to keep, with --size or --days")
    with naming("--size", ValueError):
        limit = 1 << 62 if given.size is None else settings.parse_size(given.size)
    removed = cache_files.prune(directory, limit, given.days)
    note(f"{len(removed)} files removed, {sum(entry.size for entry in removed):,} bytes")
    return 0


def _export(directory: Path, given: argparse.Namespace) -> int:
    from ftm_lazy.compile import cache_files

    note(f"{cache_files.export(directory, given.archive)} entries in {given.archive}")
    return 0


def _import(directory: Path, given: argparse.Namespace) -> int:
    from ftm_lazy.compile import cache_files, trusted_files

    check_regular(given.archive)
    with (
        naming(given.archive, tarfile.TarError, what="no archive of `ftm cache export`"),
        naming(directory, trusted_files.ForeignFile),
    ):
        added, refused = cache_files.import_archive(directory, given.archive)
    if refused:
        raise UserError(
            f"{given.archive}: {len(refused)} members are no whole entries, such as {refused[0]!r};"
            f" {added} entries added"
        )
    note(f"{added} entries added to {directory}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
