"""The ops that the recorder's sources name, and why they do; whatever else is known of an op is
said in its record."""

from __future__ import annotations

import re

from layers import dependencies

NAMED: dict[str, tuple[str, str]] = {
    "partition/choose_symbols.cpp": (
        "sizes of these are what Python computed; those of other factories, such as randn, are fixed",
        "arange.start_step full ones zeros",
    ),
    "partition/split_concat.cpp": (
        "calls: what concatenates any number of values is taken in steps, as a loop is cut into iterations",
        "cat",
    ),
    "eager_checks/call_warnings.cpp": (
        "what eager's kernels warn of is in no schema",
        "eye index_reduce multinomial randperm std std_mean triangular_solve var var_mean",
    ),
    "eager_checks/call_kinds.cpp": (
        "what compares integers with a number: no operand or result has the dtype to compare in",
        "bucketize eq ge gt isin le lt ne searchsorted",
    ),
    "nn/batch_norm.cpp": (
        "calls: the schema does not say that statistics are written",
        "_native_batch_norm_legit.no_stats _native_batch_norm_legit_functional _native_batch_norm_legit_no_training",
    ),
    "kernels/factories.cpp": (
        "calls: a factory has no tensor by which a record could be found",
        "arange.start_out full linspace.out logspace.out",
    ),
    "kernels/linear_algebra.cpp": (
        "calls: errors are checked beside the record",
        "linalg_cholesky_ex linalg_lu_factor_ex",
    ),
    "kernels/nonzero.cpp": ("a call that is counted", "nonzero"),
    "quantized/fake_quantize_observers.cpp": (
        "calls: observers write beside two results",
        "_fused_moving_avg_obs_fq_helper _fused_moving_avg_obs_fq_helper_functional",
    ),
    "kernels/random.cpp": ("calls", "normal_ uniform_"),
    "layouts/sparse.cpp": (
        "calls on the CPU that are counted",
        "_coalesce add.Tensor add_.Tensor div.Tensor div_.Tensor mul.Tensor mul_.Tensor sparse_mask sub.Tensor sub_.Tensor",
    ),
    "layouts/sparse_products.cpp": ("calls on the CPU that are counted", "addmm mm"),
    "kernels/data_dependent_shapes.cpp": (
        "reads of a size that are counted",
        "_unique2 bincount unique_consecutive",
    ),
    "ops/call_on_values.cpp": ("calls", "_to_copy expand zeros"),
    "ops/functional_form.cpp": (
        "how ATen names the functional form of an operator of Python",
        "__ __i",
    ),
    "quantized/quantize.cpp": ("a call that is counted", "quantize_per_channel"),
    "dispatch/register_ops.cpp": (
        "prefixes of ops of other devices and layouts, which are no ops of this one and so have no record",
        "_coalesc _cudnn _efficientzerotensor _mkldnn _nested _pin_mem _quantize _sparse _to_sparse cudnn is_pinned miopen mkldnn"
        " quantize record_stream sparse_ to_sparse",
    ),
}
"""Source -> (reason, the names without their namespace)."""


def found() -> dict[str, set[str]]:
    """Source -> the names in it, beside comments."""
    names: dict[str, set[str]] = {}
    for path in sorted(dependencies.RECORDER.rglob("*.*")):
        text = re.sub(r"//.*", "", path.read_text())
        if here := {name for name in re.findall(r'(?:"|\bc10::)aten::([\w.]*)', text) if name}:
            names[str(path.relative_to(dependencies.RECORDER))] = here
    return names
