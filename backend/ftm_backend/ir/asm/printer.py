"""Prints a program in its one canonical layout; parsing the text gives an equal program."""

from __future__ import annotations

from ftm_backend.ir.asm import program as p
from ftm_backend.target.instruction import ADDRESS
from ftm_backend.target.instruction_table import BY_NAME


def print_program(program: p.AsmProgram) -> str:
    """Return the canonical text of ``program``."""
    lines = [_comment(c) for c in program.leading]
    lines.append(_end(f"@program {program.name}, {program.machine}", program.comment))
    lines += [_header(item) for item in program.header]
    for function in program.functions:
        if isinstance(function, p.Comment):
            lines.append(_comment(function))
            continue
        lines.append(_end(f"@func {function.name}", function.comment))
        for item in function.items:
            _item(item, lines)
        lines.append(_end("@ret", function.end_comment))
    return "\n".join(lines) + "\n"


def shape(extents: tuple[int, ...]) -> str:
    """Print a shape such as ``64x64``; ``[]`` for a scalar without dimensions."""
    return "x".join(map(str, extents)) if extents else "[]"


def _end(text: str, comment: str) -> str:
    return f"{text}  // {comment}" if comment else text


def _comment(comment: p.Comment, indent: str = "") -> str:
    return f"{indent}// {comment.text}" if comment.text else ""


def _header(item: p.BufferDirective | p.ScalarArgument | p.Comment) -> str:
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


def _item(
    item: p.AsmParameter | p.TileDirective | p.AsmInstruction | p.MapBlock | p.Label | p.Comment,
    lines: list[str],
) -> None:
    if isinstance(item, p.AsmInstruction):
        lines.append(instruction(item, "    "))
    elif isinstance(item, p.MapBlock):
        inputs = ", ".join(_map_input(x) for x in item.inputs)
        outputs = ", ".join(_map_output(x) for x in item.outputs)
        head = f"@map {operand(item.rows)} x {operand(item.columns)}"
        head += (f", {inputs}" if inputs else "") + f" -> {outputs}"
        lines.append(_end(_predicate(item.predicate, "    ") + head, item.comment))
        for entry in item.body:
            lines.append(
                _comment(entry, "      ")
                if isinstance(entry, p.Comment)
                else instruction(entry, "      ")
            )
        lines.append("    @endmap")
    elif isinstance(item, p.Label):
        bounds = f" {item.bounds[0]}, {item.bounds[1]}" if item.bounds else ""
        lines.append(_end(f"  {item.name}:{bounds}", item.comment))
    elif isinstance(item, p.TileDirective):
        text = f"  @tile {item.name}, {item.space}, {item.dtype}, {item.rows}x{item.columns}"
        text += f", {item.depth}, {item.offset}"
        lines.append(_end(text, item.comment))
    elif isinstance(item, p.AsmParameter):
        words = [
            item.name,
            item.dtype,
            *(["out"] if item.out else []),
            *([item.alias] if item.alias else []),
        ]
        lines.append(
            _end(f"  @{'scalar' if item.scalar else 'param'} {', '.join(words)}", item.comment)
        )
    else:
        lines.append(_comment(item, "    "))


def _predicate(predicate: tuple[int, bool] | None, indent: str) -> str:
    if predicate is None:
        return indent
    return f"{indent[2:]}[{'!' if predicate[1] else ''}r{predicate[0]}] "


def instruction(item: p.AsmInstruction, indent: str = "") -> str:
    """Print one instruction."""
    row = BY_NAME.get(item.name)
    addresses = {i for i, o in enumerate(row.operands) if o.kind == ADDRESS} if row else set()
    words = [
        operand(o, i in addresses or item.name == "@call") for i, o in enumerate(item.operands)
    ]
    name = ".".join((item.name, *item.suffixes))
    text = f"{name} {', '.join(words)}" if words else name
    return _end(_predicate(item.predicate, indent) + text, item.comment)


def operand(item: p.Operand, address: bool = False) -> str:
    """Print one operand.

    Args:
        item: The operand.
        address: Whether it refers to a buffer, whose brackets are always printed.
    """
    if isinstance(item, p.Register):
        return f"r{item.number}"
    if isinstance(item, p.VectorRegister):
        return f"v{item.number}"
    if isinstance(item, p.Immediate):
        return repr(item.value)
    if isinstance(item, p.SymbolName):
        return item.name
    if isinstance(item, p.SlotReference):
        return _reference(item, address)
    columns = " ".join(f"{operand(e)}@{operand(s)}" for e, s in item.columns)
    if item.row_stride is not None:
        return f"{operand(item.row_stride)} | {columns}"
    return " ".join(f"{operand(e)}@{operand(s)}" for e, s in item.rows) + f" | {columns}"


def _reference(item: p.SlotReference, address: bool) -> str:
    if item.index < 0:
        return f"{item.name}[{item.offset}]" if address or item.offset else item.name
    offset = f"{item.offset:+d}" if item.offset else ""
    return f"{item.name}[r{item.index}{offset}]"


def _map_input(item: p.MapInput) -> str:
    suffix = "" if item.access == "full" else f".{item.access}"
    return f"{_reference(item.tile, False)}:v{item.register}{suffix}"


def _map_output(item: p.MapOutput) -> str:
    suffix = "" if item.scope == "full" else f".{item.scope}{item.reduction}"
    accumulate = ".acc" if item.accumulate else ""
    return f"{_reference(item.tile, False)}:v{item.register}{suffix}{accumulate}"
