"""Names that torch_xla's own tests and other libraries use, though they are not public."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from functorch.compile import (
    aot_module_simplified,
    make_boxed_compiler,
    min_cut_rematerialization_partition,
)
from torch import nn

import ftm_lazy.torch_xla as torch_xla
from ftm_lazy.torch_xla import _XLAC
from ftm_lazy.torch_xla._internal import pjrt
from ftm_lazy.torch_xla.core import xla_model as xm
from ftm_lazy.torch_xla.debug import metrics
from ftm_lazy.torch_xla.distributed.fsdp import checkpoint_module
from ftm_lazy.torch_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer
from ftm_lazy.torch_xla.experimental import assume_pure, scan, scan_layers
from ftm_lazy.torch_xla.experimental.custom_kernel import repeat_with_fixed_output_size


def test_settings_of_the_native_module():
    _XLAC._xla_set_mat_mul_precision("highest")
    assert _XLAC._xla_get_mat_mul_precision() == "highest"
    _XLAC._xla_set_mat_mul_precision("default")
    with pytest.raises(ValueError, match="Invalid precision"):
        _XLAC._xla_set_mat_mul_precision("low")
    _XLAC._xla_set_enable_alias_with_buffer_donor_config(True)
    assert _XLAC._xla_get_enable_alias_with_buffer_donor_config() is True
    _XLAC._xla_set_enable_alias_with_buffer_donor_config(False)


def test_debug_info_of_a_tensor():
    x = torch.randn(4, 2).to("ftm")
    y = torch.view_as_complex(x * 2)
    text = _XLAC._get_xla_tensor_debug_info(y)
    assert "c64[4]" in text and "aten::mul" in text and "XLAData: None" in text
    torch_xla.sync(wait=True)
    text = _XLAC._get_xla_tensor_debug_info(x)
    assert "Data Shape: f32[4,2]" in text and "IR: None" in text and "XLAData: None" not in text
    assert "Not a XLATensor" in _XLAC._get_xla_tensor_debug_info(torch.ones(3))


def test_data_of_a_tensor():
    x = torch.ones(3, dtype=torch.half, device="ftm") * 2
    assert _XLAC._get_xla_tensor_shape_type(x) == "f16"
    address = _XLAC._unsafe_buffer_pointer(x)
    assert address and address == _XLAC._unsafe_buffer_pointer(x)


def test_fallback_ops():
    metrics.clear_all()
    torch.linalg.eigvals(torch.eye(2, device="ftm"))
    assert _XLAC._get_executed_fallback_ops() == ["aten::_linalg_eigvals"]


@pytest.mark.parametrize("length", [2, 4, 9])
def test_repeats_of_a_fixed_length(length):
    rows, repeats = torch.arange(4.0), torch.tensor([1, 0, 2, 1])
    found = repeat_with_fixed_output_size(rows.to("ftm"), repeats.to("ftm"), length)
    expected = torch.repeat_interleave(rows, repeats)
    assert found.tolist() == [*expected, *[rows[-1]] * length][:length]


def test_step_closures_of_a_recomputed_forward_pass():
    """The recomputation runs on autograd's thread."""
    seen = []

    class Model(nn.Linear):
        def forward(self, x):
            result = super().forward(x)
            xm.add_step_closure(lambda value: seen.append(value.tolist()), args=(result.detach(),))
            return result

    model = checkpoint_module(Model(2, 2).to("ftm"))
    model(torch.ones(2, device="ftm")).sum().backward()
    torch_xla.sync()
    assert len(seen) == 2 and seen[0] == seen[1]


