"""Iteration domain: the common dimensions of the statements of a fused loop nest.

``IterationDomain.add`` maps each loop of a statement to dimensions, by means of the values that it
reads. Example: a producer iterates over ``[B*T, C]`` and its elementwise consumer over ``[B, T,
C]``. The consumer then splits the first dimension ``B*T`` into ``B`` and ``T``.
``IterationDomain.shape`` returns whether one tile shape fits all statements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ftm_backend.ir.linalg.affine import Affine, digits, volume
from ftm_backend.ir.linalg.function import Operand, Statement, Value
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.symbolic import (
    divides,
    guarded_equal,
    may_exceed_one,
    size_hint,
    statically_known_equal,
)

_SHORT = 16  # with fewer columns, vector code is mostly idle


@dataclass(eq=False, slots=True)
class DomainDim:
    """A dimension of the domain; ``parts`` are its outer and inner part if it has been split."""

    extent: int
    parts: tuple[DomainDim, DomainDim] | None = None

    def leaves(self) -> list[DomainDim]:
        """Return the unsplit dimensions inside this one, outermost first, without extents of 1."""
        if self.parts is None:
            return [self] if may_exceed_one(self.extent) else []
        return self.parts[0].leaves() + self.parts[1].leaves()

    def split(self, inner: int) -> tuple[DomainDim, DomainDim]:
        """Split into ``extent / inner`` (outer) and ``accumulator_depth``."""
        self.parts = (DomainDim(self.extent // inner), DomainDim(inner))
        return self.parts


Loops = tuple[tuple[DomainDim, ...], ...]
"""The dimensions of each loop of a statement."""


def leaves_of(dims: Sequence[DomainDim]) -> list[DomainDim]:
    """Return the leaves of several dimensions in order."""
    found: list[DomainDim] = []
    for dim in dims:  # most dimensions are unsplit: avoid the call
        if dim.parts is not None:
            found += dim.leaves()
        elif may_exceed_one(dim.extent):
            found.append(dim)
    return found


def strides_of(loops: Loops, coeffs: Sequence[int]) -> dict[DomainDim, int]:
    """Return the nonzero strides of leaves, given an index's strides of loops."""
    strides: dict[DomainDim, int] = {}
    for dims, coefficient in zip(loops, coeffs, strict=True):
        if coefficient:
            for leaf in reversed(leaves_of(dims)):
                strides[leaf] = coefficient
                coefficient *= leaf.extent
    return strides


@dataclass(frozen=True)
class DomainShape:
    """The tile shape of a domain.

    If ``resident``, a tile covers all of the leaves ``held`` and a part of the leaves ``free``;
    together these are all leaves. Statements can then use what others reduced along ``held``, e.g.
    in a softmax over ``held``. The leaves ``held`` are columns of tiles, or rows if ``transposed``.

    If not ``resident``, ``held`` is empty, all statements iterate over all leaves, and all
    reductions reduce ``reduced``.
    """

    resident: bool
    free: tuple[DomainDim, ...]
    held: tuple[DomainDim, ...]
    reduced: frozenset[DomainDim]
    transposed: bool = False


_Space = tuple[Loops, tuple[bool, ...]]
"""Loops of a statement, and which of them are reduced; many statements have the same."""


