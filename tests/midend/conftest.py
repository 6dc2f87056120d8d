"""A test that changes the compiler must not meet decisions that it made before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ftm_backend.midend.transforms.fusion import fusion_cache


@pytest.fixture(autouse=True)
def _own_decisions(request: pytest.FixtureRequest) -> Iterator[None]:
    changes = "monkeypatch" in request.fixturenames
    if changes:
        fusion_cache.forget()
    yield
    if changes:
        fusion_cache.forget()
