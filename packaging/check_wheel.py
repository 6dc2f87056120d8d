"""Check a wheel as a new user meets it: in an empty environment, with README's program.

    python packaging/check_wheel.py dist/torch_ftm-0.1.0-2.13.0-cp311-*.whl
    python packaging/check_wheel.py --python python3.12 --torch /env/site-packages dist/*cp312*.whl

The environment has no compiler on PATH and an empty HOME. ``--torch`` links an installed PyTorch
and its packages in place of a download. The report gives the time of the installation and the size
of what it added.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFORMANCE_MODEL = ["-m", "ftm_backend.tools.ftm_conformance", "host", "--only", "model mlp"]


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
    if given.torch:
        (packages / "torch_elsewhere.pth").write_text(f"{given.torch.resolve()}\n")
    home = folder / "home"
    home.mkdir()
    environment = {"HOME": str(home), "PATH": str(python.parent), "LANG": "C.UTF-8"}
    pip_settings = {name: text for name, text in os.environ.items() if name.startswith("PIP_")}

    before = _size(packages)
    begin = time.monotonic()
    install = [python, "-m", "pip", "install", "--quiet", *(["--no-deps"] if given.no_mlir else [])]
    subprocess.run([*install, given.wheel], check=True, env=environment | pip_settings)
    seconds = time.monotonic() - begin
    mlir = packages / "torch_mlir"
    added = _size(packages) - before
    print(f"{given.wheel.name}: {given.wheel.stat().st_size / 1e6:.1f} MB")
    print(f"installed in {seconds:.1f} s; {added / 1e6:.1f} MB added", end="")
    print(f", including {_size(mlir) / 1e6:.1f} MB of MLIR" if mlir.exists() else ", without MLIR")

    program = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    for title, arguments in (
        ("README's program", ["-c", program]),
        ("a conformance model", [] if given.no_mlir else CONFORMANCE_MODEL),
        ("ftm info", ["-m", "ftm_lazy", "info"]),
    ):
        if not arguments:
            continue
        done = subprocess.run(
            [python, "-W", "error::UserWarning", *arguments],
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
        )
        print(f"{title}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
        if done.returncode:
            return 1
    return 0


def _size(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    sys.exit(main())
