"""torch_xla.backends: the precision of matrix products, which are never narrowed here."""

from __future__ import annotations

from ftm_lazy.torch_xla._inert import inert

__all__ = ["get_mat_mul_precision", "set_mat_mul_precision"]

_PRECISIONS = ("default", "high", "highest")
_precision = "default"


@inert("float32 products are computed in float32, whatever the setting")
def set_mat_mul_precision(precision: str) -> None:
    """Remember `precision`: default, high or highest; raises ValueError for another."""
    global _precision
    if precision not in _PRECISIONS:
        raise ValueError(
            f"Invalid precision: {precision}. Must be one of {', '.join(_PRECISIONS)}."
        )
    _precision = precision


@inert("float32 products are computed in float32, whatever the setting")
def get_mat_mul_precision() -> str:
    """What `set_mat_mul_precision` was given."""
    return _precision
