"""The recorder by itself, with the reference executor running every op; what users see, on the
machine as well."""

from collections.abc import Iterator

import pytest
import torch

from ftm_backend.frontend.ops import native_ops
from ftm_lazy import _C
from ftm_lazy.device import registration

EVERY_OP: dict[str, list[str]] = {"*": []}
COMPILED = {name: list(dtypes) for name, dtypes in native_ops().items()}
ON_BOTH = (
    "test_eager_semantics", "test_booleans", "test_concatenations", "test_equal_layers",
    "test_factories", "test_first_steps", "test_random", "test_runs", "test_storages",
    "test_unrolled", "test_windows", "test_writes_in_order",
)  # fmt: skip
"""Modules whose tests do not depend on the executor, so they run on the machine too."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.module.__name__.rpartition(".")[2] in ON_BOTH:
        metafunc.parametrize("executor", ["reference", "machine"], indirect=True)


@pytest.fixture(autouse=True)
def executor(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each test starts with nothing pending and an executor, and ends with nothing in flight."""
    name = getattr(request, "param", "reference")
    registration.initialize()
    before = _C._executor()
    _C._set_executor(name)
    _C._set_native_ops(EVERY_OP if name == "reference" else COMPILED)
    _C._set_strict(False)
    torch.manual_seed(0)
    yield name
    _C._sync(True)
    _C._set_native_ops(COMPILED)
    _C._set_strict(False)
    _C._set_trace_limit(20000)
    _C._set_loop_length(700)
    _C._set_executor(before)


@pytest.fixture
def forgotten(executor: str) -> None:
    """Start without cached programs, without a history of loops, and count from zero."""
    _C._sync(True)
    _C._reset()
    _C._reset_counters()
