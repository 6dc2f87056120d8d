"""`torch.ftm`, `torch.accelerator`, and the other names that PyTorch finds a device by."""

import os
import platform
from pathlib import Path

import pytest
import torch

import ftm_lazy

NAMES = """is_available device_count current_device set_device device synchronize manual_seed manual_seed_all seed
    initial_seed get_rng_state set_rng_state memory_allocated max_memory_allocated reset_peak_memory_stats memory_stats
    empty_cache get_device_name get_device_properties get_amp_supported_dtype is_bf16_supported
    Stream Event current_stream default_stream set_stream stream mem_get_info""".split()


@pytest.mark.parametrize("name", NAMES)
def test_name(name):
    assert callable(getattr(torch.ftm, name)) and name in torch.ftm.__all__


def test_one_device():
    assert (
        torch.ftm.is_available()
        and torch.ftm.device_count() == 1
        and torch.ftm.current_device() == 0
    )
    torch.ftm.set_device("ftm:0")
    torch.ftm.set_device(torch.device("ftm"))
    with torch.ftm.device(0):
        assert torch.ones(2, device="ftm").device == torch.device("ftm:0")
    with pytest.raises(RuntimeError, match="invalid device ordinal 1: there is one device, ftm:0"):
        torch.ftm.set_device(1)
    with pytest.raises(ValueError, match="expected an ftm device, but got: cpu"):
        torch.ftm.synchronize("cpu")


def test_properties():
    properties = torch.ftm.get_device_properties()
    assert properties.name == torch.ftm.get_device_name("ftm") and "core" in properties.name
    assert properties.multi_processor_count >= 1 and properties.total_memory > 0


def test_methods():
    tensor = torch.ones(2).ftm()
    assert tensor.is_ftm and not torch.ones(2).is_ftm
    module = torch.nn.Linear(2, 2).ftm()
    assert all(parameter.is_ftm for parameter in module.parameters())
    assert torch.ones(2).to("ftm:0").cpu().tolist() == [1.0, 1.0]


def test_accelerator():
    assert torch.accelerator.is_available() and torch.accelerator.device_count() == 1
    assert torch.accelerator.current_accelerator() == torch.device("ftm")
    assert torch.accelerator.current_device_index() == 0
    torch.accelerator.set_device_index(0)
    tensor = torch.ones(3, device=torch.accelerator.current_accelerator()) + 1
    torch.accelerator.synchronize()
    assert tensor.tolist() == [2.0, 2.0, 2.0]


def test_synchronize_runs_what_is_recorded():
    ftm_lazy.sync(wait=True)
    tensor = torch.ones(3, device="ftm") * 3
    before = ftm_lazy.metrics.counters()["executions"]
    torch.ftm.synchronize()
    assert ftm_lazy.metrics.counters()["executions"] == before + 1
    assert tensor.tolist() == [3.0] * 3


def test_events_tell_the_time():
    start, end, plain = (torch.Event("ftm", enable_timing=timed) for timed in (True, True, False))
    x = torch.ones(4, device="ftm")
    start.record()
    plain.record()
    y = x + 1
    before = ftm_lazy.metrics.counters()["executions"]
    end.record()
    assert ftm_lazy.metrics.counters()["executions"] == before + 1
    assert 0 < start.elapsed_time(end) < 1e6 and end.query() and y[0] == 2
    with pytest.raises(ValueError, match="enable_timing=True"):
        start.elapsed_time(plain)


def test_seeds():
    torch.manual_seed(7)
    assert torch.ftm.initial_seed() == 7
    first = torch.rand(5, device="ftm").tolist()
    state = torch.ftm.get_rng_state()
    second = torch.rand(5, device="ftm").tolist()
    assert first != second and state.dtype == torch.uint8 and state.device.type == "cpu"
    torch.ftm.set_rng_state(state)
    assert torch.rand(5, device="ftm").tolist() == second
    torch.ftm.manual_seed_all(7)
    assert torch.rand(5, device="ftm").tolist() == first
    torch.ftm.seed()
    assert torch.ftm.initial_seed() != 7
    with torch.random.fork_rng(device_type="ftm"):
        torch.manual_seed(1)
    torch.manual_seed(7)
    with torch.random.fork_rng(device_type="ftm"):
        torch.rand(5, device="ftm")
    assert torch.rand(5, device="ftm").tolist() == first


