"""Machines that the tests of this folder share; opening one costs threads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ftm_backend.machine import Machine
from ftm_backend.machine.build import build


@pytest.fixture(scope="session")
def fast() -> Iterator[Machine]:
    """One core in fast mode."""
    build()
    with Machine(cores=1) as machine:
        yield machine


@pytest.fixture(scope="session")
def checked() -> Iterator[Machine]:
    """One core in checked mode."""
    build()
    with Machine(cores=1, checked=True) as machine:
        yield machine


@pytest.fixture(scope="session")
def pair() -> Iterator[Machine]:
    """Two cores in fast mode."""
    build()
    with Machine(cores=2) as machine:
        yield machine
