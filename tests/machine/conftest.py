"""Machines that the tests of this folder share; opening one costs threads."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator

import numpy as np
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


PAGE = mmap.PAGESIZE
PROT_NONE, PROT_ALL = 0, mmap.PROT_READ | mmap.PROT_WRITE

Guarded = Callable[[np.ndarray], np.ndarray]


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    """Copies an array to the end of a page whose next one has no access."""
    protect = ctypes.CDLL(None).mprotect
    made: list[tuple[mmap.mmap, int]] = []

    def copy(array: np.ndarray) -> np.ndarray:
        room = -(-array.nbytes // PAGE) * PAGE
        memory = mmap.mmap(-1, room + PAGE)
        start = np.frombuffer(memory, np.uint8).ctypes.data
        assert protect(ctypes.c_void_p(start + room), ctypes.c_size_t(PAGE), PROT_NONE) == 0
        made.append((memory, start + room))
        result = np.frombuffer(memory, array.dtype, array.size, room - array.nbytes)
        result = result.reshape(array.shape)
        result[...] = array
        return result

    yield copy
    for _, start in made:
        protect(ctypes.c_void_p(start), ctypes.c_size_t(PAGE), PROT_ALL)
