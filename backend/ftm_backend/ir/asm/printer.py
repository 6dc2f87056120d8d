"""Prints a program in its one canonical layout; parsing the text gives an equal program.

Operands that the tile IR shares with assembly take the function that prints a number or a slot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ftm_backend.ir.asm import program as p
from ftm_backend.symbolic import SymInt
from ftm_backend.target.instruction import ADDRESS
from ftm_backend.target.instruction_table import BY_NAME

_ADDRESSES = {
    row.name: frozenset(k for k, o in enumerate(row.operands) if o.kind == ADDRESS)
    for row in BY_NAME.values()
}
"""Positions of the operands that are addresses of buffers."""


def print_program(program: p.AsmProgram) -> str:
    """Return the canonical text of ``program``."""
    lines = _head(program)
    for function in program.functions:
        if isinstance(function, p.Comment):
            lines.append(_comment(function))
            continue
        lines.append(_end(f"@func {function.name}", function.comment))
        lines += function_lines(function)
        lines.append(_end("@ret", function.end_comment))
    return "\n".join(lines) + "\n"


def lay_out(program: p.AsmProgram) -> None:
    """Give a program that has no text its canonical one: set ``source``, and the items' lines.

    The items of a function that is assembled already keep theirs: its object file has its own.
    """
    lines = _head(program)
    program.line = len(program.leading) + 1
    _number(program.header, program.line + 1)
    for function in program.functions:
        if isinstance(function, p.Comment):
            lines.append(_comment(function))
            continue
        lines.append(_end(f"@func {function.name}", function.comment))
        function.line = len(lines)
        if function.object is None:
            _number(function.items, function.line + 1)
        lines += function_lines(function)
        lines.append(_end("@ret", function.end_comment))
        function.end = len(lines)
    program.source = lines


def _number(items: Iterable[p.FunctionItem | p.BufferDirective | p.ScalarArgument], at: int) -> int:
    """Give items the lines from ``at`` on; return the first line after them."""
    for item in items:
        item.line = at
        at += 1
        if isinstance(item, p.AsmInstruction) and item.name == "@map":
            at = _number(item.body, at) + 1  # @endmap
    return at


def function_lines(function: p.AsmFunction) -> list[str] | tuple[str, ...]:
    """Return the lines between ``@func`` and ``@ret``."""
    if function.printed:
        return function.printed
    lines: list[str] = []
    rings = {i.name for i in function.items if isinstance(i, p.TileDirective) and i.depth > 1}
    for item in function.items:
        _item(item, rings, lines)
    return lines


def shape(extents: Iterable[int]) -> str:
    """Print a shape such as ``64x64``; ``[]`` for a scalar without dimensions."""
    return "x".join(map(str, extents)) or "[]"


def _head(program: p.AsmProgram) -> list[str]:
    lines = [_comment(c) for c in program.leading]
    lines.append(_end(f"@program {program.name}, {program.machine}", program.comment))
    return lines + [header(item) for item in program.header]


def _end(text: str, comment: str) -> str:
    return f"{text}  // {comment}" if comment else text


def _comment(comment: p.Comment, indent: str = "") -> str:
    return f"{indent}// {comment.text}" if comment.text else ""


def header(item: p.BufferDirective | p.ScalarArgument | p.Comment) -> str:
    """Print a line of the header."""
    if isinstance(item, p.Comment):
        return _comment(item)
    if isinstance(item, p.ScalarArgument):
        return _end(f"@scalar {item.name}, {item.dtype}", item.comment)
    words = [item.name, item.dtype, shape(item.shape)]
    if item.kind in ("arena", "gsm"):
        words.insert(1, str(item.offset))
    if item.kind == "const":
        words.append(item.data.hex())
    if item.alias:
        words.append(item.alias)
    return _end(f"@{item.kind} {', '.join(words)}", item.comment)


def parameter(item: p.AsmParameter) -> str:
    """Print the declaration of a function's parameter."""
    words = [item.name, item.dtype, *(["out"] if item.out else [])]
    words += [item.alias] if item.alias else []
    return _end(f"  @{'scalar' if item.scalar else 'param'} {', '.join(words)}", item.comment)


