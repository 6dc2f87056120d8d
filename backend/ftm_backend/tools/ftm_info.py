"""``ftm info``: what a bug report needs, also if the device cannot be loaded.

PyTorch and ``ftm_lazy`` are imported by name inside of `try`, because a wrong installation of them
is what some reports are about.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
import tempfile
import warnings
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from ftm_backend.cli_common import Parser, command, say, version

_PACKAGES = ("torch", "numpy", "torch-mlir", "accelerate", "lightning", "transformers")


def parser() -> Parser:
    """Return the command's parser."""
    parser = Parser(
        "ftm info",
        "Print what a bug report needs: versions, machine, cache, settings, the last reproducer.",
    )
    parser.add_json()
    return parser


@command("ftm info")
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    given = parser().parse_args(arguments)
    facts = collect()
    if given.json:
        say(json.dumps(facts, indent=1))
        return 0
    width = max(map(len, facts))
    for name, value in facts.items():
        if isinstance(value, dict):
            value = "\n".join(f"{key}={text}" for key, text in value.items()) or "none"
        say(f"{name:{width}}  " + value.replace("\n", "\n" + " " * (width + 2)))
    return 0


def collect() -> dict[str, str | dict[str, str]]:
    """Return the facts by name: texts, and settings as a dictionary."""
    facts: dict[str, str | dict[str, str]] = {"ftm": version(), "device": _device()}
    for package in _PACKAGES:
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            facts[package] = "not installed"
    facts["python"] = f"{platform.python_version()}, {sys.executable}"
    facts["system"] = f"{platform.platform()}, {os.cpu_count()} CPUs"
    facts["environment"] = {
        name: text for name, text in sorted(os.environ.items()) if name.startswith("FTM_")
    }
    facts |= _settings()
    facts["last reproducer"] = _last_reproducer()
    return facts


def _device() -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module("ftm_lazy")
        built = importlib.import_module("ftm_lazy.torch_version.supported").built_for()
    except Exception as error:  # whatever is wrong with the installation
        return f"not available: {error}"
    return f"available, built for PyTorch {built}"


def _settings() -> dict[str, str]:
    """Return the machine and the cache as the settings of the environment choose them."""
    try:
        settings = importlib.import_module("ftm_lazy.settings").current()
        cache_files = importlib.import_module("ftm_lazy.compile.cache_files")
    except Exception as error:  # an invalid setting, or no PyTorch
        return {"machine": f"unknown: {error}"}
    directory = settings.cache_dir
    files = cache_files.files(directory) if directory else []
    size = sum(file.stat().st_size for file in files) / 1e6
    return {
        "machine": f"{settings.machine}, {settings.cores} cores, {settings.machine_library}",
        "cache": f"{directory}, {len(files)} files, {size:.1f} MB" if directory else "off",
    }


def _last_reproducer() -> str:
    """Return the newest program that a failed compilation of this user has saved."""
    found = [
        path
        for folder in Path(tempfile.gettempdir()).glob("ftm-reproducers-*")
        if folder.stat().st_uid == os.getuid()
        for path in folder.iterdir()
    ]
    return str(max(found, key=lambda path: path.stat().st_mtime)) if found else "none"


if __name__ == "__main__":
    sys.exit(main())
