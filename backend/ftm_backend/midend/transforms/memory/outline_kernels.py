"""Pass ``outline-kernels``: kernels become functions of their buffers and scalars, and equal ones
the same function.

Twelve equal layers, a thousand equal cells and the slices that a loop takes are then one function,
called with other arguments; what a kernel addresses is relative to what the call binds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ftm_backend.ir.tile.kernel_tree import KernelParameter
from ftm_backend.midend.analysis.structural_key import KernelArguments, arguments_of, structural_key
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.kernel_ir.program import KernelProgram
from ftm_backend.target.presets import MachineParameters

__all__ = ["KernelCall", "OutlinedFunction", "outline_kernels"]


@dataclass(eq=False, slots=True)
class OutlinedFunction:
    """One function: lowered from ``kernel``, the first that it is made for.

    key: what it is, without names. parameters: its buffers; scalars: its scalars, by the kernel's
        own symbols' types.
    """

    name: str
    key: tuple[Any, ...]
    kernel: Kernel
    arguments: KernelArguments
    parameters: list[KernelParameter]
    scalars: list[tuple[str, str]]


@dataclass(eq=False, slots=True)
class KernelCall:
    """A kernel as a call: buffers with the element that each parameter starts at, and by how many
    elements it moves on from one iteration of the kernel's repeat to the next, then scalars."""

    function: OutlinedFunction
    buffers: list[tuple[str, int, int]]
    scalars: list[str]

    @property
    def text(self) -> str:
        """As in assembly, but for the number ``k`` of an iteration."""
        places = (
            f"{symbol}[{at}+{step}*k]" if step else f"{symbol}[{at}]"
            for symbol, at, step in self.buffers
        )
        return ", ".join((self.function.name, *places, *self.scalars))


def outline_kernels(program: KernelProgram, machine: MachineParameters) -> KernelProgram:
    """Gives each kernel of a planned program its function and the arguments of its call."""
    del machine
    functions: dict[tuple[Any, ...], OutlinedFunction] = {}
    memory = _Memory(program)
    types = dict(program.scalars)
    program.calls = []
    for kernel in program.kernels:
        arguments = arguments_of(kernel)
        pairs = memory.join(arguments)
        key = structural_key(kernel, arguments, pairs)
        function = functions.get(key)
        if function is None:
            scalars = [
                (f"a{number}", types[symbol]) for symbol, number in arguments.scalars.items()
            ]
            function = functions[key] = OutlinedFunction(
                f"kernel_{len(functions)}",
                key,
                kernel,
                arguments,
                _parameters(kernel, arguments, pairs),
                scalars,
            )
        program.calls.append(
            KernelCall(
                function,
                [memory.place(symbol, at) for symbol, (_, at) in arguments.buffers.items()],
                list(arguments.scalars),
            )
        )
    program.functions = list(functions.values())
    return program


def _parameters(
    kernel: Kernel, arguments: KernelArguments, pairs: list[tuple[int, int]]
) -> list[KernelParameter]:
    written = {v.symbol for v in (*kernel.outputs, *kernel.workspaces)}
    types = {v.symbol: v.dtype for v in (*kernel.inputs, *kernel.outputs, *kernel.workspaces)}
    alias = {later: f"x{earlier}" for earlier, later in pairs}
    return [
        KernelParameter(f"x{number}", types[symbol], symbol in written, alias.get(number, ""))
        for symbol, (number, _) in arguments.buffers.items()
    ]


class _Memory:
    """Which symbols are, or may be, one memory: outputs with the inputs that they replace, equal
    regions of the arena."""

    def __init__(self, program: KernelProgram) -> None:
        self._place: dict[str, Any] = {
            symbol: alias for symbol, *_, alias in program.outputs if alias
        }
        self._place |= {symbol: (offset, dtype) for symbol, offset, dtype, _ in program.arena}
        self._windows = {
            symbol: (outer, start, step) for symbol, outer, start, step in program.windows
        }
        self._place |= {
            symbol: (self._place.get(outer, outer), start, step)
            for symbol, (outer, start, step) in self._windows.items()
        }

    def place(self, symbol: str, at: int) -> tuple[str, int, int]:
        """The buffer in which element ``at`` of a symbol lies, where it lies there, and how it
        moves."""
        outer, start, step = self._windows.get(symbol, (symbol, 0, 0))
        return outer, start + at, step

    def join(self, arguments: KernelArguments) -> list[tuple[int, int]]:
        """Pairs of parameters that are one memory, the earlier first; they are made to start at one
        element."""
        groups: dict[Any, list[str]] = {}
        for symbol in arguments.buffers:
            groups.setdefault(self._place.get(symbol, symbol), []).append(symbol)
        pairs = []
        for symbols in groups.values():
            if len(symbols) == 1:
                continue
            start = min(arguments.buffers[symbol][1] for symbol in symbols)
            for symbol in symbols:
                arguments.buffers[symbol] = arguments.buffers[symbol][0], start
            numbers = [arguments.buffers[symbol][0] for symbol in symbols]
            pairs += [(numbers[0], other) for other in numbers[1:]]
        return pairs