def test_memory():
    torch.ftm.synchronize()
    base = torch.ftm.memory_allocated()
    torch.ftm.reset_peak_memory_stats()
    tensor = torch.ones(1000, 1000).to("ftm")
    assert torch.ftm.memory_allocated() == base + tensor.nbytes
    del tensor
    assert torch.ftm.memory_allocated() == base
    assert torch.ftm.max_memory_allocated() >= base + 4_000_000
    torch.ftm.empty_cache()
    stats = torch.ftm.memory_stats()
    assert stats["allocated_bytes.all.current"] == base
    assert torch.ftm.memory_reserved() == stats["reserved_bytes.all.current"] >= 0
    torch.ftm.reset_accumulated_memory_stats()


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="another C library keeps nothing, or can't be asked"
)
def test_empty_cache_gives_back_what_the_c_library_keeps() -> None:
    """Memory that was freed between blocks that are in use: of traces and compiled programs there
    is much, in small blocks."""
    tensors = [torch.ones(1, device="ftm") for _ in range(60_000)]
    kept = tensors[::2000]  # which lie all over the heap
    full = resident_bytes()
    tensors.clear()
    torch.ftm.synchronize()
    torch.ftm.empty_cache()
    assert len(kept) == 30
    assert resident_bytes() < full - 30_000_000


def test_mixed_precision():
    assert set(torch.ftm.get_amp_supported_dtype()) == {torch.bfloat16, torch.float16}
    assert torch.ftm.is_bf16_supported()


def test_autocast():
    a = torch.ones(4, 4, device="ftm")
    with torch.autocast("ftm", dtype=torch.bfloat16):
        assert (a @ a).dtype == torch.bfloat16
    assert (a @ a).dtype == torch.float32


