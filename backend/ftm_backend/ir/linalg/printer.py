"""Prints a function as MLIR: the ``linalg`` dialect on tensors plus the ``ftm`` dialect.

``reader`` reads the text back. An operand that is read through a view prints as ``ftm.view``; a
value whose elements are all one number prints as ``linalg.fill``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ftm_backend.ir.linalg.affine import Affine, row_major, volume
from ftm_backend.ir.linalg.body_builder import combined
from ftm_backend.ir.linalg.body_printer import BodyPrinter, constant_text, data_text
from ftm_backend.ir.linalg.function import (
    COLLECTIVES,
    Border,
    FunctionResult,
    LinalgFunction,
    Node,
    Operand,
    SequentialLoop,
    Statement,
    Tensor,
    Update,
    Value,
    Window,
)
from ftm_backend.ir.linalg.named_ops import NAMED, named_maps
from ftm_backend.ir.linalg.origin import location_text
from ftm_backend.ir.linalg.strided_view import Strided


def print_function(function: LinalgFunction, stage: str = "linalg") -> str:
    """Print a module that holds ``function`` as ``@main``; ``stage`` becomes its attribute."""
    return FunctionPrinter(
        function, {} if stage == "linalg" else {"ftm.stage": f'"{stage}"'}
    ).text()


def tensor_type(shape: Sequence[int], dtype: str) -> str:
    """Print a tensor type, such as ``tensor<2x3xf32>``."""
    return f"tensor<{''.join(f'{n}x' for n in shape)}{dtype}>"


class FunctionPrinter:
    """Prints one function. Values are named in the order in which they are needed.

    Args:
        function: The function.
        attributes: Attributes of the module, by name.
    """

    def __init__(self, function: LinalgFunction, attributes: dict[str, str]) -> None:
        self.function = function
        self._attributes = attributes
        self.lines: list[str] = []
        self.indent = "    "
        self._names: dict[Value, str] = {}
        self._scalars: dict[str, str] = {}
        self._uniform: dict[int, str] = {}
        self._once: dict[str, str] = {}
        self._count = 0

    def text(self) -> str:
        """Return the text of the whole module."""
        function = self.function
        arguments: list[str] = []
        for value in function.inputs:
            self._names[value] = f"%arg{len(arguments)}"
            arguments.append(f"{self._names[value]}: {tensor_type(value.shape, value.dtype)}")
        for node in function.scalars:
            self._scalars[node.payload] = f"%arg{len(arguments)}"
            arguments.append(f"%arg{len(arguments)}: {node.dtype}")
        self.body()
        returned = [self.tensor(t) for t in function.results]
        types = [tensor_type(t.view.sizes, t.value.dtype) for t in function.results]
        if returned:
            self.line(f"return {', '.join(returned)} : {', '.join(types)}")
        else:
            self.line("return")
        result = (
            ""
            if not types
            else f" -> {types[0]}"
            if len(types) == 1
            else f" -> ({', '.join(types)})"
        )
        words = ", ".join(
            f"ftm.{name} = [{', '.join(f'{chr(34)}{t}{chr(34)}' for t in tokens)}]"
            for name, tokens in (
                ("inputs", function.input_types),
                ("outputs", function.output_types),
            )
        )
        head = f"  func.func @main({', '.join(arguments)}){result} attributes {{{words}}} {{"
        attributes = ", ".join(f"{name} = {text}" for name, text in self._attributes.items())
        module = f"module attributes {{{attributes}}} {{" if attributes else "module {"
        return "\n".join([module, head, *self.lines, "  }", "}"]) + "\n"

    def body(self) -> None:
        """Print all operations; printers of later stages override it."""
        for item in self.function.body:
            self.operation(item)

    def _operations(self, function: LinalgFunction) -> None:
        for item in function.body:
            self.operation(item)

    def operation(self, item: Statement | Update | SequentialLoop) -> None:
        """Print one operation."""
        if isinstance(item, Update):
            self._update(item)
        elif isinstance(item, SequentialLoop):
            self.loop(item, partial(self._operations, item.body))
        else:
            self._statement(item)

    def _statement(self, item: Statement) -> None:
        if item.op.startswith("ftm.") and item.op not in NAMED:
            self._whole(item)
        elif item.op == "linalg.fill":
            (result,) = item.results
            self._copied(self.filled(result.yields, result.value), result.value)
        elif item.op == "linalg.copy":
            (operand,), (result,) = item.operands, item.results
            view = Strided(result.value.shape, operand.index.coeffs, operand.index.const)
            self._copied(self.tensor(Tensor(operand.value, view)), result.value)
        else:
            self._structured(item)
        if item.origins:
            self.lines[-1] += f" {location_text(item.origins)}"

    # --- building blocks
    # -------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Append one line at the current depth."""
        self.lines.append(self.indent + text)

    def define(self, text: str) -> str:
        """Append an operation with one result and return the name of the result."""
        name = f"%{self._count}"
        self._count += 1
        self.line(f"{name} = {text}")
        return name

    def once(self, text: str) -> str:
        """Append an operation that is printed once for all of its users."""
        if text not in self._once:
            self._once[text] = self.define(text)
        return self._once[text]

    def value(self, value: Value) -> str:
        """Return the name of a value; constants and undefined tensors are printed first."""
        name = self._names.get(value)
        if name is None:
            if value.splat is not None:
                name = self.filled(value.splat, value)
            elif value.border is not None:
                name = self._bordered(value, value.border)
            elif value.data is not None:
                name = self.define(
                    f"arith.constant {data_text(value)} : {tensor_type(value.shape, value.dtype)}"
                )
            else:
                name = self.empty(value.shape, value.dtype)
            self._names[value] = name
        return name

    def _bordered(self, value: Value, border: Border) -> str:
        inside = self.tensor(Tensor(border.inside, Strided.whole(border.sizes)))
        low = ", ".join(map(str, border.low))
        inside_type = tensor_type(border.sizes, value.dtype)
        return self.define(
            f'"ftm.border"({inside}) {{low = array<i64: {low}>}} : ({inside_type}) -> '
            f"{tensor_type(value.shape, value.dtype)}"
        )

    def empty(self, shape: Sequence[int], dtype: str) -> str:
        """Print an undefined tensor, to be written."""
        return self.define(f"tensor.empty() : {tensor_type(shape, dtype)}")

    def filled(self, node: Node, value: Value) -> str:
        """Print a tensor whose elements are all the number ``node``."""
        kind = tensor_type(value.shape, value.dtype)
        number, out = self.uniform(node), self.empty(value.shape, value.dtype)
        return self.define(
            f"linalg.fill ins({number} : {value.dtype}) outs({out} : {kind}) -> {kind}"
        )

    def uniform(self, node: Node) -> str:
        """Print a scalar that does not depend on loops."""
        return BodyPrinter(self, {}, self._uniform).node(node)

    def scalar(self, symbol: str) -> str:
        """Return the name of a runtime scalar's argument."""
        return self._scalars[symbol]

    def constant(self, node: Node) -> str:
        """Print a scalar constant."""
        return self.once(f"arith.constant {constant_text(node)}")

    def tensor(self, tensor: Tensor) -> str:
        """Print a tensor in the shape of its view."""
        value = tensor.value
        if value.shape == tensor.view.sizes and tensor.view.is_dense:
            return self.value(value)
        return self.view(value, tensor.view)

    def view(self, value: Value, view: Strided) -> str:
        """Print an ``ftm.view``."""
        strides = ", ".join(
            str(0 if n == 1 else s) for n, s in zip(view.sizes, view.strides, strict=True)
        )
        words = f"array<i64: {strides}>" if strides else "array<i64>"
        return self.define(
            f'"ftm.view"({self.value(value)}) '
            f"{{offset = {view.offset} : i64, strides = {words}}} : "
            f"({tensor_type(value.shape, value.dtype)}) -> {tensor_type(view.sizes, value.dtype)}"
        )

    # --- operations
    # ------------------------------------------------------------------------------------

    def _update(self, update: Update) -> None:
        kind = tensor_type(update.result.shape, update.result.dtype)
        base = update.base
        name = self.tensor(Tensor(base.value, base.view.reshape(update.result.shape) or base.view))
        for number, part in enumerate(update.parts):
            joined = ", joined" if number else ""
            written = self.tensor(part.value)
            strides = ", ".join(map(str, part.place.strides))
            words = f"array<i64: {strides}>" if strides else "array<i64>"
            part_type = tensor_type(part.value.view.sizes, part.value.value.dtype)
            name = self.define(
                f'"ftm.update"({name}, {written}) '
                f"{{offset = {part.place.offset} : i64, strides = {words}{joined}}} : "
                f"({kind}, {part_type}) -> {kind}"
            )
        self._names[update.result] = name

    def loop(self, loop: SequentialLoop, body: Callable[[], object]) -> None:
        """Print an ``scf.for`` whose iterations read and write windows of tensors.

        Args:
            loop: The loop.
            body: Prints the operations between reading and writing the windows.
        """
        for value in loop.reads():
            self.value(value)
        kinds = [tensor_type(v.shape, v.dtype) for v in loop.results]
        bounds = [self.once(f"arith.constant {n} : index") for n in (0, loop.trips, 1)]
        bases = [
            self.tensor(Tensor(base, Strided.whole(v.shape)))
            for v, base in zip(loop.results, loop.bases, strict=True)
        ]
        name, number = f"%{self._count}", self._count
        self._count += 1
        arrays = {value: f"%a{number}_{k}" for k, value in enumerate(loop.results)}
        iter_args = ", ".join(
            f"{array} = {base}" for array, base in zip(arrays.values(), bases, strict=True)
        )
        several = f":{len(kinds)}" if len(kinds) > 1 else ""
        self.line(
            f"{name}{several} = scf.for %k{number} = {bounds[0]} to {bounds[1]} "
            f"step {bounds[2]} iter_args({iter_args}) -> ({', '.join(kinds)}) {{"
        )
        shared = dict(self._once), dict(self._uniform)
        self.indent += "  "
        self._names |= arrays
        for value in loop.body.inputs:
            assert value.window is not None
            source = value.window.value
            self._names[value] = self.define(
                f'"ftm.window"({self._names[source]}, %k{number}) {_moving(value.window)} : '
                f"({tensor_type(source.shape, source.dtype)}, index) -> "
                f"{tensor_type(value.shape, value.dtype)}"
            )
        body()
        for tensor, window in zip(loop.body.results, loop.stores, strict=True):
            kind = tensor_type(window.value.shape, window.value.dtype)
            part_type = tensor_type(tensor.view.sizes, tensor.value.dtype)
            arrays[window.value] = self.define(
                f'"ftm.place"({arrays[window.value]}, {self.tensor(tensor)}, %k{number}) '
                f"{_moving(window)} : ({kind}, {part_type}, index) -> {kind}"
            )
        self.line(f"scf.yield {', '.join(arrays.values())} : {', '.join(kinds)}")
        self.indent = self.indent[:-2]
        self.line("}")
        self._once, self._uniform = shared
        for k, value in enumerate(loop.results):
            self._names[value] = f"{name}#{k}" if several else name

    def _copied(self, source: str, value: Value) -> None:
        kind, out = tensor_type(value.shape, value.dtype), self.empty(value.shape, value.dtype)
        self._names[value] = self.define(
            f"linalg.copy ins({source} : {kind}) outs({out} : {kind}) -> {kind}"
        )

    def _whole(self, statement: Statement) -> None:
        names = [self.tensor(t) for t in statement.tensors]
        types = [tensor_type(t.view.sizes, t.value.dtype) for t in statement.tensors]
        result = statement.results[0].value
        if statement.op in COLLECTIVES:
            call = statement.results[0].yields
            names.append(self.scalar(call.payload))
            types.append(call.dtype)
        words = ", ".join(f'{name} = "{word}"' for name, word in statement.attributes.items())
        attributes = f" {{{words}}}" if words else ""
        self._names[result] = self.define(
            f'"{statement.op}"({", ".join(names)}){attributes} : ({", ".join(types)}) -> '
            f"{tensor_type(result.shape, result.dtype)}"
        )

    def _structured(self, statement: Statement) -> None:
        if statement.op in NAMED and statement.op.startswith("linalg."):
            self._named(statement)
            return
        reads = self._reads(statement)
        starts = [self._start(r) for r in statement.results]
        kinds = [tensor_type(r.value.shape, r.value.dtype) for r in statement.results]
        maps = _indexing_maps(statement, [dims for *_, dims in reads])
        iterators = ", ".join(
            '"reduction"' if reduced else '"parallel"' for reduced in statement.reduced
        )
        body = BodyPrinter(
            self, {id(o): f"%in{k}" for k, o in enumerate(statement.operands)}, self._uniform
        )
        arguments = [
            *(f"%in{k}: {o.value.dtype}" for k, o in enumerate(statement.operands)),
            *["%unused: i8"] * (len(reads) - len(statement.operands)),
            *(f"%out{k}: {r.value.dtype}" for k, r in enumerate(statement.results)),
        ]
        count = len(statement.results)
        name = f"%{self._count}" + (f":{count}" if count > 1 else "")
        for k, result in enumerate(statement.results):
            self._names[result.value] = f"%{self._count}" + (f"#{k}" if count > 1 else "")
        self._count += 1
        ins = ""
        if reads:
            ins = f" ins({', '.join(n for n, _, _ in reads)} : {', '.join(t for _, t, _ in reads)})"
        body.prepare(statement)
        self.line(
            f"{name} = linalg.generic {{indexing_maps = [{', '.join(maps)}], "
            f"iterator_types = [{iterators}]{_call(statement)}}}{ins} "
            f"outs({', '.join(starts)} : {', '.join(kinds)}) {{"
        )
        self.line(f"^bb0({', '.join(arguments)}):")
        self.indent += "  "
        yields = [body.node(_yielded(r, number)) for number, r in enumerate(statement.results)]
        yielded_types = ", ".join(r.value.dtype for r in statement.results)
        self.line(f"linalg.yield {', '.join(yields)} : {yielded_types}")
        self.indent = self.indent[:-2]
        self.line(f"}} -> {kinds[0] if count == 1 else '(' + ', '.join(kinds) + ')'}")

    def _reads(self, statement: Statement) -> list[tuple[str, str, list[str]]]:
        """Print the operands of ``linalg.generic``, and return the indices of each; see `_read`.

        linalg derives a loop's extent from an operand. For loops that index neither an operand nor
        a result, another operand is printed, which the body does not use.
        """
        if statement.op in NAMED:
            return self._tensors(statement)
        reads = [self._read(o, statement.loops) for o in statement.operands]
        seen = {k for *_, dims in reads for k in dims if k is not None}
        seen |= {k for r in statement.results for i in r.indices for k in _bare(i)}
        hidden = [k for k in range(len(statement.loops)) if k not in seen]
        if hidden:
            kind = tensor_type([statement.loops[k] for k in hidden], "i8")
            reads.append((self.once(f"tensor.empty() : {kind}"), kind, [*hidden]))
        return [
            (name, kind, ["0" if k is None else f"d{k}" for k in dims])
            for name, kind, dims in reads
        ]

    def _tensors(self, statement: Statement) -> list[tuple[str, str, list[str]]]:
        """Print the operands of a named operation that linalg lacks, in their own shapes."""
        maps = named_maps(NAMED[statement.op], statement.attributes)
        return [
            (self.tensor(t), tensor_type(t.view.sizes, t.value.dtype), [*map(_affine_text, each)])
            for t, each in zip(statement.tensors, maps, strict=False)
        ]

    def _named(self, statement: Statement) -> None:
        (result,) = statement.results
        names = [self.tensor(t) for t in statement.tensors]
        types = [tensor_type(t.view.sizes, t.value.dtype) for t in statement.tensors]
        kind = tensor_type(result.value.shape, result.value.dtype)
        words = _numbers(statement)
        attributes = f" {{{words}}}" if words else ""
        ins = f"ins({', '.join(names)} : {', '.join(types)})"
        self._names[result.value] = self.define(
            f"{statement.op}{attributes} {ins} outs({self._start(result)} : {kind}) -> {kind}"
        )

    def _start(self, result: FunctionResult) -> str:
        """Print the ``outs`` operand: the start of a reduction, else an undefined tensor."""
        value = result.value
        if result.combine is None:
            return self.once(f"tensor.empty() : {tensor_type(value.shape, value.dtype)}")
        if isinstance(result.init, Node):
            return self.filled(result.init, value)
        assert isinstance(result.init, Operand)
        return self.tensor(Tensor(result.init.value, _as_view(result)))

    def _read(self, operand: Operand, loops: Sequence[int]) -> tuple[str, str, list[int | None]]:
        """Print an operand of ``linalg.generic``.

        Returns:
            Its name, its type, and for each dimension the loop that indexes it (None: index 0).
        """
        value, index = operand.value, operand.index
        loops_of_dims = _dimensions(index, loops, value.shape)
        if loops_of_dims is not None:
            return self.value(value), tensor_type(value.shape, value.dtype), loops_of_dims
        used = [k for k, c in enumerate(index.coeffs) if c]
        view = Strided(
            tuple(loops[k] for k in used), tuple(index.coeffs[k] for k in used), index.const
        )
        return self.view(value, view), tensor_type(view.sizes, value.dtype), list(used)