@dataclass(eq=False)
class IterationDomain:
    """Dimensions, and the dimensions of each statement's loops."""

    dims: list[DomainDim] = field(default_factory=list)
    loops: dict[Statement, Loops] = field(default_factory=dict)
    _reads: dict[Value, tuple[Statement, Operand]] = field(default_factory=dict)

    def add(self, statement: Statement) -> bool:
        """Map a statement's loops to dimensions.

        Returns:
            Whether that is possible. If not, the statement is not added.
        """
        mapping: list[list[DomainDim] | None] = [
            None if may_exceed_one(n) else [] for n in statement.loops
        ]
        for operand in statement.operands:
            producer = operand.value.producer
            if producer in self.loops and not self._map_through_value(
                statement, operand, producer, mapping
            ):
                return False
        if any(value.producer in self.loops for value in statement.gathers):
            return False
        for operand in statement.operands:
            if None in mapping and operand.value in self._reads:
                self._map_through_operand(statement, operand, mapping)
        if None in mapping and not self._map_unconstrained(statement, mapping):
            return False
        used = leaves_of([d for dims in mapping for d in (dims or ())])
        if len(set(used)) != len(used):
            return False
        self.loops[statement] = tuple(tuple(dims or ()) for dims in mapping)
        for operand in statement.operands:
            self._reads.setdefault(operand.value, (statement, operand))
        return True

    def remove(self, statement: Statement) -> None:
        """Remove the statement that was added last.

        Dimensions of no other statement are removed. Splits stay.
        """
        del self.loops[statement]
        self._reads = {v: (s, o) for v, (s, o) in self._reads.items() if s is not statement}
        used = set(leaves_of([d for loops in self.loops.values() for dims in loops for d in dims]))
        self.dims = [d for d in self.dims if used.issuperset(d.leaves())]

    def leaves(self) -> list[DomainDim]:
        """Return all leaves, in the order in which their dimensions were added."""
        return leaves_of(self.dims)

    def span(self, statement: Statement) -> list[DomainDim]:
        """Return the leaves that a statement iterates over, in the order of its loops."""
        return [leaf for dims in self.loops[statement] for leaf in leaves_of(dims)]

    def reduced(self, statement: Statement) -> frozenset[DomainDim]:
        """Return the leaves that a statement reduces."""
        if not statement.is_reduction:
            return frozenset()
        loops = self.loops[statement]
        return frozenset(
            leaf
            for dims, reduced in zip(loops, statement.reduced, strict=True)
            if reduced
            for leaf in leaves_of(dims)
        )

    def coefficients(self, statement: Statement, index: Affine) -> dict[DomainDim, int]:
        """Return the nonzero strides of ``index`` along leaves."""
        return strides_of(self.loops[statement], index.coeffs)

    def fetched(self) -> Iterator[tuple[Statement, Operand]]:
        """Return the operands that are not produced in the domain."""
        return (
            (s, o) for s in self.loops for o in s.operands if o.value.producer not in self.loops
        )

    # --- mapping of loops

    def _map_through_value(
        self,
        statement: Statement,
        operand: Operand,
        producer: Statement,
        mapping: list[list[DomainDim] | None],
    ) -> bool:
        """Map loops by means of a value that the domain produces.

        The statement must read each element once.
        """
        result = producer.result_of(operand.value)
        written = digits(producer.loops, result.index)
        read = digits(statement.loops, operand.index)
        if written is None or read is None:
            return False
        if not statically_known_equal(
            volume([producer.loops[k] for k in written]), volume([statement.loops[k] for k in read])
        ):
            return False
        target = leaves_of([d for k in written for d in self.loops[producer][k]])
        matched = _group_leaves([statement.loops[k] for k in read], target)
        if matched is None:
            return False
        for loop, dims in zip(read, matched, strict=True):
            mapped = mapping[loop]
            if mapped is None:
                mapping[loop] = dims
            elif leaves_of(mapped) != leaves_of(dims):
                return False
        return True

    def _map_through_operand(
        self, statement: Statement, operand: Operand, mapping: list[list[DomainDim] | None]
    ) -> None:
        """Map loops by means of a tensor that another statement reads with the same strides."""
        other, other_index = self._reads[operand.value]
        used = set(leaves_of([d for dims in mapping for d in (dims or ())]))
        for loop, (extent, stride) in enumerate(
            zip(statement.loops, operand.index.coeffs, strict=True)
        ):
            if mapping[loop] is not None or not stride:
                continue
            for k, (n, c) in enumerate(zip(other.loops, other_index.index.coeffs, strict=True)):
                leaves = leaves_of(self.loops[other][k])
                if (
                    statically_known_equal(n, extent)
                    and statically_known_equal(c, stride)
                    and not used.intersection(leaves)
                ):
                    mapping[loop] = leaves
                    used.update(leaves)
                    break

    def _map_unconstrained(
        self, statement: Statement, mapping: list[list[DomainDim] | None]
    ) -> bool:
        """Map loops that no access constrains.

        They map to the dimensions that the statement does not use yet if extents match; without
        such dimensions, to new ones.
        """
        used = set(leaves_of([d for dims in mapping for d in (dims or ())]))
        unused = [leaf for leaf in self.leaves() if leaf not in used]
        missing = [k for k, dims in enumerate(mapping) if dims is None]
        if unused:
            matched = None
            if statically_known_equal(
                volume([d.extent for d in unused]), volume([statement.loops[k] for k in missing])
            ):
                matched = _group_leaves([statement.loops[k] for k in missing], unused)
            if matched is None:
                return False
            for loop, dims in zip(missing, matched, strict=True):
                mapping[loop] = dims
            return True
        for loop in missing:
            dim = DomainDim(statement.loops[loop])
            self.dims.append(dim)
            mapping[loop] = [dim]
        return True

    # --- tiles

    def shape(self) -> DomainShape | None:
        """Return the tile shape of the domain; None if no single shape fits all statements."""
        order = self.leaves()
        all_leaves = frozenset(order)
        if len(self.loops) > 1 and any(map(_is_alone, self.loops)):
            return None
        spaces = self._iteration_spaces()
        sets = list(dict.fromkeys(reduced for _, reduced in spaces.values() if reduced))
        narrow = {span for span, _ in spaces.values() if span != all_leaves}
        consumed = self._consumed_spaces() if sets else set()
        used = {spaces[space][1] for space in consumed if spaces[space][1]}
        if not used and not narrow and len(sets) <= 1:
            return DomainShape(False, tuple(order), (), next(iter(sets), frozenset()))
        held = _held(all_leaves, used, narrow, sets)
        if held is None or not all(
            _is_consistent(all_leaves, held, *extents, space in consumed)
            for space, extents in spaces.items()
        ):
            return None
        free = all_leaves - held
        rows, columns = (tuple(d for d in order if d in leaves) for leaves in (free, held))
        is_transposed = self._prefers_transposed(free, held)
        return DomainShape(True, rows, columns, frozenset(), is_transposed)

    def _iteration_spaces(self) -> dict[_Space, tuple[frozenset[DomainDim], frozenset[DomainDim]]]:
        """Return the leaves, and the reduced leaves, of each kind of loops that statements have."""
        found: dict[_Space, tuple[frozenset[DomainDim], frozenset[DomainDim]]] = {}
        for s, loops in self.loops.items():
            if (loops, s.reduced) not in found:
                found[loops, s.reduced] = frozenset(self.span(s)), self.reduced(s)
        return found

    def _consumed_spaces(self) -> set[_Space]:
        """Return the loops of the reductions whose results other statements read."""
        read = {o.value for s in self.loops for o in s.operands}
        return {
            (loops, s.reduced)
            for s, loops in self.loops.items()
            if s.is_reduction and any(r.value in read for r in s.results)
        }

    def _prefers_transposed(self, free: frozenset[DomainDim], held: frozenset[DomainDim]) -> bool:
        """Whether the held leaves should be rows.

        They should if they are a short window, or if memory is contiguous along the free leaves.
        """
        if (
            size_hint(volume([leaf.extent for leaf in held]))
            < _SHORT
            <= size_hint(volume([leaf.extent for leaf in free]))
        ):
            return True
        along = {True: 0, False: 0}
        for (loops, coeffs), count in Counter(
            (self.loops[s], o.index.coeffs) for s, o in self.fetched()
        ).items():
            strides = strides_of(loops, coeffs)
            contiguous = [leaf for leaf, step in strides.items() if guarded_equal(step, 1)]
            elements = size_hint(volume([leaf.extent for leaf in strides])) if contiguous else 0
            for leaf in contiguous:
                along[leaf in free] += count * elements
        return along[True] > along[False]