@pytest.mark.parametrize("device", ["cpu", "ftm"])
def test_gradient_scaler_skips_a_step_that_overflows(device):
    model = torch.nn.Linear(4, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(device, init_scale=1024.0)
    before = model.weight.detach().cpu().clone()
    for factor in (float("inf"), 1.0):
        optimizer.zero_grad()
        scaler.scale(model(torch.ones(3, 4, device=device)).sum() * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        before_last, before = before, model.weight.detach().cpu().clone()
        assert torch.equal(before, before_last) == (factor != 1.0)
    assert scaler.get_scale() == 512.0


def test_checkpoint_recomputes_the_same_dropout():
    torch.manual_seed(0)
    x = torch.ones(64, 64, device="ftm", requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(
        lambda t: torch.nn.functional.dropout(t * 2, 0.5), x, use_reentrant=False
    )
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), y.detach().cpu())


def test_save_and_load(tmp_path):
    state = {"a": torch.arange(6.0).reshape(2, 3).ftm(), "n": 3}
    state["view"] = state["a"][1]
    torch.save(state, tmp_path / "x.pt")
    back = torch.load(tmp_path / "x.pt")
    assert back["a"].device.type == "ftm" and back["view"].tolist() == [3, 4, 5]
    back["a"].zero_()
    assert back["view"].tolist() == [0, 0, 0]
    assert torch.load(tmp_path / "x.pt", map_location="cpu")["a"].device.type == "cpu"


def test_metrics():
    ftm_lazy.metrics.reset()
    counters = ftm_lazy.metrics.counters()
    assert set(ftm_lazy.metrics.NAMES) <= counters.keys() and not any(counters.values())
    (torch.ones(3, device="ftm") + 1).tolist()
    counters = ftm_lazy.metrics.counters()
    assert counters["executions"] == 1 and counters["ops_traced"] >= 1
    assert "executions" in ftm_lazy.metrics.report()


def test_report_shows_the_last_recompiles(monkeypatch):
    explained = [f"program {n} differs from program 0: {'x' * 300}" for n in range(1, 9)]
    monkeypatch.setattr(ftm_lazy.metrics.compile_client.client().stats, "_recompiles", explained)
    ftm_lazy.metrics._C._reset_counters()
    for _ in explained:
        ftm_lazy.metrics._C._count("recompiles")
    lines = ftm_lazy.metrics.report().splitlines()
    lines = lines[lines.index("recompiles, the last ones:") + 1 :]
    assert [line.split()[1] for line in lines[:5]] == ["4", "5", "6", "7", "8"]
    assert (
        lines[5] == "  and 3 earlier ones (FTM_DEBUG=recompile shows all)"
        and max(map(len, lines)) < 210
    )


def test_printing_is_one_read():
    tensor = torch.arange(2000.0).reshape(40, 50).ftm() * 2
    ftm_lazy.metrics.reset()
    text = repr(tensor)
    assert text == repr(torch.arange(2000.0).reshape(40, 50) * 2)[:-1] + ", device='ftm:0')"
    assert ftm_lazy.metrics.counters()["executions"] == 1
    assert repr(tensor.requires_grad_()).endswith("device='ftm:0', requires_grad=True)")
    assert repr(torch.zeros(0, device="ftm")) == "tensor([], device='ftm:0')"
    assert ftm_lazy.metrics.counters()["executions"] == 1


def test_optimizer_step_cuts():
    parameter = torch.nn.Parameter(torch.ones(3, device="ftm"))
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    parameter.grad = torch.ones(3, device="ftm")
    ftm_lazy.sync(wait=True)
    before = ftm_lazy.metrics.counters()["executions"]
    optimizer.step()
    ftm_lazy.sync(wait=True)
    assert ftm_lazy.metrics.counters()["executions"] == before + 1
    assert parameter.tolist() == [0.5] * 3


def test_streams_and_events():
    other = torch.ftm.Stream()
    assert isinstance(other, torch.ftm.Stream) and isinstance(
        torch.accelerator.current_stream(), torch.ftm.Stream
    )
    assert (
        other
        == torch.ftm.current_stream()
        == torch.ftm.default_stream("ftm:0")
        == torch.accelerator.current_stream()
    )
    begin, end = torch.ftm.Event(enable_timing=True), torch.ftm.Event(enable_timing=True)
    assert isinstance(begin, torch.ftm.Event)
    tensor = torch.ones(3, device="ftm")
    begin.record()
    other.wait_stream(torch.ftm.current_stream())
    with torch.ftm.stream(other), torch.ftm.stream(None):
        product = tensor * 3
        tensor.record_stream(other)
        other.record_event().wait(torch.ftm.current_stream())
    end.record()
    end.synchronize()
    assert begin.elapsed_time(end) >= 0 and end.query() and other.query()
    assert product.tolist() == [3.0] * 3
    with pytest.raises(ValueError, match="expected a stream of device ftm"):
        torch.ftm.set_stream(torch.Stream("cpu"))


def test_pinned_memory():
    tensor = torch.arange(5.0)
    pinned = tensor.pin_memory()
    assert pinned.is_pinned() and pinned[2:].is_pinned() and not tensor.is_pinned()
    assert torch.empty(4, pin_memory=True).is_pinned()
    assert pinned.to("ftm", non_blocking=True).tolist() == tensor.tolist()
    assert torch.empty(0).pin_memory().numel() == 0


def test_host_cache_and_memory_info():
    # ended the process where there was no allocator of pinned memory
    torch.accelerator.empty_host_cache()
    free, total = torch.ftm.mem_get_info()
    assert 0 < free <= total and torch.accelerator.get_memory_info()[1] == total


def test_pinning_data_loader():
    data = torch.utils.data.TensorDataset(torch.arange(6.0))
    batches = [
        batch for (batch,) in torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True)
    ]
    assert all(batch.is_pinned() for batch in batches)
    assert sum(batch.to("ftm", non_blocking=True).sum().item() for batch in batches) == 15.0


