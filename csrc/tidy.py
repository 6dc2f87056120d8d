"""Run clang-tidy (rules: ``.clang-tidy``) over the recorder and the machine, or over some files.

    python csrc/tidy.py                              # everything, two minutes on two CPUs
    python csrc/tidy.py csrc/execute csrc/graph/call_spec.cpp

The sources of a folder of the recorder are checked as one unit, as they are compiled, since
PyTorch's headers take nine tenths of the time. The compile commands come from
``compile_commands.json``, which the build writes. Exits with 1 if there are findings.

A unit without findings is not checked again until one of its files, its flags, the rules or the
pinned packages change: `CACHE` has an empty file for each such state.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ROOT / "compile_commands.json"
CACHE = Path(os.environ.get("TEST_CACHE", ROOT / "build" / "test-cache")).with_suffix(".tidy")
FOLDER = re.compile(r"^-(?:I|iquote|isystem)\n?(.*)$", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.MULTILINE)
FINDING = re.compile(r"^(/.*|\S+\.(?:h|cpp|inc)):\d+:\d+: (?:error|warning): ", re.MULTILINE)


@dataclass(frozen=True)
class Unit:
    """The input of one clang-tidy: sources that are compiled with the same flags."""

    name: str
    sources: tuple[Path, ...]
    flags: tuple[str, ...]


def units(chosen: Sequence[Path]) -> list[Unit]:
    """Return the units of the sources below ``chosen``, largest first; exits if there are none."""
    if not COMMANDS.exists():
        sys.exit("no compile_commands.json: build first (`make build`)")
    together: dict[tuple[Path, tuple[str, ...]], list[Path]] = defaultdict(list)
    for entry in json.loads(COMMANDS.read_text()):
        source = Path(entry["file"])
        if any(source.is_relative_to(path) for path in chosen):
            _, *flags, _, _ = entry["arguments"]  # compiler, flags, -c, source
            name = source.parent if source.is_relative_to(ROOT / "csrc") else source
            together[name.relative_to(ROOT), tuple(flags)].append(source)
    if not together:
        sys.exit(f"no C++ sources below {', '.join(map(str, chosen))}")
    found = [Unit(str(name), tuple(sources), flags) for (name, flags), sources in together.items()]
    return sorted(found, key=lambda unit: -sum(source.stat().st_size for source in unit.sources))


def files(unit: Unit) -> list[Path]:
    """Return the sources of a unit and the headers of the project that they include, sorted."""
    folders = [ROOT / folder for folder in FOLDER.findall("\n".join(unit.flags))]
    pending, found = list(unit.sources), set(unit.sources)
    while pending:
        file = pending.pop()
        for name in INCLUDE.findall(file.read_text()):
            for folder in (file.parent, *folders):
                path = (folder / name).resolve()
                if path.is_relative_to(ROOT) and path.is_file() and path not in found:
                    found.add(path)
                    pending.append(path)
    return sorted(found)


def state(unit: Unit) -> str:
    """Return a digest of all that clang-tidy's findings in a unit depend on."""
    digest = hashlib.sha256(" ".join(unit.flags).replace(str(ROOT), "").encode())
    for file in (ROOT / "requirements.txt", ROOT / ".clang-tidy", Path(__file__), *files(unit)):
        digest.update(str(file.relative_to(ROOT)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def check(unit: Unit) -> list[str]:
    """Return clang-tidy's findings in a unit, each with its lines."""
    clean = CACHE / state(unit)
    if clean.exists():
        return []
    found = findings(unit)
    if not found:
        clean.parent.mkdir(parents=True, exist_ok=True)
        clean.touch()
    return found


def findings(unit: Unit) -> list[str]:
    """Run clang-tidy on a unit."""
    with tempfile.TemporaryDirectory(prefix="ftm-tidy-") as folder:
        together = Path(folder) / "together.cpp"
        together.write_text("".join(f'#include "{source}"\n' for source in unit.sources))
        options = [
            "--quiet",
            f"--config-file={ROOT / '.clang-tidy'}",
            "--checks=-bugprone-suspicious-include",
            "--warnings-as-errors=*",
        ]
        tool = [
            str(Path(sys.executable).with_name("clang-tidy")),
            *options,
            str(together),
            "--",
            *unit.flags,
        ]
        done = subprocess.run(tool, capture_output=True, text=True, cwd=ROOT)
    begins = [match.start() for match in FINDING.finditer(done.stdout)]
    found = [
        done.stdout[begin:end]
        for begin, end in zip(begins, [*begins, len(done.stdout)][1:], strict=True)
    ]
    if done.returncode and not found:
        found = [f"clang-tidy failed on {unit.name}:\n{done.stdout}{done.stderr}"]
    return found


def main() -> int:
    """Print the findings; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "paths", nargs="*", type=Path, help="files and folders (default: all C++ of the project)"
    )
    chosen = [path.resolve() for path in parser.parse_args().paths] or [ROOT]
    todo, seen, begin = units(chosen), set(), time.monotonic()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for index, (unit, found) in enumerate(
            zip(todo, pool.map(check, todo), strict=True), start=1
        ):
            print(
                f"[{index}/{len(todo)}] {unit.name}  {time.monotonic() - begin:.0f} s",
                file=sys.stderr,
                flush=True,
            )
            for finding in found:  # one in a header is found by each unit that includes it
                if finding not in seen:
                    seen.add(finding)
                    print(finding, end="", flush=True)
    return bool(seen)


if __name__ == "__main__":
    sys.exit(main())
