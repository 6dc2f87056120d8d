"""Fixtures: each process has its own cache directory, and Dynamo has the backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from ftm_lazy import metrics
from ftm_lazy.frontends.dynamo import backend


@pytest.fixture(scope="session", autouse=True)
def _entry_point() -> None:
    """A checkout that was not installed since the entry point came has it all the same."""
    if "ftm" not in torch._dynamo.list_backends():
        torch._dynamo.register_backend(backend, name="ftm")


@pytest.fixture(scope="session", autouse=True)
def _unmeasured_guards() -> None:
    """Dynamo measures each graph's guards for its log, after it has flushed the processor's caches.

    That is a ninth of the time of these tests.
    """
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    metrics.reset()
    yield
    torch._dynamo.reset()
