"""Generates ``docs/isa.md``, the manual of the assembly, and ``docs/expansions.md``.

python -m ftm_backend.docgen.isa_manual --write    # after changing the table or an expansion
python -m ftm_backend.docgen.isa_manual --check    # fails if a file is stale
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ftm_backend.assembler import image_layout
from ftm_backend.cli_common import Parser, command
from ftm_backend.docgen import macro_manual
from ftm_backend.docgen.example_programs import case
from ftm_backend.docgen.markdown import wrap_markdown
from ftm_backend.ir.asm import parser
from ftm_backend.target import element_types, instruction_table, presets
from ftm_backend.target import instruction as i
from ftm_backend.target.presets import MachineParameters

PATH = Path(__file__).resolve().parents[3] / "docs" / "isa.md"
EXPANSIONS = PATH.with_name("expansions.md")
_FRAME = Path(__file__).resolve().with_name("frame.md")

_FORMS = {
    i.REGISTER: "`rN`, written",
    i.SCALAR: "`rN`, an integer, or an `i64` program scalar",
    i.ADDRESS: "`b0[r3+12]`",
    i.SLOT: "`X[r5]`",
    i.DIMS: "`2@512 r7@64 | 8@1`",
    i.ROW_DIMS: "`1024 | 64@1`",
    i.SIDES: "`28@1 28@1 | 30@30 30@1`",
    i.LABEL: "a label",
    i.FUNCTION: "a function",
    i.ARGUMENTS: "addresses and scalars, one for each parameter",
    i.MAP_HEADER: "`R x C, slot:vN... -> slot:vN...`",
}


def syntax(row: i.InstructionDef) -> str:
    """Return how an instruction is written: ``MM{.TA}{.TB}{.ACC} A, B, C``."""
    if row.name == "@map":
        return "@map R x C, X[r5]:v0, S:v1.col -> Y[r5]:v2, Q:v2.rsum"
    name = row.name + (".T" if row.types else "") + (".F" if row.from_types else "")
    for suffix in row.suffixes:
        name += (
            f"{{.{suffix}}}"
            if isinstance(suffix, str)
            else "{" + "|".join(f".{s}" for s in suffix) + "}"
        )
    return f"{name} {', '.join(o.name for o in row.operands)}".strip()


def cost(row: i.InstructionDef) -> str:
    """Describe the cost of an instruction."""
    models = {
        "dma": "see DMA time",
        "mm": "see matrix time",
        "map": "see map time",
        "barrier": "see barrier time",
        "wait": "until the transfer is complete",
        "trans": "see order time",
        "fold": "see order time",
        "scan": "see order time",
        "sort": "see order time",
        "merge": "see order time",
        "gather": "see DMA time",
    }
    if row.macro is not None and row.macro.types:
        return f"a [macro](expansions.md#{row.name.lower()}). {macro_manual.of_row(row)}"
    words = [
        ", ".join(f"{count} x {unit}" for unit, count in row.cost.slots),
        f"latency {row.cost.latency}" if row.cost.latency else "",
        models.get(row.cost.model, ""),
    ]
    text = "; ".join(word for word in words if word) or "none"
    return f"a [macro](expansions.md#outside-of-maps); {text}" if row.macro is not None else text


def _types(names: tuple[str, ...]) -> str:
    groups = {
        element_types.ALL: "all",
        element_types.NUMBERS: "all but B1",
        element_types.FLOATS: "floats",
        element_types.INTEGERS: "integers",
        element_types.INTEGERS + ("B1",): "integers and B1",
    }
    return groups.get(names, " ".join(names))


def _operands(row: i.InstructionDef) -> str:
    if not row.operands:
        return "none"
    if row.in_map:
        kinds = {i.SAME: "T", i.FROM: "F", i.ADDRESS: "an address in a buffer of type T"}
        words = [f"{o.name}: {kinds.get(o.kind, o.kind)}" for o in row.operands]
        words[-1] += ", written"
    else:
        words = [f"{o.name}: {_FORMS[o.kind]}" for o in row.operands]
    return "; ".join(words)


def _instruction(row: i.InstructionDef) -> list[str]:
    anchor = row.name.strip("@")
    lines = [
        f"### {anchor}",
        "",
        f"`{syntax(row)}`",
        "",
        row.doc,
        "",
        f"- Meaning: `{row.formula}`",
        f"- Operands: {_operands(row)}",
    ]
    if row.types:
        text = f"- T: {_types(row.types)}"
        lines.append(text + (f"; F: {_types(row.from_types)}" if row.from_types else ""))
    lines.append(f"- Cost: {cost(row)}")
    shown = row.example
    if row.in_map:
        arrays = "; ".join(f"v{n} = {_values(v)}" for n, v in enumerate(shown.inputs.values()))
        result = "; ".join(
            f"{r} = {_values(v)}"
            for r, v in zip(shown.results, shown.outputs.values(), strict=True)
        )
        if "b1[" in shown.body:
            arrays = f"v0 = {_values(shown.inputs['b0'])}; b1 = {_values(shown.inputs['b1'])}"
        body = [line.strip() for line in shown.body.split("\n")]
        if len(body) == 1:
            return [*lines, f"- Example: {arrays}; `{body[0]}` gives {result}", ""]
        return [*lines, f"- Example: {arrays} gives {result}", "", "```", *body, "```", ""]
    arrays = "; ".join(f"{n} = {_values(v)}" for n, v in shown.inputs.items())
    result = "; ".join(f"{n} = {_values(v)}" for n, v in shown.outputs.items())
    program = case(row).text.rstrip("\n").split("\n")
    return lines + [
        f"- Example: {arrays + ' gives ' if arrays else ''}{result}",
        "",
        "```",
        *program,
        "```",
        "",
    ]


def _values(value: tuple[str, tuple[int, ...], Sequence[float]]) -> str:
    token, extents, values = value
    words = ", ".join(
        f"{x:.6g}" if isinstance(x, float) else str(int(x) if isinstance(x, bool) else x)
        for x in values
    )
    size = "x".join(map(str, extents)) + " " if len(extents) > 1 else ""
    return f"{token} {size}[{words}]"


def _type_table() -> list[str]:
    lines = ["| header and tiles | map suffix | bytes | kind |", "|---|---|---|---|"]
    kinds = {"float": "IEEE float", "int": "two's complement", "uint": "unsigned", "bool": "0 or 1"}
    for t in element_types.TYPES:
        kind = "bfloat16" if t.token == "bf16" else kinds[t.kind]
        lines.append(f"| `{t.token}` | `{t.suffix}` | {t.bytes} | {kind} |")
    return lines


def _preset_table() -> list[str]:
    loaded = [presets.load(name) for name in presets.NAMES]
    lines = [
        "| | " + " | ".join(f"`{m.name}`" for m in loaded) + " |",
        "|---" * (len(loaded) + 1) + "|",
    ]
    rows: tuple[tuple[str, Callable[[MachineParameters], float]], ...] = (
        ("cores of a cluster", lambda m: m.cores),
        ("clock, GHz", lambda m: m.clock_hz / 1e9),
        ("AM, KB a core", lambda m: m.am_bytes // 1024),
        ("SM, KB a core", lambda m: m.sm_bytes // 1024),
        ("GSM, KB a cluster", lambda m: m.gsm_bytes // 1024),
        ("f32 lanes", lambda m: m.lanes("f32")),
        ("peak f64, GFLOP/s a core", lambda m: round(m.peak_flops("f64") / 1e9, 1)),
        ("peak f32, GFLOP/s a core", lambda m: round(m.peak_flops("f32") / 1e9, 1)),
        ("DDR, GB/s a cluster", lambda m: m.ddr_bandwidth / 1e9),
        ("DMA, GB/s a core", lambda m: m.core_bandwidth / 1e9),
        ("DMA latency, cycles", lambda m: m.dma_latency),
        ("barrier, cycles", lambda m: m.barrier_cycles),
    )
    for label, value in rows:
        lines.append(f"| {label} | " + " | ".join(f"{value(m):g}" for m in loaded) + " |")
    return lines


def _summary() -> list[str]:
    lines = ["| instruction | meaning |", "|---|---|"]
    for row in instruction_table.INSTRUCTIONS:
        formula = row.formula.replace("|", "\\|")
        lines.append(f"| [`{row.name}`](#{row.name.strip('@').lower()}) | {formula} |")
    return lines


def render() -> str:
    """Return the text of the manual."""
    grammar = (inspect.getdoc(parser) or "").split("\n\n")[1]
    blocks = {
        "GRAMMAR": ["```", *(line for line in grammar.split("\n")), "```"],
        "TYPES": _type_table(),
        "PRESETS": _preset_table(),
        "SUMMARY": _summary(),
        "REDUCTIONS": [", ".join(f"`{r}`" for r in instruction_table.REDUCTIONS)],
        "SECTIONS": [
            f"{n}. `{name}`: "
            f"{of.doc if isinstance(of, image_layout.LayoutRecord) else 'plain values'}"
            for n, (name, of) in enumerate(image_layout.SECTIONS)
        ],
    }
    lines: list[str] = []
    for line in _FRAME.read_text().rstrip("\n").split("\n"):
        word = line.strip("{}")
        lines += blocks[word] if line.startswith("{{") else [line]
    for module in instruction_table.FAMILIES:
        rows = module.INSTRUCTIONS
        title = "DMA" if rows[0].family == "dma" else rows[0].family.capitalize()
        lines += [
            "",
            f"## {title} instructions",
            "",
            _first_paragraph(inspect.getdoc(module) or ""),
            "",
        ]
        for row in rows:
            lines += _instruction(row)
    return wrap_markdown("\n".join(lines).rstrip("\n") + "\n")


def _first_paragraph(doc: str) -> str:
    _, colon, description = doc.split("\n\n", maxsplit=1)[0].partition(": ")
    text = " ".join((description if colon else doc).split())
    return text[0].upper() + text[1:]


@command("python -m ftm_backend.docgen.isa_manual")
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; see the module's docstring."""
    options = Parser("python -m ftm_backend.docgen.isa_manual", __doc__.split("\n")[0])
    group = options.add_mutually_exclusive_group(required=True)
    group.add_argument("--write", action="store_true", help="write the manual")
    group.add_argument("--check", action="store_true", help="exit with 1 if the manual is stale")
    texts = {PATH: render(), EXPANSIONS: macro_manual.render()}
    if options.parse_args(arguments).write:
        for path, text in texts.items():
            path.write_text(text)
        return 0
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(
            f"{path} is stale: run `python -m ftm_backend.docgen.isa_manual --write`",
            file=sys.stderr,
        )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