def _numbers(statement: Statement) -> str:
    """Print the strides and dilations of a convolution."""
    return ", ".join(
        f"{k} = dense<[{', '.join(map(str, v))}]> : tensor<{len(v)}xi64>"
        for k, v in statement.attributes.items()
    )


def _call(statement: Statement) -> str:
    """Print which named operation a ``linalg.generic`` is."""
    is_named = statement.op in NAMED
    return f', library_call = "{statement.op}", {_numbers(statement)}' if is_named else ""


def _yielded(result: FunctionResult, number: int) -> Node:
    if result.combine in (None, "general"):
        return result.yields
    return combined(
        str(result.combine), Node("carry", result.value.dtype, payload=number), result.yields
    )


def _moving(window: Window) -> str:
    return f"{{start = {window.start} : i64, step = {window.step} : i64}}"


def _as_view(result: FunctionResult) -> Strided:
    """View the initial tensor of a reduction in the shape of the reduction's result."""
    assert isinstance(result.init, Operand)
    strides = []
    for index, size in zip(result.indices, result.value.shape, strict=True):
        loop = next((k for k, c in enumerate(index.coeffs) if c), None)
        strides.append(0 if loop is None or size == 1 else result.init.index.coeffs[loop])
    return Strided(result.value.shape, tuple(strides), result.init.index.const)