def test_modules_that_register_ops():
    """ftm has these ops without them."""
    from ftm_lazy.torch_xla._internal import c10d_registration, decomp_registration

    assert torch_xla.c10d_registration is c10d_registration
    assert torch_xla.decomp_registration is decomp_registration
    x = torch.randn(1, 2, 3, 4, 5)
    upsampled, compiled = (
        F.interpolate(each, scale_factor=2, mode="trilinear") for each in (x, x.to("ftm"))
    )
    torch.testing.assert_close(compiled.cpu(), upsampled)
    dist.init_process_group("ftm", store=dist.HashStore(), rank=0, world_size=1)
    try:
        name = dist.group.WORLD.group_name
        sent = torch.ops._c10d_functional.broadcast(x.to("ftm"), 0, name)
        assert torch.equal(torch.ops._c10d_functional.wait_tensor(sent).cpu(), x)
    finally:
        dist.destroy_process_group()


def test_deprecated_queries_of_a_tpu():
    from ftm_lazy.torch_xla.experimental import tpu

    with pytest.warns(DeprecationWarning, match="_internal.tpu.version instead"):
        assert tpu.version() == 0


def test_modules():
    import ftm_lazy.torch_xla._dynamo.dynamo_backend2 as backend
    from ftm_lazy.torch_xla._dynamo import config, dynamo_bridge
    from ftm_lazy.torch_xla._internal.jax_workarounds import jax_import_guard

    jax_import_guard()
    assert torch_xla.xm is xm and config.skip_input_data_check is False
    assert torch.compile(lambda x: x + 1, backend=backend.dynamo_backend)(
        torch.ones(2, device="ftm")
    ).tolist() == [2.0, 2.0]
    with pytest.raises(NotImplementedError):
        dynamo_bridge.GraphInputMatcher()


class _LinearThenWrite(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x, total):
        total.add_(1)
        return self.linear(x)


@pytest.mark.parametrize(
    "function", [lambda x, total: torch.relu(x) + total, _LinearThenWrite()], ids=["ops", "modules"]
)
def test_extract_compiled_graph_takes_symbolic_traces(function):
    from ftm_lazy.torch_xla.core.dynamo_bridge import extract_compiled_graph

    on_cpu = torch.fx.symbolic_trace(function)
    compiled = None
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        inputs = [torch.randn(4, 3, generator=generator) for _ in range(2)]
        on_device = [tensor.to("ftm") for tensor in inputs]
        if compiled is None:
            compiled = extract_compiled_graph(copy.deepcopy(on_cpu).to("ftm"), on_device)
        result = compiled(*on_device)
        torch.testing.assert_close(result.cpu(), on_cpu(*inputs))
        torch.testing.assert_close(on_device[1].cpu(), inputs[1])


def test_extract_compiled_graph_in_a_backend_of_ones_own():
    """Dynamo is active while backward runs, and does not trace the capture."""
    from ftm_lazy.torch_xla.core.dynamo_bridge import extract_compiled_graph

    def compiler(graph, inputs):
        compiled = None

        def call(*args):
            nonlocal compiled
            if compiled is None:
                compiled = extract_compiled_graph(graph, args)
            return compiled(*args)

        return call

    def backend(graph, inputs):
        return aot_module_simplified(graph, inputs, fw_compiler=make_boxed_compiler(compiler))

    def gradient(model, x):
        model(x).mean().backward()
        return model[0].weight.grad

    model = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.MaxPool2d(3, stride=2))
    x = torch.randn(2, 3, 10, 10)
    expected = gradient(copy.deepcopy(model), x)
    found = torch.compile(gradient, backend=backend)(model.to("ftm"), x.to("ftm"))
    torch.testing.assert_close(found.cpu(), expected)


def _ordinal(offset: int) -> int:
    return xm.get_ordinal() + offset


def test_processes_by_pjrt(monkeypatch):
    monkeypatch.setenv("CPU_NUM_DEVICES", "2")
    assert pjrt.run_multiprocess(_ordinal, offset=10) == {0: 10, 1: 11}
    seen: list[tuple[int, str]] = []
    pjrt.spawn_threads(lambda ordinal, word: seen.append((ordinal, word)), ("word",))
    assert seen == [(0, "word")]


