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

_COST = Cost((("SBR", 1),), 1)

_EXAMPLE = InstructionExample(
    "  @tile X, am, f32, 1x4, 1, 0\n"
    "    DLD b0[0], 1@1 | 4@1, X\n"
    "    DWAITALL\n"
    "    DST X, o0[0], 1@1 | 4@1\n"
    "    DWAITALL\n"
    "    ALLREDUCE.ADD o0[0], 4, s0\n"
    "    CWAIT s0\n",
    {"b0": ("f32", (4,), [1, 2, 3, 4])},
    {"o0": ("f32", (4,), [1, 2, 3, 4])},
    {"s0": ("i64", 7)},
)

INSTRUCTIONS = (
    InstructionDef(
        "ALLREDUCE",
        "collective",
        (OperandDef("a", ADDRESS), OperandDef("n", SCALAR), OperandDef("c", SCALAR)),
        "Starts an all-reduce of n elements in place, over the processes of a group: `.ADD`, "
        "`.MUL`, `.MIN`, `.MAX`, or `.AVG`, the sum divided by the number of processes. c is the "
        "number of the collective. The caller of the program chooses it, a new one for each run, "
        "and knows by it the group and the time limit; 0 is a group of this process alone. "
        "Collectives start in the order in which the program executes them. The elements must not "
        "be read or written before `CWAIT c`. Without a caller that carries out collectives, every "
        "group is this process alone, as in the example.",
        "start: for i in 0..n-1: a[i] = a[i] of process 0 (op) a[i] of process 1 (op) ...",
        _COST,
        _EXAMPLE,
        suffixes=(("ADD", "MUL", "MIN", "MAX", "AVG"),),
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
