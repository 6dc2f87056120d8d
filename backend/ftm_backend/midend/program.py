"""The facts of a compiled program that are not code: its signature, constants and arena.

They travel as one JSON string, the module attribute ``ftm.program``, from ``plan-buffers`` to the emission.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from ftm_backend.mlir import ir

ATTRIBUTE = "ftm.program"


@dataclass
class Program:
    """Each entry is a list, as the contract of the attribute has it.

    inputs: [symbol, dtype, shape]; scalars: [symbol, dtype]; outputs: [symbol, dtype, shape, symbol of the
    input whose storage it may share or ""]; consts: [symbol, dtype, shape, little-endian bytes in hex];
    arena: [symbol, byte offset, dtype, shape]; arena_bytes: size of the arena.
    """

    inputs: list[list] = field(default_factory=list)
    scalars: list[list] = field(default_factory=list)
    outputs: list[list] = field(default_factory=list)
    consts: list[list] = field(default_factory=list)
    arena: list[list] = field(default_factory=list)
    arena_bytes: int = 0

    def attach(self, module: ir.Module) -> None:
        """Writes the facts on ``module``."""
        module.operation.attributes[ATTRIBUTE] = ir.StringAttr.get(json.dumps(asdict(self)))

    @staticmethod
    def of(module: ir.Module) -> Program:
        """Reads the facts of ``module``.

        Raises:
            ValueError: the module has none: ``plan-buffers`` has not run.
        """
        if ATTRIBUTE not in module.operation.attributes:
            raise ValueError(f"the module has no {ATTRIBUTE} attribute: run plan-buffers first")
        return Program(**json.loads(module.operation.attributes[ATTRIBUTE].value))

    def buffers(self) -> dict[str, tuple[str, int]]:
        """Dtype and number of elements of every buffer, by symbol."""
        found: dict[str, tuple[str, int]] = {}
        for symbol, dtype, shape, *_ in (*self.inputs, *self.outputs, *self.consts):
            found[symbol] = (dtype, _volume(shape))
        for symbol, _, dtype, shape in self.arena:
            found[symbol] = (dtype, _volume(shape))
        return found


def _volume(shape: list[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count
