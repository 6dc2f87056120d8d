"""Options and settings of all tests.

The shell's `FTM_` settings do not reach tests. Compiled programs are cached apart from the user's,
in the folder `TEST_CACHE` or else in `build/test-cache`.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path

import pytest

import tiers

for _name in [name for name in os.environ if name.startswith("FTM_")]:
    del os.environ[_name]
os.environ["FTM_CACHE_DIR"] = os.environ.get(
    "TEST_CACHE", str(Path(__file__).parents[1] / "build" / "test-cache")
)


# Importing the tests makes no garbage, so the collector is off meanwhile. It never visits what was
# imported: with PyTorch, that would take 0.3 s for each full collection.
gc.disable()


def pytest_addoption(parser):
    parser.addoption(
        "--accept", action="store_true", help="store what the passes leave now in tests/golden"
    )
    parser.addoption(
        "--all-combinations", action="store_true", help="run what the mark `one_in` leaves out"
    )
    parser.addoption("--tier", choices=tiers.TIERS, help="run only one tier, see tests/tiers.py")
    parser.addoption(
        "--sanitized",
        choices=("address", "thread"),
        help="run the emulator under a sanitizer, see tests/fuzz/sanitized.py",
    )


def pytest_configure(config):
    # A process that a script starts in the background ignores Ctrl-C, and tests of interrupts
    # would wait forever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kind = config.getoption("--sanitized")
    if kind:
        from ftm_backend.machine import build, emulator

        emulator.LIBRARY = build.sanitized(kind)


def pytest_ignore_collect(collection_path, config):
    wanted = config.getoption("--tier")
    if collection_path.is_dir():
        return True if wanted == "unit" and tiers.needs_torch(collection_path) else None
    if not (collection_path.name.startswith("test_") and collection_path.suffix == ".py"):
        return None
    is_other_tier = wanted and tiers.tier(collection_path) != wanted
    is_unmarked = (
        config.getoption("markexpr") == "alone"
        and "pytest.mark.alone" not in collection_path.read_text()
    )
    return True if is_other_tier or is_unmarked else None


def pytest_collection_modifyitems(config, items):
    is_named = any("::" in argument for argument in config.args)
    if not (is_named or config.getoption("--all-combinations")):
        chosen = tiers.chosen(items)
        config.hook.pytest_deselected(items=list(set(items) - set(chosen)))
        items[:] = chosen
    order = tiers.start_order([item.path for item in items])
    items.sort(key=lambda item: order[item.path])


def pytest_collection_finish():
    gc.freeze()
    gc.enable()
    gc.collect()  # else full collections wait for a quarter as many objects as were frozen
    torch = sys.modules.get("torch")
    if torch is not None:
        # `torch.manual_seed` seeds devices of every kind. Those that are not in use note the call
        # and the stack, in 0.8 ms: a third of the time of tests that seed often.
        for kind in (torch.cuda, torch.xpu, torch.mtia):
            kind.manual_seed_all = _no_seed


def _no_seed(seed):
    """Seed no device: the tests use none of this kind."""


def pytest_sessionfinish(session):
    if session.config.getoption("--tier") == "unit" and "torch" in sys.modules:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        print("\nERROR: a test of the tier `unit` imported torch, see tests/tiers.py")


@pytest.fixture
def accept(request) -> bool:
    """Whether goldens are written instead of compared."""
    return request.config.getoption("--accept")