def _is_alone(statement: Statement) -> bool:
    """Return whether a statement shares its loops with no other one."""
    return statement.volume == 0 or any(r.combine == "general" for r in statement.results)


def _is_consistent(
    all_leaves: frozenset[DomainDim],
    held: frozenset[DomainDim],
    span: frozenset[DomainDim],
    reduced: frozenset[DomainDim],
    is_consumed: bool,
) -> bool:
    """Return whether tiles that hold ``held`` completely fit a statement over ``span``."""
    free = all_leaves - held
    if span not in (all_leaves, free):
        return False
    if not reduced:
        return True
    can_reduce = (held, free, all_leaves) if span == all_leaves else (free,)
    return reduced in can_reduce and (reduced == held or not is_consumed)


def _held(
    all_leaves: frozenset[DomainDim],
    used: set[frozenset[DomainDim]],
    narrow: set[frozenset[DomainDim]],
    sets: Sequence[frozenset[DomainDim]],
) -> frozenset[DomainDim] | None:
    """Return the leaves that tiles must cover completely; None if statements disagree."""
    if used:
        return next(iter(used)) if len(used) == 1 else None
    if narrow:
        return all_leaves - next(iter(narrow)) if len(narrow) == 1 else None
    for candidate in sets:
        if (
            all(s in (candidate, all_leaves - candidate, all_leaves) for s in sets)
            and candidate != all_leaves
        ):
            return candidate
    return None


def _group_leaves(
    extents: Sequence[int], leaves: Sequence[DomainDim]
) -> list[list[DomainDim]] | None:
    """Group ``leaves`` by ``extents``, with splits where needed; None if that is impossible."""
    remaining = list(leaves)
    groups: list[list[DomainDim]] = []
    for extent in reversed(extents):
        group: list[DomainDim] = []
        need = extent
        while may_exceed_one(need):
            if not remaining:
                return None
            leaf = remaining.pop()
            if divides(leaf.extent, need):
                need //= leaf.extent
                group.insert(0, leaf)
            elif divides(need, leaf.extent):
                outer, inner = leaf.split(need)
                remaining.append(outer)
                group.insert(0, inner)
                need = 1
            else:
                return None
        groups.insert(0, group)
    return groups if not remaining else None


def domain_of(kernel: Kernel) -> IterationDomain:
    """Return the domain of a nest kernel, which is computed once.

    Raises:
        ValueError: Its statements have no common domain.
    """
    if kernel.domain is None:
        domain = IterationDomain()
        for statement in kernel.statements:
            if not domain.add(statement):
                raise ValueError(
                    f"{kernel.name}: {statement.op} over {statement.loops}"
                    " does not fit the kernel's other loops"
                )
        kernel.domain = domain
    return kernel.domain
