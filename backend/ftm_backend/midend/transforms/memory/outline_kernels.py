"""Pass ``outline-kernels``: outline kernels as functions of buffers and scalars.

Kernels of equal structure share one function: twelve equal layers are one function that is called
with other buffers. Addresses in a function are relative to its parameters.

Input: a `KernelProgram` with buffers. Sets its ``functions`` and ``calls`` in place.
"""

from __future__ import annotations

from dataclasses import dataclass

from ftm_backend.ir.linalg.function import united_origins
from ftm_backend.ir.linalg.origin import symbol_name
from ftm_backend.ir.tile.program import AsmParameter
from ftm_backend.midend.analysis.structural_key import function_key, structural_key
from ftm_backend.midend.kernel_ir.kernel import Kernel
from ftm_backend.midend.kernel_ir.program import KernelProgram
from ftm_backend.target.presets import MachineParameters

__all__ = ["KernelArguments", "KernelCall", "OutlinedFunction", "outline_kernels"]


@dataclass(frozen=True, slots=True)
class KernelArguments:
    """Arguments of a kernel's function.

    Attributes:
        buffers: For each symbol, the number of the parameter and the element it starts at. In the
            order inputs, outputs, workspaces.
        scalars: For each runtime scalar, its number. In the order of their uses.
    """

    buffers: dict[str, tuple[int, int]]
    scalars: dict[str, int]

    @staticmethod
    def of(kernel: Kernel) -> KernelArguments:
        """Return the arguments with which a kernel calls its function."""
        key = structural_key(kernel)
        starts: dict[str | None, int] = {}
        for value, start in zip(key.values, key.starts, strict=True):
            starts[value.symbol] = min(starts.get(value.symbol, start), start)
        values = (*kernel.inputs, *kernel.outputs, *kernel.workspaces)
        symbols = dict.fromkeys(str(value.symbol) for value in values)
        return KernelArguments(
            {symbol: (number, starts.get(symbol, 0)) for number, symbol in enumerate(symbols)},
            {symbol: number for number, symbol in enumerate(key.scalars)},
        )


@dataclass(eq=False, slots=True)
class OutlinedFunction:
    """A function that one or more kernels call.

    Attributes:
        name: Name in assembly.
        key: Its name in all caches (`function_key`).
        kernel: The first kernel that calls it; it is lowered from that one.
        arguments: The buffers and scalars of that kernel, with their numbers.
        parameters: Its buffers.
        scalars: Name and type of each scalar.
    """

    name: str
    key: str
    kernel: Kernel
    arguments: KernelArguments
    parameters: list[AsmParameter]
    scalars: list[tuple[str, str]]


@dataclass(eq=False, slots=True)
class KernelCall:
    """The call that a kernel has become.

    Attributes:
        function: The function.
        buffers: For each parameter the symbol of the buffer, the element that it starts at, and by
            how many elements it moves from one iteration of the loop to the next.
        scalars: Symbols of the scalars.
    """

    function: OutlinedFunction
    buffers: list[tuple[str, int, int]]
    scalars: list[str]

    @property
    def text(self) -> str:
        """The call as in assembly, but with ``k`` for the number of the iteration."""
        places = (
            f"{symbol}[{at}+{step}*k]" if step else f"{symbol}[{at}]"
            for symbol, at, step in self.buffers
        )
        return ", ".join((self.function.name, *places, *self.scalars))


def outline_kernels(program: KernelProgram, machine: MachineParameters) -> KernelProgram:
    """Set the functions of a program, and the call of each kernel."""
    del machine
    functions: dict[str, OutlinedFunction] = {}
    memory = _Memory(program)
    types = dict(program.scalars)
    program.calls = []
    for kernel in program.kernels:
        arguments = KernelArguments.of(kernel)
        pairs = memory.join(arguments)
        key = function_key(kernel, arguments.buffers, pairs)
        function = functions.get(key)
        if function is None:
            scalars = [
                (f"a{number}", types[symbol]) for symbol, number in arguments.scalars.items()
            ]
            function = functions[key] = OutlinedFunction(
                symbol_name(united_origins(*kernel.statements), len(functions)),
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
) -> list[AsmParameter]:
    written = {v.symbol for v in (*kernel.outputs, *kernel.workspaces)}
    types = {v.symbol: v.dtype for v in (*kernel.inputs, *kernel.outputs, *kernel.workspaces)}
    alias = {later: f"x{earlier}" for earlier, later in pairs}
    return [
        AsmParameter(f"x{number}", types[symbol], False, symbol in written, alias.get(number, ""))
        for symbol, (number, _) in arguments.buffers.items()
    ]


class _Memory:
    """Which symbols share memory: outputs with donated inputs, equal regions of the arena."""

    def __init__(self, program: KernelProgram) -> None:
        self._place: dict[str, object] = {
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
        """Return the buffer of element ``at`` of a symbol, its element there, and its step."""
        outer, start, step = self._windows.get(symbol, (symbol, 0, 0))
        return outer, start + at, step

    def join(self, arguments: KernelArguments) -> list[tuple[int, int]]:
        """Return pairs of parameters that share memory, the earlier one first.

        Both get the same first element.
        """
        groups: dict[object, list[str]] = {}
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