def _item(item: p.FunctionItem, rings: Collection[str], lines: list[str]) -> None:
    if isinstance(item, p.AsmInstruction):
        lines.append(instruction(item, "    ", rings))
        if item.name == "@map":
            for entry in item.body:
                if isinstance(entry, p.Comment):
                    lines.append(_comment(entry, "      "))
                else:
                    lines.append(instruction(entry, "      "))
            lines.append("    @endmap")
    elif isinstance(item, p.Label):
        bounds = f" {item.bounds[0]}, {item.bounds[1]}" if item.bounds else ""
        lines.append(_end(f"  {item.name}:{bounds}", item.comment))
    elif isinstance(item, p.TileDirective):
        text = f"  @tile {item.name}, {item.space}, {item.dtype}, {item.rows}x{item.columns}"
        text += f", {item.depth}, {item.offset}"
        lines.append(_end(text, item.comment))
    elif isinstance(item, p.AsmParameter):
        lines.append(parameter(item))
    else:
        lines.append(_comment(item, "    "))


def _predicate(predicate: tuple[int, bool] | None, indent: str) -> str:
    if predicate is None:
        return indent
    return f"{indent[2:]}[{'!' if predicate[1] else ''}r{predicate[0]}] "


def instruction(item: p.AsmInstruction, indent: str = "", rings: Collection[str] = ()) -> str:
    """Print one instruction.

    Args:
        item: The instruction.
        indent: Spaces before it.
        rings: Names of the tiles whose slot is always printed.
    """
    if item.name == "@map":
        return _map_head(item, indent, rings)
    bracketed = _ADDRESSES.get(item.name, ())
    words = []
    for number, operand_ in enumerate(item.operands):
        if isinstance(operand_, p.SlotReference):
            is_bracketed = number in bracketed or operand_.name in rings or item.name == "@call"
            words.append(_reference(operand_, is_bracketed))
        else:
            words.append(operand(operand_))
    name = ".".join((item.name, *item.suffixes)) if item.suffixes else item.name
    text = f"{name} {', '.join(words)}" if words else name
    if item.predicate is not None:
        indent = _predicate(item.predicate, indent)
    return _end(indent + text, item.comment) if item.comment else indent + text


def _map_head(item: p.AsmInstruction, indent: str, rings: Collection[str]) -> str:
    def slot(reference: p.SlotReference) -> str:
        return _reference(reference, reference.name in rings)

    rows, columns, *_ = item.operands
    inputs = "".join(f", {map_input(x, slot)}" for x in item.inputs)
    outputs = ", ".join(map_output(x, slot) for x in item.outputs)
    head = f"@map {operand(rows)} x {operand(columns)}{inputs} -> {outputs}"
    return _end(_predicate(item.predicate, indent) + head, item.comment)


def operand(item: p.Operand, bracketed: bool = False) -> str:
    """Print one operand.

    Args:
        item: The operand.
        bracketed: Whether brackets are printed even around 0, as after the name of a buffer.
    """
    if isinstance(item, p.VectorRegister):
        return f"v{item.number}"
    if isinstance(item, p.Register):
        return f"r{item.number}"
    if isinstance(item, p.Immediate):
        return repr(item.value)
    if isinstance(item, p.SymbolName):
        return item.name
    if isinstance(item, p.SlotReference):
        return _reference(item, bracketed)
    if isinstance(item, p.Dims):
        return dims(item, operand)
    return map_input(item, operand) if isinstance(item, p.MapInput) else map_output(item, operand)


def dims(item: p.Dims[p.NumberT], number: Callable[[p.NumberT], str]) -> str:
    """Print the sides of a transfer."""
    columns = " ".join(f"{number(e)}@{number(s)}" for e, s in item.columns)
    if item.row_stride is not None:
        return f"{number(item.row_stride)} | {columns}"
    return " ".join(f"{number(e)}@{number(s)}" for e, s in item.rows) + f" | {columns}"


def _reference(item: p.SlotReference, bracketed: bool) -> str:
    offset = item.offset
    is_zero = not isinstance(offset, SymInt) and offset == 0
    if item.index < 0:
        return item.name if is_zero and not bracketed else f"{item.name}[{offset}]"
    return f"{item.name}[r{item.index}{'' if is_zero else format(offset, '+d')}]"


def map_input(item: p.MapInput[p.SlotT], slot: Callable[[p.SlotT], str]) -> str:
    """Print an input of a map."""
    suffix = "" if item.access == "full" else f".{item.access}"
    return f"{slot(item.tile)}:v{item.register}{suffix}"


def map_output(item: p.MapOutput[p.SlotT], slot: Callable[[p.SlotT], str]) -> str:
    """Print an output of a map."""
    suffix = "" if item.scope == "full" else f".{item.scope}{item.reduction}"
    accumulate = ".acc" if item.accumulate else ""
    return f"{slot(item.tile)}:v{item.register}{suffix}{accumulate}"
