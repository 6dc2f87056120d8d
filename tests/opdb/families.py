"""The families of op_db's entries, for summaries."""

from __future__ import annotations

import re

__all__ = ["FAMILIES", "family"]

FAMILIES = {
    "nn.functional": r"nn_functional_.*|torch_ops_aten_.*|_?native_.*|_batch_norm.*|_upsample.*|grid_sampler.*"
    r"|.*_pool.*|_?softmax.*|log_softmax.*",
    "random": r"rand.*|normal.*|bernoulli|multinomial|cauchy|exponential|geometric|log_normal|uniform",
    "linalg": r"linalg_.*|mm|bmm.*|addmm.*|addmv|addr|addbmm|baddbmm|mv|matmul|dot|vdot|inner|outer|einsum|tensordot"
    r"|cholesky.*|lu.*|qr|svd.*|pca_lowrank|geqrf|ormqr|pinverse|triangular_solve|logdet|cdist|trace|kron|cross|cov"
    r"|corrcoef|__rmatmul__|renorm|torch__scaled_mm.*|norm.*|dist|matrix_exp|sparse_.*",
    "fft": r"fft_.*|stft|istft|signal_.*",
    "special": r"special_.*|polygamma.*|mvlgamma.*|lgamma|digamma|erf.*|i0|igamma.*|sinc|xlogy|logit|sigmoid",
    "reductions": r"(nan)?(sum|mean|median|quantile|prod)|all|any|amax|amin|aminmax|arg(max|min)|(max|min)_reduction.*"
    r"|std.*|var.*|logsumexp|count_nonzero|mode|sum_to_size|masked_(?!cum|fill|scatter|select|logadd|logcum).*"
    r"|hash_tensor|_segment_reduce.*|trapz|trapezoid|cumulative_trapezoid",
    "scan and sort": r"cum.*|logcumsumexp|masked_(cum|logcum).*|.*sort|topk|kthvalue|unique.*|searchsorted|bucketize"
    r"|histc|histogram.*|bincount|diff",
    "indexing": r".*index.*|gather|scatter.*|take.*|put|where|masked_(fill|scatter|select)|nonzero.*|argwhere|select.*"
    r"|slice.*|diagonal.*|diag.*|narrow.*|__getitem__|tril.*|triu.*|as_strided.*|isin|block_diag",
    "creation": r"arange|linspace.*|logspace.*|full.*|ones.*|zeros.*|empty.*|eye|new_.*|clone|to|to_.*|scalar_tensor"
    r"|float|double|half|bfloat16|int|long|short|byte|char|bool|cfloat|cdouble|chalf|complex|polar|item|resize.*|fill"
    r"|broadcast_.*|meshgrid.*|cartesian_prod|combinations|vander|type_as|zero_",
    "views and layout": r"view.*|reshape.*|transpose.*|t|t_copy|permute.*|squeeze.*|unsqueeze.*|expand.*|flip.*|roll"
    r"|rot90|repeat.*|tile|stack|cat|.*stack|.*split.*|.*chunk.*|unbind.*|unfold.*|movedim|contiguous|ravel|flatten"
    r"|unflatten|atleast_.*|alias_copy|positive|constant_pad_nd|H|T|mH|mT|real|imag|conj.*|resolve_.*|equal"
    r"|unravel_index|allclose",
}
"""A pattern for the entries of each family; the first that matches counts, the rest is
elementwise."""

_PATTERNS = {name: re.compile(pattern) for name, pattern in FAMILIES.items()}


def family(entry: str) -> str:
    """The family of an entry of op_db."""
    return next(
        (name for name, pattern in _PATTERNS.items() if pattern.fullmatch(entry)), "elementwise"
    )
