"""Generates ``machine/isa_gen.h`` and the element types in ``machine/include/ftm_machine.h``.

The header has opcodes, types and image records for the machine's loader.

python -m ftm_backend.assembler.isa_header --write    # after a change of the table
python -m ftm_backend.assembler.isa_header --check    # fails if a file is stale
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from ftm_backend.assembler import image_layout
from ftm_backend.cli_common import Parser, command
from ftm_backend.target import element_types, instruction_table
from ftm_backend.target.instruction import InstructionDef

PATH = Path(__file__).resolve().parent.parent / "machine" / "isa_gen.h"
INTERFACE = PATH.parent / "include" / "ftm_machine.h"
_BEGIN, _END = "/* generated: element types */\n", "/* end */"


def constant(name: str) -> str:
    """Return a mnemonic as part of a C identifier: ``CALL`` for ``@call``."""
    return "".join(c for c in name if c.isalnum() or c == "_").upper()


def _enum(name: str, rows: Iterable[tuple[str, int, str]]) -> list[str]:
    lines = [f"enum {name} {{"]
    lines += [f"  {key} = {value},{'  // ' + doc if doc else ''}" for key, value, doc in rows]
    return [*lines, "};", ""]


def strip_name(row: InstructionDef) -> str:
    """Return the C++ name of an operation's kernel: ``Cmpeq`` for ``VCMPEQ``."""
    return row.name[1:].capitalize()


def _strips() -> list[str]:
    """Print the operations on strips and their properties, for the machine's map compiler."""
    rows = instruction_table.STRIPS
    lines = _enum(
        "class Strip : uint8_t",
        [(strip_name(row), i, row.name) for i, row in enumerate(rows)] + [("Count", len(rows), "")],
    )
    lines += [
        "// operands: number of sources.  choosing: the first one is a mask.  mask: the result is.",
        "// exact: results of halves need no rounding.  kernel: operation whose kernel computes",
        "// it; if that is another one, the two operands are swapped.",
        "struct StripFacts {",
        "  uint8_t operands;",
        "  bool choosing, mask, exact;",
        "  Strip kernel;",
        "};",
        "constexpr StripFacts kStrips[] = {",
    ]
    for row in rows:
        reads = row.operands[:-1]
        kernel = strip_name(instruction_table.BY_NAME[row.mirrors] if row.mirrors else row)
        flags = ", ".join(
            str(flag).lower() for flag in (reads[0].kind == "B1", row.result == "B1", row.exact)
        )
        lines.append(f"  {{{len(reads)}, {flags}, Strip::{kernel}}},")
    lines += ["};", "constexpr Strip kStripOf[] = {  // by opcode; Count: none"]
    strips = {row.name for row in rows}
    lines += [
        f"  Strip::{strip_name(row) if row.name in strips else 'Count'},"
        for row in instruction_table.INSTRUCTIONS
    ]
    return [*lines, "};", ""]


def _struct(record: image_layout.LayoutRecord) -> list[str]:
    lines = [f"// {record.doc}", f"struct {record.name} {{"]
    for field in record.fields:
        c_type = (
            image_layout.C_TYPES[field.code][0]
            if field.code in image_layout.C_TYPES
            else field.code
        )
        name = field.name + ("_" if field.name == "from" else "")
        array = f"[{field.count}]" if field.count > 1 else ""
        lines.append(f"  {c_type} {name}{array};{'  // ' + field.doc if field.doc else ''}")
    return [
        *lines,
        "};",
        f'static_assert(sizeof({record.name}) == {record.size}, "image layout");',
        "",
    ]


