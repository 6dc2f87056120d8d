"""Traces as the recorder hands them over, with symbols (``csrc/partition/choose_symbols.h``)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ftm_backend.ir.trace.trace import Trace
from ftm_lazy.compile.trace_importer import with_symbols

ALL = -1
"""All dimensions vary."""

_FACTORIES = frozenset({"aten::full", "aten::zeros", "aten::ones", "aten::arange.start_step"})


class _Recorder:
    def __init__(self, trace: Trace, least: int) -> None:
        self.trace, self.least = trace, least
        self.names: dict[tuple[object, ...], str] = {}
        self.symbols: list[tuple[int, int]] = []
        self.numbers: list[tuple[int, str, int, str]] = []

    def add(
        self, index: int, argument: str, element: int, kind: Sequence[object], size: int
    ) -> None:
        """Make a number the symbol of its kind and value."""
        name = self.names.setdefault((*kind, size), f"s{len(self.names)}")
        if len(self.symbols) < len(self.names):
            self.symbols.append((size, 1))
        self.numbers.append((index, argument, element, name))


def recorded(
    trace: Trace,
    varies: Sequence[int] = (),
    ones: Collection[tuple[int, int]] = (),
    trains: bool = False,
    least: int = 2,
) -> Trace:
    """Return a trace with symbols for sizes of parameters and of tensors that it fills.

    Args:
        trace: The trace.
        varies: For each parameter a bit mask of its varying dimensions.
        ones: Parameter and dimension of the sizes of 1 that are symbols.
        trains: Each parameter has separate symbols, and filled tensors have none.
        least: Other sizes below stay constants.
    """
    recorder = _Recorder(trace, least)
    for number, mask in enumerate(varies):
        type_ = trace.params[number]
        kind = (number,) if trains else (type_.dtype, len(type_.shape))
        for d, size in enumerate(type_.shape):
            if (mask >> d & 1 and size >= least) or (number, d) in ones:
                recorder.add(number, "", d, (*kind, d), size)
    given = {hint for hint, _ in recorder.symbols}
    for position, node in enumerate(trace.nodes):
        for name, value in () if trains or node.op not in _FACTORIES else node.args:
            sizes = value if isinstance(value, tuple) else (value,)
            for k, size in enumerate(sizes):
                is_size = name in ("size", "start", "end", "step") and type(size) is int
                if is_size and size >= least and size not in given:
                    recorder.add(position, name, k, ("created", name, k), size)
    return with_symbols(trace, (recorder.symbols, recorder.numbers))
