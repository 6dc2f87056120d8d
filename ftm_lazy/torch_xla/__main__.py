"""Run an unmodified torch_xla program on ftm.

    python -m ftm_lazy.torch_xla script.py args
    python -m ftm_lazy.torch_xla -m module args
    torchrun --nproc-per-node 2 --no-python python -m ftm_lazy.torch_xla script.py args

The names of the device and of the package must be set before the program imports torch. So this
restarts Python with FTM_DEVICE_NAME=xla and with the package torch_xla on PYTHONPATH. Child
processes inherit both.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["environment", "main"]


def environment() -> dict[str, str]:
    """Return this process's environment with the variables for torch_xla programs."""
    path = [str(Path(__file__).with_name("importable")), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "FTM_DEVICE_NAME": "xla",
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
    }


def main(arguments: list[str]) -> None:
    """Replace this process by Python with `arguments` and with this interpreter's options."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if arguments else 2)
    if sys.flags.ignore_environment:
        sys.exit(
            _usage_error("it sets environment variables, which Python's options -E and -I ignore")
        )
    module = next(i for i, word in enumerate(sys.orig_argv) if word.startswith("-m"))
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:module], *arguments], environment())


def _usage_error(reason: str) -> int:
    print(f"ftm_lazy.torch_xla: {reason}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main(sys.argv[1:])
