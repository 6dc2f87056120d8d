"""Emits the maps of a nest kernel: one per stage of a tile, and those around reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ftm_backend.ir.linalg.body_builder import combined, identity, substitute
from ftm_backend.ir.linalg.function import FunctionResult, Node, Operand, Statement, Value, walk
from ftm_backend.ir.tile.builder import Index
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.lowering.loop_nest.reductions import ReductionForm, starts_at_identity
from ftm_backend.midend.lowering.map_bodies import mapped
from ftm_backend.midend.schedule.loop_nest.map_stages import MapStage

if TYPE_CHECKING:
    from ftm_backend.midend.lowering.loop_nest.emit_loops import NestEmitter


class MapInputs:
    """Inputs of a map under construction, without duplicates."""

    def __init__(self) -> None:
        self.list: list[tuple[TileDecl, int, str]] = []
        self._number: dict[tuple[TileDecl, str], int] = {}

    def add(self, tile: TileDecl, access: str) -> int:
        """Return the number of an input."""
        key = (tile, access)
        if key not in self._number:
            self._number[key] = len(self.list)
            self.list.append((tile, 0, access))
        return self._number[key]


class MapEmitter:
    """Emits maps for the kernel of ``nest``."""

    def __init__(self, nest: NestEmitter):
        """Set the emitter of the kernel's loops."""
        self._nest, self._b = nest, nest.b

    # --- one stage

    def write(self, stage: MapStage) -> None:
        """Emit the map of a stage, and the stores of its complete results."""
        nest, b = self._nest, self._b
        inputs = MapInputs()
        number: dict[int, int] = {}  # input of the map by the node's id
        positions: dict[int, tuple[Index, int, int, list[int]]] = {}
        computed_here = {r.value for s in stage.statements for r in s.results}
        elements: list[tuple[Statement, FunctionResult, Node]] = []
        for s in stage.statements:
            for r in s.results:
                node = self._element(s, r)
                elements.append((s, r, node))
                for n in walk([node]):
                    read = self._read(stage, s, n, computed_here, inputs)
                    if read is not None:
                        number[id(n)] = read
                    elif n.op == "index":
                        base, down, across, added = nest.positions.parts(s, n)
                        positions[id(n)] = (
                            base,
                            down,
                            across,
                            [inputs.add(*part) for part in added],
                        )
        outputs: list[tuple[TileDecl, int, str]] = []
        sources: list[int] = []
        after: list[tuple[Statement, FunctionResult, TileDecl, ReductionForm]] = []
        for output_number, (s, r, _) in enumerate(elements):
            output, direction, form = self._output(s, r)
            if output is not None:
                outputs.append((output, 0, direction))
                sources.append(output_number)
                after.append((s, r, output, form))

        def body(arguments: Sequence[Node]) -> list[Node]:
            known: dict[Value, Node] = {}

            def leaf(n: Node) -> Node | None:
                if id(n) in number:
                    return arguments[number[id(n)]]
                if n.op == "in":
                    return known[n.payload.value]
                if n.op == "index":
                    base, down, across, added = positions[id(n)]
                    total = b.position(base, down, across)
                    for part in added:
                        total = Node("arith.addi", "i64", (total, arguments[part]))
                    return total
                return None

            values = []
            for _, r, node in elements:
                values += mapped(b, [node], leaf)
                known[r.value] = values[-1]
            return [values[k] for k in sources]

        transposed = nest.axes.shape.transposed
        rows = 1 if stage.narrow and transposed else nest.extent(rows=True)
        columns = 1 if stage.narrow and not transposed else nest.extent(rows=False)
        b.map(rows, columns, inputs.list, outputs, body)
        for s, r, tile, form in after:
            self._complete(s, r, tile, form)

    def _read(
        self, stage: MapStage, s: Statement, n: Node, computed_here: set[Value], inputs: MapInputs
    ) -> int | None:
        """Return the input of the map that has a node's value; None if the body computes it."""
        nest = self._nest
        if id(n) in nest.uniforms.tiles:
            return inputs.add(nest.uniforms.tiles[id(n)][1], "one")
        if n.op == "in" and n.payload.value not in computed_here:
            return self._input(s, n.payload, stage.narrow, inputs)
        if n.op == "carry":
            return inputs.add(nest.accumulators[s.results[n.payload]], "full")
        return None

    def _element(self, s: Statement, r: FunctionResult) -> Node:
        """Return what the map computes for a result: the element, or the new running value."""
        nest = self._nest
        reduced = nest.axes.reduced[s]
        if r.combine is None or (reduced and r.combine != "general" and nest.forms[s].direction):
            return r.yields
        if reduced and r.combine == "general":
            return r.yields
        if reduced:
            number = s.results.index(r)
            return combined(r.combine, Node("carry", r.value.dtype, payload=number), r.yields)
        # All reduced extents are 1: combine with the initial value once.
        start = self._start_node(s, r)
        if r.combine == "general":
            return _substituted(r.yields, [self._start_node(s, other) for other in s.results])
        return r.yields if starts_at_identity(r) else combined(r.combine, start, r.yields)

    def _start_node(self, s: Statement, r: FunctionResult) -> Node:
        if isinstance(r.init, Node):
            return r.init
        assert isinstance(r.init, Operand)
        nest = self._nest
        key, position = nest.key(s, r.init)
        if key not in nest.tiles:
            nest.tiles[key] = nest.load(r.init, position, *nest.dependence(position))
        return Node("in", r.value.dtype, payload=r.init)

    def _input(self, s: Statement, operand: Operand, narrow: bool, inputs: MapInputs) -> int:
        nest = self._nest
        producer = operand.value.producer
        if producer in nest.forms:
            form = nest.forms[producer]
            whole_rows, whole_columns = form.rows, form.columns
            tile = nest.tiles[operand.value]
        else:
            key, position = nest.key(s, operand)
            whole_rows, whole_columns = nest.dependence(position)
            tile = nest.tiles[key]
        # A map over one row or one column reads vectors along the other side as whole tiles.
        transposed = nest.axes.shape.transposed
        one_row = not nest.plan.rows or (narrow and transposed)
        one_column = not nest.plan.columns or (narrow and not transposed)
        if (whole_rows or one_row) and (whole_columns or one_column):
            return inputs.add(tile, "full")
        return inputs.add(tile, "col" if whole_rows else "row" if whole_columns else "one")

    def _output(
        self, s: Statement, r: FunctionResult
    ) -> tuple[TileDecl | None, str, ReductionForm]:
        nest = self._nest
        form = nest.forms[s]
        if form.needs_accumulator:
            tile = nest.accumulators[r]
            return (
                tile,
                f"{form.direction}{r.combine}.acc"
                if form.direction and r.combine != "general"
                else "full",
                form,
            )
        if not r.stores and r.value not in nest.kept:
            return None, "", form
        tile = nest.tile(r.value.dtype, form.rows, form.columns)
        reduces = form.direction and nest.axes.reduced[s] and r.combine != "general"
        return tile, f"{form.direction}{r.combine}" if reduces else "full", form

    def _complete(
        self, s: Statement, r: FunctionResult, tile: TileDecl, form: ReductionForm
    ) -> None:
        """Store a result that this tile completes, or keep it for later stages."""
        nest = self._nest
        if form.needs_accumulator:
            return
        if nest.axes.reduced[s]:
            tile = self._with_start(s, r, tile, form)
        nest.tiles[r.value] = tile
        nest.store(s, r, tile, form)

    # --- reductions

    def start_accumulators(self) -> None:
        """Declare and initialize the accumulators."""
        nest = self._nest
        for s, form in self._accumulated():
            rows, columns = self._extents(form)
            for r in s.results:
                tile = nest.accumulators[r] = nest.tile(r.value.dtype, form.rows, form.columns)
                if r.combine != "general":
                    assert r.combine is not None
                    self.fill(
                        tile,
                        rows,
                        columns,
                        Node("constant", r.value.dtype, payload=identity(r.combine, r.value.dtype)),
                    )
                elif isinstance(r.init, Operand):
                    position = nest.axes.position(s, r.init.index)
                    nest.load(r.init, position, form.rows, form.columns, tile)
                else:
                    assert r.init is not None
                    self.fill(tile, rows, columns, r.init)

    def finish_accumulators(self) -> None:
        """Store the accumulators."""
        nest = self._nest
        for s, form in self._accumulated():
            for r in s.results:
                tile = nest.accumulators[r]
                if r in nest.partial:
                    nest.store_partial(s, r, tile, form)
                else:
                    nest.store(s, r, self._with_start(s, r, tile, form), form)

    def _accumulated(self) -> list[tuple[Statement, ReductionForm]]:
        """Return the statements whose reductions continue from tile to tile."""
        return [
            (s, form)
            for s in self._nest.kernel.statements
            if (form := self._nest.forms[s]).needs_accumulator
        ]

    def _extents(self, form: ReductionForm) -> tuple[Index, Index]:
        """Return rows and columns of a result's tile."""
        nest = self._nest
        return nest.extent(rows=True) if form.rows else 1, nest.extent(
            rows=False
        ) if form.columns else 1

    def _with_start(
        self, s: Statement, r: FunctionResult, tile: TileDecl, form: ReductionForm
    ) -> TileDecl:
        """Return the tile of a complete reduction of ``s``, combined with its initial value."""
        rows, columns = self._extents(form)
        return self.started(
            r,
            tile,
            rows,
            columns,
            lambda: self._nest.tile(r.value.dtype, form.rows, form.columns),
            self._start_tile(s, r, form),
        )

    def _start_tile(self, s: Statement, r: FunctionResult, form: ReductionForm) -> TileDecl | None:
        if not isinstance(r.init, Operand) or r.combine == "general":
            return None
        return self._nest.load(
            r.init, self._nest.axes.position(s, r.init.index), form.rows, form.columns
        )

    def started(
        self,
        r: FunctionResult,
        tile: TileDecl,
        rows: Index,
        columns: Index,
        make: Callable[[], TileDecl],
        start_tile: TileDecl | None,
    ) -> TileDecl:
        """Return the tile of a complete reduction, combined with its initial value.

        Args:
            r: The result.
            tile: The reduced elements.
            rows: Rows of the tile.
            columns: Columns of the tile.
            make: Declares the tile of the combined result.
            start_tile: The initial values, if they are a tensor.
        """
        if r.combine == "general" or starts_at_identity(r):
            return tile
        inputs = MapInputs()
        inputs.add(tile, "full")
        reduced = Node("reduced", r.value.dtype)
        number = {id(reduced): 0}
        if start_tile is not None:
            start = Node("start", r.value.dtype)
            number[id(start)] = inputs.add(start_tile, "full")
        else:
            assert isinstance(r.init, Node)
            start = r.init
            if id(start) in self._nest.uniforms.tiles:
                number[id(start)] = inputs.add(self._nest.uniforms.tiles[id(start)][1], "one")
        assert r.combine is not None
        node = combined(r.combine, start, reduced)
        out = make()

        def body(arguments: Sequence[Node]) -> list[Node]:
            return mapped(
                self._b, [node], lambda n: arguments[number[id(n)]] if id(n) in number else None
            )

        self._b.map(rows, columns, inputs.list, [(out, 0, "full")], body)
        return out

    def fill(self, tile: TileDecl, rows: Index, columns: Index, node: Node) -> None:
        """Set a tile to a constant or uniform value."""
        inputs = MapInputs()
        known = self._nest.uniforms.tiles.get(id(node))
        if known is not None:
            inputs.add(known[1], "one")
        self._b.map(
            rows,
            columns,
            inputs.list,
            [(tile, 0, "full")],
            lambda arguments: (
                [arguments[0]] if known is not None else mapped(self._b, [node], lambda _: None)
            ),
        )


def _substituted(node: Node, starts: Sequence[Node]) -> Node:
    """Return ``node`` with the running values replaced by ``starts``."""
    return substitute([node], lambda n: starts[n.payload] if n.op == "carry" else None)[node]
