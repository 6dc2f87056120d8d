"""Runs a Python program with the machine under sanitizers: ``python tests/fuzz/sanitized.py -m pytest --sanitized tests/machine``."""

import os
import sys

from run import environment

if __name__ == "__main__":
    os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environment())
