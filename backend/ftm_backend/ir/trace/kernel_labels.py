"""Labels of kernels after the operations that they compute, such as ``convolution+relu``.

The recorder makes the same labels for profiles (csrc/torch/profile_events.cpp).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ftm_backend.ir.trace.trace import Trace

_MOST_OPS = 6
_PREFIXES = ("native_", "cudnn_", "_")


def short_name(op: str) -> str:
    """Return an operation's name without namespace, overload and PyTorch's internal prefixes."""
    name = op.rpartition(":")[2].partition(".")[0]
    for prefix in _PREFIXES:
        if name.startswith(prefix) and name != prefix:
            name = name.removeprefix(prefix)
    return name


def label(ops: Iterable[str]) -> str:
    """Return the label of a kernel that computes these operations, in the order of the trace."""
    names = list(dict.fromkeys(map(short_name, ops)))
    return "+".join(names[:_MOST_OPS]) + "+..." * (len(names) > _MOST_OPS)


def kernel_labels(trace: Trace, call_ops: Sequence[Sequence[int]]) -> list[str]:
    """Return the label of each kernel.

    Args:
        trace: The trace.
        call_ops: For each kernel the numbers of its operations (`Trace.op_numbers`).
    """
    names = [
        node.op
        for node, number in zip(trace.nodes, trace.op_numbers(), strict=True)
        if number is not None
    ]
    return [label(names[op] for op in sorted(ops)) for ops in call_ops]