def render() -> str:
    """Return the text of the header."""
    lines = [
        "// Generated from backend/ftm_backend/target/instruction_table.py by",
        "// `python -m ftm_backend.assembler.isa_header --write`; do not edit.",
        "// Opcodes, types and the layout of a program image (assembler/image_layout.py).",
        "// clang-format off",
        "#pragma once",
        "#include <cstdint>",
        "",
        "namespace ftm::isa {",
        "",
        f"constexpr uint64_t kMagic = 0x{int.from_bytes(image_layout.MAGIC, 'little'):016x}ull;",
        f"constexpr uint32_t kVersion = {image_layout.VERSION};",
        f"constexpr uint64_t kFingerprint = 0x{instruction_table.fingerprint():016x}ull;",
        f"constexpr int kScalarRegisters = {element_types.SCALAR_REGISTERS};",
        f"constexpr int kSlotAlignment = {element_types.SLOT_ALIGNMENT};",
        "",
    ]
    lines += _enum(
        "Opcode : uint16_t",
        [
            (f"FTM_OP_{constant(row.name)}", instruction_table.OPCODES[row.name], row.formula)
            for row in instruction_table.INSTRUCTIONS
        ]
        + [("FTM_OP_COUNT", len(instruction_table.INSTRUCTIONS), "")],
    )
    lines += ["constexpr const char* kOpcodeNames[] = {"]
    lines += [f'  "{row.name}",' for row in instruction_table.INSTRUCTIONS] + ["};", ""]
    lines += _strips()
    lines += _enum(
        "class Type : uint8_t",
        [(t.suffix, t.number, f"{t.token}, {t.bytes} bytes") for t in element_types.TYPES],
    )
    lines += [f"constexpr int kTypes = {len(element_types.TYPES)};"]
    lines += [
        "constexpr int kTypeBytes[] = {"
        + ", ".join(str(t.bytes) for t in element_types.TYPES)
        + "};"
    ]
    lines += [
        "constexpr const char* kTypeNames[] = {"
        + ", ".join(f'"{t.token}"' for t in element_types.TYPES)
        + "};"
    ]
    sums = (element_types.ACCUMULATORS.get(t.token) for t in element_types.TYPES)
    lines += ["// Type of the matrix unit's sums of products of a type; -1: not supported."]
    lines += [
        "constexpr int kAccumulators[] = {"
        + ", ".join(str(element_types.BY_TOKEN[t].number if t else -1) for t in sums)
        + "};",
        "",
    ]
    lines += _enum(
        "Space : uint8_t",
        [(f"FTM_SPACE_{n.upper()}", v, "") for n, v in element_types.SPACES.items()],
    )
    lines += _enum(
        "Access : uint8_t",
        [(f"FTM_ACCESS_{n.upper()}", i, "") for i, n in enumerate(instruction_table.ACCESSES)],
    )
    lines += _enum(
        "Scope : uint8_t",
        [
            (f"FTM_SCOPE_{n.upper()}", i, doc)
            for i, (n, doc) in enumerate(
                zip(instruction_table.SCOPES, ("every element", "Rx1", "1xC", "1x1"), strict=True)
            )
        ],
    )
    lines += _enum(
        "Reduce : uint8_t",
        [("FTM_REDUCE_NONE", 0, "")]
        + [
            (f"FTM_REDUCE_{n.upper()}", i, "")
            for i, n in enumerate(instruction_table.REDUCTIONS, 1)
        ],
    )
    lines += _enum(
        "OperandKind : uint8_t",
        [(f"FTM_OPERAND_{n}", i, "") for i, n in enumerate(image_layout.OPERAND_KINDS)],
    )
    lines += _enum(
        "BufferKind : uint8_t",
        [(f"FTM_BUFFER_{n}", i, "") for i, n in enumerate(image_layout.BUFFER_KINDS)],
    )
    lines += _enum(
        "Flag : uint16_t", [(f"FTM_FLAG_{n}", 1 << i, "") for i, n in enumerate(image_layout.FLAGS)]
    )
    lines += [f"constexpr int kCollectiveBit = {image_layout.COLLECTIVE_BIT};", ""]
    for record in image_layout.RECORDS.values():
        lines += _struct(record)
    lines += _enum(
        "SectionIndex",
        [
            (
                f"FTM_SECTION_{name.upper()}",
                i,
                f"array of {_record_name(of)}",
            )
            for i, (name, of) in enumerate(image_layout.SECTIONS)
        ]
        + [("FTM_SECTIONS", len(image_layout.SECTIONS), "")],
    )
    return "\n".join([*lines, "}  // namespace ftm::isa", ""])


def _record_name(of: image_layout.LayoutRecord | str) -> str:
    return of.name if isinstance(of, image_layout.LayoutRecord) else image_layout.C_TYPES[of][0]


def interface() -> str:
    """Return the text of the machine's C interface with the current element types."""
    rows = "".join(f"  FTM_{t.suffix} = {t.number},\n" for t in element_types.TYPES)
    head, _, rest = INTERFACE.read_text().partition(_BEGIN)
    tail = rest.partition(_END)[2]
    return f"{head}{_BEGIN}enum ftm_dtype {{\n{rows}}};\n{_END}{tail}"


@command("python -m ftm_backend.assembler.isa_header")
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; see the module's docstring."""
    parser = Parser("python -m ftm_backend.assembler.isa_header", __doc__.split("\n")[0])
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--write", action="store_true", help="write the headers")
    group.add_argument("--check", action="store_true", help="exit with 1 if one is stale")
    if parser.parse_args(arguments).write:
        PATH.write_text(render())
        INTERFACE.write_text(interface())
        return 0
    stale = [
        path
        for path, text in ((PATH, render()), (INTERFACE, interface()))
        if not path.exists() or path.read_text() != text
    ]
    for path in stale:
        print(
            f"{path} is stale: run `python -m ftm_backend.assembler.isa_header --write`",
            file=sys.stderr,
        )
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
