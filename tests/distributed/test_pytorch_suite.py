"""A part of PyTorch's own distributed tests, on tensors of the device."""

from __future__ import annotations

from distributed import pytorch_suite

PART = (
    "test_all_gather_into_cat_tensor_cuda",
    "test_all_gather_object_default_pg",
    "test_all_reduce_sum",
    "test_all_to_all_single_unequal_split_cuda",
    "test_broadcast",
    "test_ddp_grad_div_uneven_inputs",
    "test_ddp_hook_parity_allreduce",
    "test_gather",
    "test_isend",
    "test_reduce_scatter_tensor_cuda",
    "test_scatter",
    "test_send_recv_any_source",
)


def test_part_of_pytorchs_tests_passes() -> None:
    found = dict(pytorch_suite.run("ftm", [f"{name}$" for name in PART]))
    assert len(found) >= len(PART)
    assert {name: o.message for name, o in found.items() if o.status != "pass"} == {}
