"""Check a wheel as a new user meets it: in an empty environment, with README's programs.

    python packaging/check_wheel.py dist/torch_ftm-0.1.0.post21300-cp311-*.whl
    python packaging/check_wheel.py --python python3.12 --torch /env/site-packages dist/*cp312*.whl

The environment has no compiler on PATH and an empty HOME. PyTorch and numpy are installed first, as
README says, with what PyTorch requires; ``--torch`` links an installed PyTorch in place of a
download. Then the wheel must take less than `LONGEST` seconds and `LARGEST` megabytes, without
MLIR's bindings.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONGEST, LARGEST = 60.0, 40.0


def main() -> int:
    """Run the checks; return 0 if all pass."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--python", default=sys.executable, help="the interpreter to install for")
    parser.add_argument("--torch", type=Path, help="site-packages with an installed PyTorch")
    parser.add_argument(
        "--no-mlir", action="store_true", help="leave MLIR's bindings out, as `--no-deps` does"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ftm-wheel-") as name:
        return _check(Path(name), given)


def _check(folder: Path, given: argparse.Namespace) -> int:
    subprocess.run([given.python, "-m", "venv", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    packages = next((folder / "env").glob("lib/python*/site-packages"))
    home = folder / "home"
    home.mkdir()
    environment = {"HOME": str(home), "PATH": str(python.parent), "LANG": "C.UTF-8"}
    pip_settings = {name: text for name, text in os.environ.items() if name.startswith("PIP_")}

    def install(*words: str | Path) -> float:
        begin = time.monotonic()
        command = [python, "-m", "pip", "install", "--quiet", *words]
        subprocess.run(command, check=True, env=environment | pip_settings)
        return time.monotonic() - begin

    if given.torch:
        (packages / "torch_elsewhere.pth").write_text(f"{given.torch.resolve()}\n")
    # also if PyTorch is linked: what its folder lacks, such as CUDA's libraries, is no part of ftm
    install(f"torch=={_torch_of(given.wheel)}", "numpy")
    before = _size(packages)
    seconds = install(*(["--no-deps"] if given.no_mlir else []), given.wheel)
    mlir = _size(packages / "torch_mlir")
    added = _size(packages) - before - mlir
    print(f"{given.wheel.name}: {given.wheel.stat().st_size / 1e6:.1f} MB")
    print(f"installed in {seconds:.1f} s: {added / 1e6:.1f} MB, and {mlir / 1e6:.1f} MB of MLIR")
    if seconds > LONGEST or added > LARGEST * 1e6:
        print(f"more than {LONGEST:.0f} s or {LARGEST:.0f} MB")
        return 1
    return _run_programs(python, folder, environment, given.no_mlir)


def _torch_of(wheel: Path) -> str:
    """Return the version of PyTorch that a wheel requires."""
    with zipfile.ZipFile(wheel) as archive:
        # not the metadata of the module torch_xla, which the package contains
        name = next(n for n in archive.namelist() if re.fullmatch(r"[^/]*\.dist-info/METADATA", n))
        text = archive.read(name).decode()
    found = re.search(r"^Requires-Dist: torch==(.+)$", text, re.MULTILINE)
    if found is None:
        sys.exit(f"{wheel.name} requires no version of PyTorch")
    return found[1]


def _run_programs(python: Path, folder: Path, environment: dict[str, str], no_mlir: bool) -> int:
    """Run README's programs and commands, those that MLIR needs only with it."""
    readme = (ROOT / "README.md").read_text()
    first, second = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    commands = re.findall(r"^ftm .*$", readme, re.MULTILINE)
    warned = [python, "-W", "error::UserWarning"]
    programs: list[tuple[str, list[str | Path]]] = [("README's program", [*warned, "-c", first])]
    if not no_mlir:
        programs.append(("README's frontends", [python, "-c", second]))
        programs += [(line.partition("#")[0], ["/bin/sh", "-c", line]) for line in commands]
    programs.append(("ftm info", [*warned, "-m", "ftm_lazy", "info"]))
    for title, words in programs:
        done = subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True)
        shown = done.stdout if len(done.stdout) < 3000 else f"{done.stdout[:1000]}...\n"
        print(f"{title}: exit status {done.returncode}\n{shown}{done.stderr}", flush=True)
        if done.returncode:
            return 1
    return 0


def _size(path: Path) -> int:
    """Return the bytes of all files below a folder; 0 if there is none."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


if __name__ == "__main__":
    sys.exit(main())
