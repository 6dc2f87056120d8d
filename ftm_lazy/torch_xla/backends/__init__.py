"""torch_xla.backends: the precision of matmuls, which is always float32 for float32 on ftm."""

from __future__ import annotations

from ftm_lazy.torch_xla._inert import inert

__all__ = ["get_mat_mul_precision", "set_mat_mul_precision"]

_PRECISIONS = ("default", "high", "highest")
_precision = "default"


@inert("float32 matmuls are always computed in float32")
def set_mat_mul_precision(precision: str) -> None:
    """Set the result of `get_mat_mul_precision`; it has no other effect.

    Args:
        precision: default, high or highest.

    Raises:
        ValueError: The precision is unknown.
    """
    global _precision
    if precision not in _PRECISIONS:
        raise ValueError(
            f"Invalid precision: {precision}. Must be one of {', '.join(_PRECISIONS)}."
        )
    _precision = precision


@inert("float32 matmuls are always computed in float32")
def get_mat_mul_precision() -> str:
    """Return the value of `set_mat_mul_precision`, initially "default"."""
    return _precision
