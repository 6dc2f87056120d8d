"""The end-to-end tests import the examples as modules and count from zero."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import ftm_lazy
from ftm_lazy import _C
from ftm_lazy.compile.compile_client import client
from ftm_lazy.compile.disk_cache import DiskCache

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))


@pytest.fixture(scope="module", autouse=True)
def as_in_a_new_process() -> None:
    """Each file starts without programs in memory and without history, whatever ran before it.

    How many programs a trace needs depends on the traces before it: on sizes that have varied, and
    on loops whose length has.
    """
    forget_traces()


def forget_traces() -> None:
    torch.accelerator.synchronize()
    _C._wait_for_compilations()
    _C._reset()
    client().forget_programs()


@pytest.fixture(autouse=True)
def fresh_counters() -> Iterator[None]:
    """Each test counts from zero, and leaves nothing in flight."""
    ftm_lazy.metrics.reset()
    yield
    torch.accelerator.synchronize()
    _C._wait_for_compilations()


@pytest.fixture
def empty_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile every program of the test, and partition its traces as a new process does."""
    forget_traces()
    monkeypatch.setattr(client(), "_cache", DiskCache(tmp_path, 1 << 30))