def test_profilers(capfd):
    tensor = torch.ones(4, 4, device="ftm")
    (tensor @ tensor).sum().item()
    with torch.profiler.profile() as profile:
        (tensor @ tensor).sum().item()
    on_device = torch.autograd.DeviceType.PrivateUse1
    kernels = [
        event
        for event in profile.events()
        if event.device_type == on_device and not event.is_user_annotation
    ]
    assert any("mm" in event.name for event in kernels)
    assert 0 < sum(event.time_range.elapsed_us() for event in kernels) < 60e6
    with torch.autograd.profiler.profile(use_device="ftm", use_kineto=False) as legacy:
        (tensor @ tensor).sum().item()
    calls = {event.name: event for event in legacy.function_events}
    assert "aten::mm" in calls and all(0 <= event.cpu_time_total < 60e6 for event in calls.values())
    assert "Exception in RecordFunction" not in capfd.readouterr().err


def test_memory_statistics_are_real():
    torch.ftm.reset_peak_memory_stats()
    tensor = torch.ones(1024, 1024, device="ftm") + 1
    torch.ftm.synchronize()
    stats = torch.ftm.memory_stats()
    assert (
        stats["allocation.large_pool.current"] >= 1
        and stats["active_bytes.all.current"] >= tensor.nbytes
    )
    assert (
        torch.ftm.max_memory_reserved()
        >= torch.ftm.memory_reserved()
        >= stats["active_bytes.all.current"]
    )
    segments = torch.ftm.memory_snapshot()
    assert sum(segment["total_size"] for segment in segments) == torch.ftm.memory_reserved()
    assert any(
        segment["requested_size"] == tensor.nbytes and segment["segment_type"] == "large"
        for segment in segments
    )
    assert (
        "Reserved memory" in torch.ftm.memory_summary()
        and "large pool" not in torch.ftm.memory_summary(abbreviated=True)
    )


def test_large_blocks_begin_at_huge_pages():
    tensor = torch.ones(3 << 20, device="ftm") + 1
    torch.ftm.synchronize()
    found = [s for s in torch.ftm.memory_snapshot() if s["requested_size"] == tensor.nbytes]
    assert found and all(segment["address"] % (2 << 20) == 0 for segment in found)
    assert tensor.sum().item() == 2 * (3 << 20)


def test_memory_fraction():
    assert torch.ftm.get_per_process_memory_fraction() == 1.0
    torch.ftm.set_per_process_memory_fraction(1e-6)
    try:
        before = torch.ftm.memory_stats()["num_ooms"]
        with pytest.raises(torch.OutOfMemoryError, match="set_per_process_memory_fraction"):
            (torch.ones(4000, 4000, device="ftm") + 1).cpu()
        assert torch.ftm.memory_stats()["num_ooms"] > before
    finally:
        torch.ftm.set_per_process_memory_fraction(1.0)
    assert (torch.ones(3, device="ftm") + 1).tolist() == [2.0] * 3
    with pytest.raises(ValueError, match="over 0 and at most 1"):
        torch.ftm.set_per_process_memory_fraction(1.5)
    with pytest.raises(TypeError, match="must be `float`"):
        torch.ftm.set_per_process_memory_fraction(1)


def test_small_names_of_other_devices():
    assert len(torch.ftm.get_device_capability()) == 2
    assert torch.float32 in torch.accelerator.get_device_capability()["supported_dtypes"]
    assert not torch.ftm.can_device_access_peer(0, 0)
    with torch.ftm.device_of(torch.ones(1, device="ftm")), torch.ftm.device_of(torch.ones(1)):
        pass
    import torch.ftm.amp as amp

    x = torch.ones(2, 2, device="ftm")
    with amp.autocast():
        assert (x @ x).dtype == torch.bfloat16
    assert amp.GradScaler().is_enabled()


def test_ranges_are_in_a_profile():
    with torch.profiler.profile() as profile:
        assert torch.ftm.nvtx.range_push("outer") == 0 and torch.ftm.nvtx.range_push("inner") == 1
        assert [torch.ftm.nvtx.range_pop() for _ in range(3)] == [1, 0, -2]
        torch.ftm.nvtx.range_end(torch.ftm.nvtx.range_start("free"))
        torch.ftm.nvtx.mark("moment")
        with torch.ftm.nvtx.range("step {}", 3):
            torch.ones(2, device="ftm")
    assert {"outer", "inner", "free", "moment", "step 3"} <= {
        event.name for event in profile.events()
    }
