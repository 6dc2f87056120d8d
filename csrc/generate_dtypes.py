"""Write the recorder's table of dtypes, ``csrc/graph/dtypes_gen.h``, from the compiler's.

python csrc/generate_dtypes.py           # rewrite
python csrc/generate_dtypes.py --check   # exit 1 if the file is stale
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ftm_backend.dtypes import ALL, DTYPES, PART, DTypeInfo, memory

PATH = Path(__file__).parent / "graph" / "dtypes_gen.h"

HEAD = """\
// Generated from backend/ftm_backend/dtypes.py by `python csrc/generate_dtypes.py`; do not edit.
// clang-format off
#pragma once

namespace ftm {

// Properties of a dtype.
struct DtypeInfo {
  const char* token; // name in traces; null if traces do not support it
  int element_type; // enum ftm_dtype of its elements in memory; for complex numbers, of their parts
  int integer_bits; // all integers of this many bits, without the sign, are exact
  bool in_most_ops; // most ops compute with it; otherwise most can only copy and convert it
};

constexpr DtypeInfo kDtypes[] = { // by at::ScalarType
"""
TAIL = """\
};

} // namespace ftm
"""


def row(facts: DTypeInfo) -> str:
    """Return a dtype's row of the table."""
    element_type = DTYPES[memory(PART.get(facts.token, facts.token))].code
    in_most_ops = str(facts.token in ALL).lower()
    return f'    {{"{facts.token}", {element_type}, {facts.digits}, {in_most_ops}}},'


def render() -> str:
    """Return the text of the header."""
    by_number = {facts.number: row(facts) for facts in DTYPES.values()}
    rows = [by_number.get(number, "    {},") for number in range(max(by_number) + 1)]
    return HEAD + "\n".join(rows) + "\n" + TAIL


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python csrc/generate_dtypes.py", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if the header is stale"
    )
    if not parser.parse_args().check:
        PATH.write_text(render())
    elif not PATH.exists() or PATH.read_text() != render():
        print(f"{PATH} is stale: run `python csrc/generate_dtypes.py`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
