"""Holistic Trace Analysis reads the trace that torch.profiler exports, and agrees with ours."""

import pytest
import torch
from torch.autograd import DeviceType

from runtime.profiled_programs import network, trainer

pytest.importorskip("hta", reason="`make test-trace-analysis` installs it")


def test_kernels_and_idle_time_agree(tmp_path):
    from hta.trace_analysis import TraceAnalysis

    step = trainer(network())
    step()
    with torch.profiler.profile() as made:
        for _ in range(3):
            step()
    made.export_chrome_trace(str(tmp_path / "rank0.json"))
    analysis = TraceAnalysis(trace_files={0: str(tmp_path / "rank0.json")})
    own = [e for e in made.events() if e.device_type == DeviceType.PrivateUse1]
    kernels = [e for e in own if not e.is_user_annotation]
    busy = sum(e.time_range.elapsed_us() for e in kernels)

    kinds, totals = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000)
    assert kinds["kernel_type"].tolist() == ["COMPUTATION"]
    assert totals["sum (us)"].sum() == pytest.approx(busy, rel=0.02, abs=len(kernels))
    assert set(totals["name"]) == {e.name for e in kernels}

    (times,) = analysis.get_temporal_breakdown(visualize=False).to_dict("records")
    assert times["compute_time(us)"] == pytest.approx(busy, rel=0.02, abs=len(kernels))
    whole = max(e.time_range.end for e in kernels) - min(e.time_range.start for e in kernels)
    idle = times["idle_time(us)"]
    assert idle == pytest.approx(whole - busy, rel=0.02, abs=len(kernels))

    (overlap,) = analysis.get_comm_comp_overlap(visualize=False)["comp_comm_overlap_pctg"]
    assert not overlap > 0  # one process communicates with no other
