"""All tests: programs are cached beside the build, apart from the user's own; settings of the shell
do not reach them."""

import os
import signal
from pathlib import Path

import pytest

for _name in [name for name in os.environ if name.startswith("FTM_")]:
    del os.environ[_name]
os.environ["FTM_CACHE_DIR"] = str(Path(__file__).parents[1] / "build" / "test-cache")


def pytest_addoption(parser):
    """``--sanitized``: `make sanitize`, which also preloads what such a library needs.
    ``--accept``: see tests/golden."""
    parser.addoption(
        "--accept", action="store_true", help="golden texts become what the passes leave now"
    )
    parser.addoption(
        "--sanitized",
        choices=("address", "thread"),
        help="the machine under sanitizers, see tests/fuzz/sanitized.py",
    )


def pytest_configure(config):
    """Puts the sanitized library in the place of the machine, and Ctrl-C back where it belongs:
    what a script's shell starts in the background ignores it, and tests of interrupts would wait
    for ever."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kind = config.getoption("--sanitized")
    if kind:
        from ftm_backend.machine import build, emulator

        emulator.LIBRARY = build.sanitized(kind)


@pytest.fixture
def accept(request) -> bool:
    """Whether goldens are written instead of compared."""
    return request.config.getoption("--accept")
