"""The schedule of a contraction: printed on its kernel, read back, and editable by hand.

Example: ``schedule = "depth=2 m=0:96:96:11 n=0:96:96:1 k=0:512:512:1 m_outer=1 chunks=2 ..."``.
Whoever changes a field in a file of kernels and compiles from there runs the kernel with that
schedule; one that does not fit is an error. Fields that have their default are left out. A cut of
rows, columns or k is ``dimension:size:elements:blocks``.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields
from functools import lru_cache
from typing import Any, Literal, get_args, get_type_hints

from ftm_backend.midend.schedule.gemm.tiling_problem import TileCut, TilingProblem
from ftm_backend.symbolic import ceildiv

__all__ = ["ASpace", "BLayout", "Schedule", "Share"]

ASpace = Literal["sm", "gsm", "am"]
"""The memory that holds A's blocks."""
BLayout = Literal["plain", "dot", "transposed"]
"""How B is loaded and multiplied.

``plain``: as k x n. ``dot``: as n x k, by dot products. ``transposed``: loaded as n x k, then
transposed in AM.
"""
Share = Literal["none", "a", "b"]
"""The operand that is loaded once for several cores, through GSM.

``a``: by the cores of a row group; ``b``: by all cores, each a row group.
"""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How a contraction ``C[b, m, n] = sum_k A[b, m, k] * B[b, k, n]`` is computed.

    With ``depth`` 1, a core copies synchronously: it executes nested loops over tiles of C, and
    loads each block right before its product. With ``depth`` 2, DMA overlaps compute: a core
    executes a sequence of steps over *panels* of C, which are stacks of ``chunks`` row chunks by
    one block of columns, and each step loads the blocks of the next one::

        for each panel of C:
            for each block kb of k:                    # a step
                for each chunk i:  C[i] += A[i, kb] . B[kb]
                # depth 2: meanwhile, DMA loads the blocks of the next step
            apply the epilogue, and store the panel

    Fields of both depths are ``swapped``, the cuts, ``m_outer``, ``keep_outer``, ``trans_a``,
    ``b_layout`` and the groups of rows and columns. ``keep_inner`` and ``batch_groups`` belong to
    depth 1, all others to depth 2.
    """

    depth: int
    """Buffers of each block that does not stay resident."""
    swapped: bool = False
    """Whether the kernel computes the transpose, ``C^T = B^T . A^T``."""
    m: TileCut
    """A chunk of rows."""
    n: TileCut
    k: TileCut
    m_outer: bool
    """Whether the loop over row panels is outside the loop over blocks of columns."""
    keep_outer: bool = False
    """Whether the outer loop's operand keeps all blocks of k through the inner loop."""
    keep_inner: bool = False
    """Whether the inner loop's operand keeps all its blocks for the whole batch entry."""
    chunks: int = 1
    """Chunks of a panel."""

    batch_groups: int = 1
    """Groups of cores that share the batch entries; with depth 2, row groups share them."""
    row_groups: int = 1
    """Groups of cores that share the row panels of all batch entries and parts of k."""
    column_groups: int = 1
    """Cores of a row group, which share the blocks of columns."""
    k_groups: int = 1
    """Parts of k (split-k). Each has panels of its own, whose sums go to GSM and are added up
    after all products. A part has ``k_steps`` blocks; the last ones may have fewer."""

    share: Share = "none"
    a_space: ASpace = "sm"
    trans_a: bool = False
    """Whether A is loaded transposed."""
    b_layout: BLayout = "plain"
    b_in_gsm: bool = False
    """Whether all of B is kept in GSM. Each core loads some of its blocks, before the first step
    or, with ``fills_during_panel``, during the first panel."""
    split_rows: bool = False
    """Whether blocks of a shared B stay in memory order, n_outer x (k x n_inner)."""

    c_buffers: int = 1
    """Buffers of C's panel: with 2, the next panel starts while this one is stored."""
    transpose_c: bool = False
    """Whether C is transposed before it is stored."""
    col2im_c: bool = False
    """Whether C goes through col2im before it is stored, instead of being transposed."""
    deferred_chunks: int = 0
    """Chunks that the deferred epilogue finishes and stores in each step of the next panel.

    No barrier then waits for all of them. 0: the epilogue follows each panel's products.
    """

    cycles: float = 0.0
    """Modelled cycles of the busiest core."""

    @property
    def panels(self) -> int:
        """Row panels of a batch entry."""
        return ceildiv(self.m.blocks, self.chunks)

    @property
    def cores(self) -> int:
        """Most cores that have work."""
        return self.batch_groups * self.row_groups * self.column_groups

    @property
    def k_steps(self) -> int:
        """Blocks of k of a panel."""
        return self.k.blocks if self.k_groups == 1 else ceildiv(self.k.blocks, self.k_groups)

    @property
    def keeps_a(self) -> bool:
        """Whether A's blocks stay resident."""
        return self.keep_outer if self.m_outer else self.keep_inner

    @property
    def keeps_b(self) -> bool:
        """Whether B's blocks stay resident."""
        return self.keep_inner if self.m_outer else self.keep_outer

    @property
    def fills_during_panel(self) -> bool:
        """Whether B is loaded into GSM during the first panel, whose steps end at barriers."""
        return self.b_in_gsm and self.keeps_b and self.share == "a"

    @property
    def streams_b(self) -> bool:
        """Whether steps load B into GSM."""
        return self.share == "b" or self.fills_during_panel

    @property
    def uses_gsm(self) -> bool:
        """Whether operands or partial sums are in GSM."""
        return self.a_space == "gsm" or self.share == "b" or self.b_in_gsm or self.k_groups > 1

    @property
    def is_constant(self) -> bool:
        """Whether no field is a symbolic size; only then the text can be read back."""
        cuts = (getattr(cut, f.name) for cut in (self.m, self.n, self.k) for f in fields(cut))
        return all(type(number) is int for number in cuts)

    def check(self, problem: TilingProblem) -> None:
        """Check that the blocks are blocks of a contraction.

        Blocks that are larger than a scratchpad are found later, when tiles get addresses.

        Raises:
            ValueError: They are not; the message names the field.
        """
        if self.depth not in (1, 2) or not 0 < self.chunks <= self.m.blocks:
            raise ValueError(f"depth is 1 or 2, and chunks is 1 to {self.m.blocks}")
        if not 0 < self.k_groups <= self.k.blocks:
            raise ValueError(f"k_groups is 1 to {self.k.blocks}")
        for name, cut, extents in (
            ("m", self.m, problem.m),
            ("n", self.n, problem.n),
            ("k", self.k, problem.k),
        ):
            if name == "n" and self.col2im_c and cut.dim:
                continue  # rows of a feature map, whose windows overlap
            if not 0 <= cut.dim < max(len(extents), 1):
                raise ValueError(f"{name} has {len(extents)} dimensions, which start at 0")
            extent, inside, outside = cut.around(extents)
            size = max(1, min(cut.size, extent))
            fitting = TileCut(cut.dim, size, size * inside, outside * ceildiv(extent, size))
            if cut != fitting:
                wanted = f"{name}={_written(fitting)}"
                raise ValueError(f"{name}={_written(cut)} does not cover {extents}: use {wanted}")

    def __str__(self) -> str:
        """Return the text of the schedule."""
        values = {field.name: (field, getattr(self, field.name)) for field in fields(self)}
        return " ".join(
            f"{name}={_written(value)}"
            for name, (field, value) in values.items()
            if field.default is MISSING or value != field.default
        )

    @staticmethod
    def parse(text: str) -> Schedule:
        """Return the schedule of a text.

        Raises:
            ValueError: The text is no schedule; the message names the word.
        """
        known = _fields()
        given: dict[str, Any] = {}
        for word in text.split():
            name, _, value = word.partition("=")
            if name not in known:
                raise ValueError(f"a schedule has no field {name!r}")
            given[name] = _read(name, known[name][1], value)
        missing = [
            name
            for name, (field, _) in known.items()
            if field.default is MISSING and name not in given
        ]
        if missing:
            raise ValueError(f"a schedule needs {', '.join(missing)}")
        return Schedule(**given)


@lru_cache(maxsize=1)
def _fields() -> dict[str, tuple[Field[object], object]]:
    """Return the fields of a schedule with their types."""
    types = get_type_hints(Schedule)
    return {field.name: (field, types[field.name]) for field in fields(Schedule)}


def _written(value: TileCut | bool | float | str) -> str:
    if isinstance(value, TileCut):
        return ":".join(str(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:.0f}" if isinstance(value, float) else str(value)


def _read(name: str, type_: object, text: str) -> TileCut | bool | float | str:
    """Return the value of a field of a type."""
    if type_ is TileCut:
        numbers = list(map(int, text.split(":")))
        if len(numbers) != len(fields(TileCut)):
            raise ValueError(f"{name} of a schedule is dimension:size:elements:blocks")
        return TileCut(*numbers)
    if type_ is bool:
        return bool(int(text))
    if type_ in (int, float):
        return type_(text)
    if text not in get_args(type_):
        raise ValueError(f"{name} of a schedule is one of {', '.join(get_args(type_))}")
    return text
