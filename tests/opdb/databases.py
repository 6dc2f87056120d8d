"""The databases: their entries by name, the units to run, the cases of a check."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from opdb import compiled_checks, module_checks, op_checks, optim_checks
from opdb.compare import UNDETERMINED, Tolerance, override
from opdb.engine import Case

__all__ = ["DATABASES", "Database", "Unit"]


@dataclass(frozen=True)
class Unit:
    """The checks of an entry in one dtype, which one worker runs."""

    db: str
    entry: str
    dtype: str
    checks: tuple[str, ...]


@dataclass(frozen=True)
class Database:
    """One of PyTorch's databases, and how it is run."""

    entries: Callable[[], dict[str, Any]]
    """Its entries by name, in order."""
    dtypes: Callable[[Any], list[torch.dtype]]
    """The dtypes that an entry is checked in, the primary one first."""
    checks: tuple[str, ...]
    applies: Callable[[Any, torch.dtype, str], bool]
    cases: Callable[[Any, torch.dtype, str], Iterator[Case]]
    tolerance: Callable[[Any, torch.dtype], Tolerance]
    determined: Callable[[Any], bool]

    def units(self, name: str) -> Iterator[Unit]:
        """All units, in the order of the entries."""
        for entry_name, entry in self.entries().items():
            for dtype in self.dtypes(entry):
                checks = tuple(check for check in self.checks if self.applies(entry, dtype, check))
                if checks:
                    yield Unit(name, entry_name, str(dtype).removeprefix("torch."), checks)


@functools.cache
def _ops() -> dict[str, Any]:
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.opinfo import core

    # For each sample, PyTorch looks on the stack for the unittest that draws it: a third of the
    # time of all checks. There is none.
    common_utils.extract_test_fn = core.extract_test_fn = lambda: None
    return {op.formatted_name: op for op in op_db}


@functools.cache
def _modules() -> dict[str, Any]:
    from torch.testing._internal.common_modules import module_db

    return {info.formatted_name: info for info in module_db}


@functools.cache
def _optims() -> dict[str, Any]:
    from torch.testing._internal.common_optimizers import optim_db

    return {info.name: info for info in optim_db}


def _op_dtypes(op: Any) -> list[torch.dtype]:
    """What the CPU supports of `DTYPES`, or one other dtype; nothing for an op that the CPU does
    not have."""
    first = op_checks.primary(op)
    # kernels that are compiled for a GPU from C++ text
    if first is None or op.name.startswith("jiterator"):
        return []
    if first not in op_checks.DTYPES:
        return [first]
    return [dtype for dtype in op_checks.DTYPES if dtype in op.supported_dtypes("cpu")]


DATABASES = {
    "ops": Database(
        _ops,
        _op_dtypes,
        tuple(op_checks.CHECKS),
        op_checks.applies,
        op_checks.cases,
        override,
        lambda op: op.name not in UNDETERMINED,
    ),
    "compiled": Database(
        _ops,
        compiled_checks.dtypes,
        compiled_checks.CHECKS,
        compiled_checks.applies,
        compiled_checks.cases,
        override,
        lambda op: op.name not in UNDETERMINED,
    ),
    "modules": Database(
        _modules,
        lambda info: list(module_checks.DTYPES),
        module_checks.CHECKS,
        module_checks.applies,
        module_checks.cases,
        module_checks.tolerance,
        lambda info: True,
    ),
    "optims": Database(
        _optims,
        optim_checks.dtypes,
        optim_checks.CHECKS,
        optim_checks.applies,
        optim_checks.cases,
        optim_checks.tolerance,
        lambda info: True,
    ),
}
"""The databases by the name that the command knows them by."""
