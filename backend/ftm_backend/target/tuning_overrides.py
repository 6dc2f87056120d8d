"""Decisions that the compiler makes by modelled cost, and how a user makes them instead.

``FTM_TUNE=conv-transpose=phases,fuse-conv-prologue=keep`` takes the algorithm ``phases`` for every
transposed convolution, and never computes batch norm while a convolution loads its input.
The results of a program stay the same but for rounding, its time does not. A choice is ignored
where it is impossible, such as an algorithm whose blocks do not fit on chip. ``ftm opt --explain``
prints each decision with the modelled cycles of all alternatives.
"""

from __future__ import annotations

_FUSION = ("keep", "fuse")

DECISIONS: dict[str, tuple[str, ...]] = {
    "conv-transpose": ("phases", "col2im"),
    "conv2d": ("im2col", "winograd-2x2", "winograd-4x4"),
    "conv2d-weight-gradient": ("im2col", "winograd-2x2", "winograd-4x4"),
    "depthwise-conv2d": ("windows", "taps"),
    "fuse-attention-backward": _FUSION,
    "fuse-attention": _FUSION,
    "fuse-conv-backward": _FUSION,
    "fuse-conv-transpose-epilogue": _FUSION,
    "fuse-gemm-prologue": _FUSION,
    "fuse-conv-prologue": _FUSION,
    "fuse-pool-reduction": _FUSION,
    "fuse-gemm-reduction": _FUSION,
    "rematerialize-pool-inputs": _FUSION,
    "rematerialize-rows": _FUSION,
    "pack-operands": ("keep", "pack"),
    "fill-pad-border": ("keep", "border"),
}
"""Decision -> its alternatives. Without modelled costs that differ, the first one is taken."""


def listing() -> str:
    """Return all decisions with their alternatives, for documentation."""
    return ", ".join(f"{name} ({' or '.join(choices)})" for name, choices in DECISIONS.items())


def parse(text: str) -> tuple[tuple[str, str], ...]:
    """Return pairs of a decision and an alternative, sorted, from ``decision=alternative,...``.

    Raises:
        ValueError: A decision or an alternative does not exist; the message lists the valid ones.
    """
    pairs: dict[str, str] = {}
    for word in filter(None, (word.strip() for word in text.split(","))):
        decision, _, alternative = word.partition("=")
        if decision not in DECISIONS:
            raise ValueError(f"valid decisions: {', '.join(DECISIONS)}; not {decision!r}")
        if alternative not in DECISIONS[decision]:
            valid = ", ".join(DECISIONS[decision])
            raise ValueError(f"valid alternatives of {decision}: {valid}; not {alternative!r}")
        pairs[decision] = alternative
    return tuple(sorted(pairs.items()))
