"""Builds the emulator's shared library next to this file: ``python -m ftm_backend.machine.build``.

``--sanitize`` builds a library for tests in ``build/address``, which aborts at the first access out
of bounds or undefined behavior. ``--sanitize=thread`` builds one in ``build/thread`` that reports
data races.

``sources.txt`` lists one source per line with its extra compiler flags; a line that starts with
``[x86]`` is for x86-64 only. An object is recompiled if its flags, its source or any header of the
machine changed; the library is linked again if an object changed.
"""

import argparse
import hashlib
import os
import platform
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARY = HERE / "libftm_machine.so"
FLAGS = (
    "-std=c++17 -O3 -fPIC -fvisibility=hidden -fno-math-errno -fno-trapping-math "
    "-ffp-contract=off -fno-strict-aliasing -Wall -Wextra -Wno-psabi -pthread"
).split()
# No -ffast-math: NaN, infinities and signed zeros are part of the instructions' semantics.
SANITIZERS = {
    # alignment: the caller's memory may have any alignment. float-cast-overflow: VCVT defines it.
    "address": (
        "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined "
        "-fno-sanitize-recover=undefined -fno-sanitize=alignment,float-cast-overflow"
    ).split(),
    # -Wno-tsan: TSan does not model fences. Next to each fence an atomic provides the ordering.
    "thread": "-O1 -g -fno-omit-frame-pointer -fsanitize=thread -Wno-tsan".split(),
}
"""Compiler and linker flags of each kind of sanitized library."""

__all__ = ["LIBRARY", "SANITIZERS", "build", "build_sanitized", "commands", "sanitized"]


def build(
    output: Path = LIBRARY,
    objects: Path | None = None,
    jobs: int = 2,
    force: bool = False,
    more: Sequence[str] = (),
) -> Path:
    """Compile what has changed and link the library.

    Args:
        output: The library.
        objects: Directory of the objects; by default ``build/`` next to this file.
        jobs: Parallel compilations.
        force: Compile everything.
        more: Additional flags for compiler and linker.

    Returns:
        ``output``.

    Raises:
        RuntimeError: A source does not compile, or there is no compiler; has its message.
    """
    objects = objects or HERE / "build"
    objects.mkdir(parents=True, exist_ok=True)
    headers = _digest(
        [
            *sorted((HERE / "include").glob("*.h")),
            *sorted((HERE / "src").rglob("*.h")),
            *sorted(HERE.glob("*.h")),
        ]
    )
    units = []
    for source, command in commands(more):
        stamp = _digest([source], " ".join(command), headers)[:16]
        units.append((command, objects / f"{source.stem}.{stamp}.o"))
    wanted = [target for _, target in units]
    stale = [(command, target) for command, target in units if force or not target.exists()]
    with ThreadPoolExecutor(max(1, jobs)) as pool:
        list(pool.map(lambda unit: _write(*unit), stale))
    for old in set(objects.glob("*.o")) - set(wanted):
        old.unlink(missing_ok=True)
    link_stamp = objects / f"{output.name}.linked"
    link_key = _digest([], *[str(target) for target in wanted])
    if (
        stale
        or not output.exists()
        or not link_stamp.exists()
        or link_stamp.read_text() != link_key
    ):
        _write([_compiler(), "-shared", "-pthread", *more, *map(str, wanted)], output)
        link_stamp.write_text(link_key)
    return output


def commands(more: Sequence[str] = ()) -> list[tuple[Path, list[str]]]:
    """Return each source and its compile command without the output."""
    includes = [f"-I{HERE}", f"-I{HERE / 'include'}", f"-I{HERE / 'src'}"]
    return [
        (source, [_compiler(), *FLAGS, *more, *flags, *includes, "-c", str(source)])
        for source, flags in _sources()
    ]


def sanitized(kind: str) -> Path:
    """Return the path of the library that `build_sanitized` builds for a kind of `SANITIZERS`."""
    return HERE / "build" / kind / LIBRARY.name


def build_sanitized(kind: str) -> Path:
    """Build the library with sanitizers.

    A process that loads it must preload the sanitizer's own library, see ``LD_PRELOAD`` in
    ``tests/fuzz/sanitized.py``.
    """
    library = sanitized(kind)
    library.parent.mkdir(parents=True, exist_ok=True)
    return build(library, library.parent, more=SANITIZERS[kind])


def _sources() -> list[tuple[Path, list[str]]]:
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    found = []
    for line in (HERE / "sources.txt").read_text().splitlines():
        words = line.split("#")[0].split()
        if words and words[0] == "[x86]":
            words = words[1:] if x86 else []
        if words:
            found.append((HERE / words[0], words[1:]))
    return found


def _compiler() -> str:
    return os.environ.get("CXX", "g++")


def _write(command: list[str], target: Path) -> None:
    """Run ``command -o target`` so that ``target`` appears complete or not at all."""
    handle, name = tempfile.mkstemp(prefix=target.name, suffix=".tmp", dir=target.parent)
    os.close(handle)
    try:
        run = subprocess.run([*command, "-o", name], capture_output=True, text=True)
        if run.returncode:
            raise RuntimeError(f"{' '.join(command)}\nfailed:\n{run.stderr}")
        os.chmod(name, 0o755)
        os.replace(name, target)
    except FileNotFoundError as error:
        raise RuntimeError(f"no C++ compiler {command[0]!r}: install g++ or set CXX") from error
    finally:
        Path(name).unlink(missing_ok=True)


def _digest(files: list[Path], *texts: str) -> str:
    state = hashlib.blake2b(digest_size=16)
    for text in texts:
        state.update(text.encode() + b"\0")
    for file in files:
        state.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return state.hexdigest()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--force", action="store_true", help="compile all, changed or not")
    parser.add_argument(
        "--sanitize",
        choices=SANITIZERS,
        nargs="?",
        const="address",
        help="another library, for tests (default address)",
    )
    given = parser.parse_args()
    try:
        print(build_sanitized(given.sanitize) if given.sanitize else build(force=given.force))
    except (RuntimeError, OSError) as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