def step(carry, x):
    new_carry = torch.sin(carry @ x["weight"]) + x["bias"]
    return new_carry, {"sum": new_carry.sum(), "nothing": None, "carry": new_carry}


def arguments():
    torch.manual_seed(0)
    make = lambda *sizes: torch.randn(*sizes, device="ftm", requires_grad=True)
    return make(2, 3), {"weight": make(4, 3, 3), "bias": make(4, 3)}


def results(**options):
    init, xs = arguments()
    carry, ys = scan.scan(step, init, xs, **options)
    (carry.sum() + ys["sum"].sum() + ys["carry"].square().sum()).backward()
    assert ys["nothing"] is None
    return [carry, ys["sum"], ys["carry"], init.grad, xs["weight"].grad, xs["bias"].grad]


@pytest.mark.parametrize(
    "options",
    [{"is_fn_pure": True}, {"partition_fn": min_cut_rematerialization_partition}],
    ids=" ".join,
)
def test_a_traced_scan_is_the_loop(options):
    scan._SCAN_COMPUTATION_CACHE.clear()
    for found, expected in zip(results(**options), results(), strict=True):
        torch.testing.assert_close(found.cpu(), expected.cpu())


def test_a_pure_function_is_traced_once():
    calls = traced = 0

    def counted(carry, x):
        nonlocal calls
        calls += 1
        return carry + x, carry * x

    for n in (3, 5, 5):
        carry, _ = scan.scan(
            counted, torch.zeros(2, device="ftm"), torch.ones(n, 2, device="ftm"), is_fn_pure=True
        )
        assert carry.tolist() == [n, n]
        traced = traced or calls
    assert calls == traced
    scan.scan(
        counted, torch.zeros(3, device="ftm"), torch.ones(2, 3, device="ftm"), is_fn_pure=True
    )
    assert calls == 2 * traced and len(scan._SCAN_COMPUTATION_CACHE[counted]) == 2


def test_a_pure_function_draws_random_numbers_in_each_step():
    _, ys = scan.scan(
        lambda c, x: (c, x + torch.rand(2, device="ftm")),
        torch.zeros(1, device="ftm"),
        torch.zeros(3, 2, device="ftm"),
        is_fn_pure=True,
    )
    assert len(set(ys.flatten().tolist())) == 6


def test_a_pure_function_must_not_write_outside():
    outside = torch.zeros(2, device="ftm")
    with pytest.raises(AssertionError, match="FakeTensor"):
        scan.scan(
            lambda c, x: (c + outside.add_(1), x),
            torch.zeros(2, device="ftm"),
            torch.zeros(3, 2, device="ftm"),
            is_fn_pure=True,
        )


def test_parts_of_scan():
    init, xs = arguments()
    forward, backward = scan.value_and_grad_partitioned(step, init, xs)
    x = {name: value[0] for name, value in xs.items()}
    new_carry, (y, activations) = forward(init, x)
    expected = step(init, x)
    torch.testing.assert_close(new_carry, expected[0])
    grad_y = {
        "sum": torch.ones_like(y["sum"]),
        "nothing": None,
        "carry": torch.ones_like(new_carry),
    }
    grad_carry, grad_x = backward(torch.ones_like(new_carry), (grad_y, activations))
    wanted = torch.autograd.grad(
        expected[0].sum() + expected[1]["sum"] + expected[1]["carry"].sum(),
        (init, x["weight"], x["bias"]),
    )
    for found, gradient in zip((grad_carry, grad_x["weight"], grad_x["bias"]), wanted, strict=True):
        torch.testing.assert_close(found, gradient)
    leaves, unflatten = scan.tree_flatten_none(((1, None), None, [2]))
    assert leaves == (1, 2) and unflatten((3, 4)) == ((3, None), None, [4])
    with pytest.raises(ValueError, match="callable"):
        scan.scan(1, init, xs)


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, y):
        return self.linear(x).sin(), self.linear(y) + x


