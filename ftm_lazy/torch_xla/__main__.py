"""Runs a program that was written for torch_xla, unchanged.

    python -m ftm_lazy.torch_xla script.py args
    python -m ftm_lazy.torch_xla -m module args
    torchrun --nproc-per-node 2 --no-python python -m ftm_lazy.torch_xla script.py args

Both names, of the package and of the device, must be known before the program imports torch, so
Python is started anew with an environment that says them: FTM_DEVICE_NAME=xla, and the package
torch_xla on PYTHONPATH. What the program starts has it too.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["environment", "main"]


def environment() -> dict[str, str]:
    """Return the environment of a program for torch_xla: this process's, with the two names."""
    path = [str(Path(__file__).with_name("importable")), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "FTM_DEVICE_NAME": "xla",
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
    }


def main(arguments: list[str]) -> None:
    """Replace this process by ``python`` with `arguments`, and with the options of Python that
    this one has."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if arguments else 2)
    if sys.flags.ignore_environment:
        sys.exit(
            _wrong(
                "the program's names are set in the environment, which Python's options -E and -I leave out"
            )
        )
    own = next(place for place, word in enumerate(sys.orig_argv) if word.startswith("-m"))
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:own], *arguments], environment())


def _wrong(reason: str) -> int:
    print(f"ftm_lazy.torch_xla: {reason}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main(sys.argv[1:])
