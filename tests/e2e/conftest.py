"""The end-to-end tests import the examples as modules and count from zero."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import ftm_lazy
from ftm_lazy import _C

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))


@pytest.fixture(autouse=True)
def fresh_counters() -> Iterator[None]:
    """Each test counts from zero, and leaves nothing in flight."""
    ftm_lazy.metrics.reset()
    yield
    torch.accelerator.synchronize()
    _C._wait_for_compilations()
