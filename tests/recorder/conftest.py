"""The recorder by itself: every op counts as native and the reference executor runs the traces."""

from collections.abc import Iterator

import pytest
import torch

from ftm_backend.frontend.ops import native_ops
from ftm_lazy import _C, registration

EVERY_OP: dict[str, list[str]] = {"*": []}


@pytest.fixture(autouse=True)
def reference_executor() -> Iterator[None]:
    """Each test starts with nothing pending, the reference executor, and ends with nothing in flight."""
    registration.initialize()
    before = _C._executor()
    _C._set_executor("reference")
    _C._set_native_ops(EVERY_OP)
    _C._set_strict(False)
    torch.manual_seed(0)
    yield
    _C._sync(True)
    _C._set_native_ops({name: list(dtypes) for name, dtypes in native_ops().items()})
    _C._set_strict(False)
    _C._set_trace_limit(20000)
    _C._set_executor(before)