def _dimensions(
    index: Affine, loops: Sequence[int], shape: Sequence[int]
) -> list[int | None] | None:
    """Find the loop that walks each dimension of ``shape``, or None if ``index`` needs a view."""
    if index.const or not volume(shape):
        return None
    by_step = {c: k for k, c in enumerate(index.coeffs) if c}
    if len(by_step) != sum(1 for c in index.coeffs if c):
        return None
    loops_of_dims: list[int | None] = []
    for size, step in zip(shape, row_major(shape), strict=True):
        loop = by_step.pop(step, None) if size > 1 else None
        if size > 1 and (loop is None or loops[loop] != size):
            return None
        loops_of_dims.append(loop)
    return None if by_step else loops_of_dims


def _bare(index: Affine) -> list[int]:
    used = [k for k, c in enumerate(index.coeffs) if c]
    return used if len(used) == 1 and index.coeffs[used[0]] == 1 and not index.const else []


def _affine_text(index: Affine) -> str:
    terms = [f"d{k}" if c == 1 else f"d{k} * {c}" for k, c in enumerate(index.coeffs) if c]
    if index.const or not terms:
        terms.append(str(index.const))
    return " + ".join(terms)


def _indexing_maps(statement: Statement, read: Sequence[Sequence[str]]) -> list[str]:
    """Return the maps of ``linalg.generic``, from the indices of its operands."""
    loops = ", ".join(f"d{k}" for k in range(len(statement.loops)))
    indices = [*read, *(map(_affine_text, r.indices) for r in statement.results)]
    return [f"affine_map<({loops}) -> ({', '.join(each)})>" for each in indices]
