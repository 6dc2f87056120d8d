"""The closed set of kernel kinds, and what passes may assume of each."""

from __future__ import annotations

from enum import Enum, Flag, auto

__all__ = ["KernelKind"]


class _Trait(Flag):
    """What is true of a kind; see `KernelKind`."""

    NONE = 0
    SCHEDULED = auto()
    MULTIPLIES = auto()
    AFFINE = auto()
    GROWS = auto()
    DONATES = auto()


class KernelKind(Enum):
    """What a kernel computes. This decides how it is fused, scheduled and lowered.

    The value is the word in the text of kernels, such as ``kind = "loop-nest"``. Two registries
    have a function for each kind: ``lowering/registry.py``, and ``schedule/cost.py`` for the kinds
    that have plans.

    Attributes:
        has_schedule: Its kernels have a `Schedule` of a matrix product.
        multiplies: One of its statements is a contraction, and those after it are the epilogue.
        is_affine: All accesses are affine, or gathers. So kernels can share a function if their
            accesses differ in the first element only.
        can_grow: ``fuse-ops`` adds statements to its kernels.
        can_donate: Its outputs may overwrite its inputs.
    """

    has_schedule: bool
    multiplies: bool
    is_affine: bool
    can_grow: bool
    can_donate: bool

    LOOP_NEST = "loop-nest", _Trait.AFFINE | _Trait.GROWS | _Trait.DONATES
    TRANSPOSE = "transpose", _Trait.AFFINE
    LINE_BUFFER = "line-buffer", _Trait.AFFINE
    LINE_BUFFER_WITH_REDUCTION = "line-buffer-with-reduction", _Trait.AFFINE

    CONTRACTION = (
        "contraction",
        _Trait.SCHEDULED | _Trait.MULTIPLIES | _Trait.AFFINE | _Trait.GROWS | _Trait.DONATES,
    )
    CONTRACTION_WITH_PROLOGUE = "contraction-with-prologue", _Trait.SCHEDULED | _Trait.MULTIPLIES
    CONTRACTION_WITH_REDUCTION = "contraction-with-reduction", _Trait.SCHEDULED | _Trait.MULTIPLIES
    COL2IM = "col2im", _Trait.SCHEDULED
    CONV_BACKWARD = "conv-backward", _Trait.MULTIPLIES | _Trait.DONATES

    ATTENTION = "attention", _Trait.AFFINE
    ATTENTION_BACKWARD = "attention-backward", _Trait.AFFINE

    GATHER_SCATTER = "gather-scatter", _Trait.NONE
    SCAN = "scan", _Trait.NONE
    SORT = "sort", _Trait.NONE
    COLLECTIVE = "collective", _Trait.NONE

    def __new__(cls, word: str, traits: _Trait) -> KernelKind:
        """Create a member from its word and its traits."""
        kind = object.__new__(cls)
        kind._value_ = word
        kind.has_schedule = _Trait.SCHEDULED in traits
        kind.multiplies = _Trait.MULTIPLIES in traits
        kind.is_affine = _Trait.AFFINE in traits
        kind.can_grow = _Trait.GROWS in traits
        kind.can_donate = _Trait.DONATES in traits
        return kind

    def __str__(self) -> str:
        """Return the word."""
        return str(self.value)

    @classmethod
    def parse(cls, word: str) -> KernelKind:
        """Return the kind of a word; the inverse of `str`.

        Raises:
            ValueError: There is none.
        """
        for kind in cls:
            if kind.value == word:
                return kind
        raise ValueError(
            f"there is no kind of kernel {word!r}: use one of {', '.join(map(str, cls))}"
        )