@pytest.mark.parametrize("is_layer_pure", [False, True])
def test_layers_of_tuples(is_layer_pure):
    torch.manual_seed(0)
    layers = [Pair().to("ftm") for _ in range(3)]
    expected_layers = copy.deepcopy(layers)
    x = expected = (torch.randn(2, 3).to("ftm"), torch.randn(2, 3).to("ftm"))
    for layer in expected_layers:
        expected = layer(*expected)
    found = scan_layers.scan_layers(layers, x, is_layer_pure=is_layer_pure)
    (found[0].sum() + found[1].sum()).backward()
    (expected[0].sum() + expected[1].sum()).backward()
    assert isinstance(found, tuple)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.cpu(), b.cpu())
    for layer, other in zip(layers, expected_layers, strict=True):
        torch.testing.assert_close(layer.linear.weight.grad.cpu(), other.linear.weight.grad.cpu())
    scan_layers._ONE_LAYER_CACHE.clear()
    assume_pure._XLA_COMPUTATION_CACHE.clear()


@pytest.mark.parametrize("backend", ["inductor", "ftm"])
def test_all_reduce_in_a_graph(backend):
    x = torch.randn(4).to("ftm")
    call = torch.compile(
        lambda x: xm.all_reduce(xm.REDUCE_SUM, x * 2) + 1, backend=backend, fullgraph=True
    )
    torch.testing.assert_close(call(x), x * 2 + 1)

    def in_place(x):
        tensors = [x * 2, x + 1]
        xm.all_reduce(xm.REDUCE_SUM, tensors, groups=[[0]])
        return tensors

    for found, expected in zip(
        torch.compile(in_place, backend=backend, fullgraph=True)(x), in_place(x), strict=True
    ):
        torch.testing.assert_close(found, expected)


def test_init_method_needs_no_import():
    dist.init_process_group("xla", init_method="xla://")
    try:
        assert dist.get_backend() == "xla" and dist.get_world_size() == 1
    finally:
        dist.destroy_process_group()


def test_state_dict_of_the_zero_optimizer():
    model = nn.Linear(3, 2).to("ftm")
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.AdamW, save_master_weights=True, lr=0.1
    )
    model(torch.ones(2, 3, device="ftm")).sum().backward()
    optimizer.step()
    state = optimizer.state_dict()
    assert sorted(state["base_state"]) == [0, 1] and sorted(state["base_state"][0]) == [
        "exp_avg",
        "exp_avg_sq",
        "step",
    ]
    assert sorted(state["sharded_master_weights"]) == [0, 1] and state["shape_info"]["0"][
        "shape"
    ] == (2, 3)
    other = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.1)
    other.load_state_dict(state)
    torch.testing.assert_close(
        other.base_optimizer.state_dict()["state"][0]["exp_avg"], state["base_state"][0]["exp_avg"]
    )


def test_a_checkpointed_module_runs_again_to_its_end():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.ends = nn.Linear(2, 2), 0

        def forward(self, x):
            y = self.linear(x).sin()
            self.ends += 1
            return y

    module = checkpoint_module(Counting().to("ftm"))
    module(torch.ones(1, 2, device="ftm")).sum().backward()
    assert module.ends == 2


def test_native_functions_on_tensors() -> None:
    (copied,) = _XLAC._xla_tensors_from_aten([torch.ones(2, 3)], ["ftm:0"])
    assert xm.is_xla_tensor(copied)
    assert _XLAC._get_xla_tensor_dimension_size(copied, 1).item() == 3
    _XLAC._replace_xla_tensor(copied, torch.zeros(4, device="ftm"))
    assert copied.tolist() == [0, 0, 0, 0]
    assert _XLAC._xla_real_devices(["xla:0"]) == torch_xla.real_devices()
    _XLAC._init_computation_client()
    _XLAC._init_xla_lazy_backend()
    assert set(_XLAC._get_git_revs()) == {"xla", "torch"}
