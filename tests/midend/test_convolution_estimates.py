"""Modelled cycles of convolutions equal the cycle model's.

The cases are ResNet-18's convolutions on small images, with both gradients.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ftm_backend.midend.lowering.gemm.panel_loop import PanelLoop
from ftm_backend.perf_model import cycle_model

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from target_convolutions import DIRECTIONS, compiled, convolutions


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Cycles by the name of each kernel of panels that is lowered."""
    found: dict[str, float] = {}

    build = PanelLoop.build

    def noted(self: PanelLoop) -> Any:
        found[self.kernel.name] = self.plan.cycles
        return build(self)

    monkeypatch.setattr(PanelLoop, "build", noted)
    return found


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_estimates_are_what_the_cycle_model_charges(
    direction: str, planned: dict[str, float]
) -> None:
    """Gradients of strided convolutions are stored between zeros, which the plan must count."""
    off = []
    for row in convolutions((32,)):
        if row.direction == direction:
            planned.clear()
            charged = {
                kernel.name: kernel.cycles
                for kernel in cycle_model.model(
                    compiled(row), machine=row.machine, cores=row.cores
                ).kernels
            }
            off += [
                abs(estimate / charged[name] - 1)
                for name, estimate in planned.items()
                if name in charged
            ]
    assert len(off) >= 11, "a convolution is a kernel of panels"
    assert np.median(off) < 0.05
    assert np.quantile(off, 0.8) < 0.1
    assert max(off) < 0.15
