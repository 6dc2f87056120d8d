"""Writes the recorder's table of dtypes, ``csrc/graph/dtypes_gen.h``, from the compiler's, or
checks that it is fresh.

python csrc/generate.py           # rewrite
python csrc/generate.py --check   # exit 1 if it is stale
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ftm_backend.dtypes import ALL, DTYPES, PART, DTypeInfo, memory

PATH = Path(__file__).parent / "graph" / "dtypes_gen.h"

HEAD = """\
// Generated from backend/ftm_backend/dtypes.py by `python csrc/generate.py`; do not edit.
// clang-format off
#pragma once

namespace ftm {

// What the recorder knows of a dtype.
struct DtypeFacts {
  const char* token; // in the trace; null: no dtype of a trace
  int held; // the machine's element type (enum ftm_dtype) that programs hold it as: of complex numbers their parts'
  int digits; // binary digits of integers that it counts exactly
  bool common; // computed with by most ops; of the others only some ops know more than how to move and convert them
};

constexpr DtypeFacts kDtypes[] = { // by at::ScalarType
"""
TAIL = """\
};

} // namespace ftm
"""


def row(facts: DTypeInfo) -> str:
    """One dtype's line."""
    held = DTYPES[memory(PART.get(facts.token, facts.token))].code
    return f'    {{"{facts.token}", {held}, {facts.digits}, {str(facts.token in ALL).lower()}}},'


def render() -> str:
    """The text of the header."""
    by_number = {facts.number: row(facts) for facts in DTYPES.values()}
    rows = [by_number.get(number, "    {},") for number in range(max(by_number) + 1)]
    return HEAD + "\n".join(rows) + "\n" + TAIL


def main() -> int:
    """Command line: see the module's docstring."""
    parser = argparse.ArgumentParser(
        prog="python csrc/generate.py", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if the header is stale"
    )
    if not parser.parse_args().check:
        PATH.write_text(render())
    elif not PATH.exists() or PATH.read_text() != render():
        print(f"{PATH} is stale: run `python csrc/generate.py`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
