"""ftm_lazy.debug: text at every stage and the modelled cost, without running anything."""

import pytest
import torch

import ftm_lazy


@pytest.fixture
def pending() -> torch.Tensor:
    """relu(x @ w), recorded and not run."""
    x, w = torch.ones(32, 16).to("ftm"), torch.ones(16, 8).to("ftm")
    ftm_lazy.sync(wait=True)
    return torch.relu(x @ w)


def test_stages(pending):
    before = ftm_lazy.metrics.counters()
    texts = {stage: ftm_lazy.debug.text(pending, stage) for stage in ftm_lazy.debug.STAGES}
    assert texts["trace"].startswith("trace\n") and "aten::mm(" in texts["trace"]
    assert "torch.aten.mm" in texts["torch"]
    assert "linalg.matmul" in texts["linalg"]
    assert "ftm.kernel" in texts["fuse-ops"]
    assert "MM" in texts["tiles"] and "DWAIT" not in texts["tiles"]  # waits come later
    assert "DWAIT" in texts["insert-waits"]
    assert texts["asm"].startswith("@program") and "MM" in texts["asm"]
    after = ftm_lazy.metrics.counters()
    assert (after["executions"], after["compiles"]) == (before["executions"], before["compiles"])
    assert pending.tolist() == [[16.0] * 8] * 32


def test_profile(pending):
    profile = ftm_lazy.debug.profile([pending])
    assert profile.flops >= 2 * 32 * 16 * 8 and profile.cycles > 0
    assert profile.dma_bytes >= 4 * (32 * 16 + 16 * 8 + 32 * 8)
    assert "modelled" in profile.table()


def test_wrong_arguments(pending):
    with pytest.raises(
        ValueError, match="no stage 'mlir'; the stages are trace, torch, linalg, .*, tiles, .*, asm"
    ):
        ftm_lazy.debug.text(pending, "mlir")
    with pytest.raises(ValueError, match="got one on cpu"):
        ftm_lazy.debug.text(torch.ones(2), "trace")
