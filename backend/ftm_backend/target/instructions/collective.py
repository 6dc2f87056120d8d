"""Collective instructions: communication with the other processes of a group.

A collective starts, and later instructions run at the same time, until one waits for it. The
program's caller carries it out (``ftm_collectives`` in ``ftm_machine.h``).
"""

from __future__ import annotations

from ftm_backend.target.instruction import (
    ADDRESS,
    SCALAR,
    Cost,
    InstructionDef,
    InstructionExample,
    OperandDef,
)

COLLECTIVE_KINDS = (
    "ALLREDUCE",
    "BROADCAST",
    "REDUCE",
    "ALLGATHER",
    "REDUCESCATTER",
    "ALLTOALL",
    "GATHER",
    "SCATTER",
    "SEND",
    "RECV",
)
"""In the order of ``enum ftm_collective_kind``."""

_COST = Cost((("SBR", 1),), 1)

_EXAMPLE = InstructionExample(
    "    CSTART.ALLREDUCE.ADD o0[0], 4, b0[0], 4, s0\n    CWAIT s0\n",
    {"b0": ("f32", (4,), [1, 2, 3, 4])},
    {"o0": ("f32", (4,), [1, 2, 3, 4])},
    {"s0": ("i64", 7)},
)

INSTRUCTIONS = (
    InstructionDef(
        "CSTART",
        "collective",
        (
            OperandDef("y", ADDRESS),
            OperandDef("n", SCALAR),
            OperandDef("x", ADDRESS),
            OperandDef("m", SCALAR),
            OperandDef("c", SCALAR),
        ),
        "Starts a collective over the processes of a group. Each contributes m elements of x, and "
        "gets n elements y. `.ALLREDUCE` and `.REDUCESCATTER` combine the elements of all "
        "processes, and each gets all of the results, or its part of them. `.REDUCE` combines them "
        "for one process; the others get their own x. They combine by `.ADD`, `.MUL`, `.MIN`, "
        "`.MAX`, or `.AVG`, the sum divided by the number of processes. `.BROADCAST` gives each "
        "process the elements of one of them, and `.ALLGATHER` those of all processes, one after "
        "the other. `.ALLTOALL` sends a part of x to each process. `.GATHER` is `.ALLGATHER` for "
        "one process, and `.SCATTER` its inverse. `.SEND` sends x to one process, which gets it "
        "by `.RECV`. A process that gets nothing has n = 0. One that contributes nothing gives "
        "elements that are not read. c is the number of the "
        "collective. The caller of the program chooses it, a new one for each run, and knows by "
        "it the group, the other process or the root, the sizes of parts and "
        "the time limit; 0 is a group of this process alone. Collectives start in the order in "
        "which the program executes them. x may be overwritten at once; y must not be read or "
        "written before `CWAIT c`. If the program does not wait for c, the collective is in flight "
        "when it ends, and the caller waits. Without a caller that carries out collectives, every "
        "group is this process alone, as in the example.",
        "start: y[0..n-1] = x[0..m-1] of all processes, combined, gathered or exchanged",
        _COST,
        _EXAMPLE,
        suffixes=(COLLECTIVE_KINDS, ("ADD", "MUL", "MIN", "MAX", "AVG")),
    ),
    InstructionDef(
        "CWAIT",
        "collective",
        (OperandDef("c", SCALAR),),
        "Waits until collective c is complete. If it failed, because a process ended or a time "
        "limit passed, the program faults.",
        "wait for collective c",
        _COST,
        _EXAMPLE,
    ),
)
