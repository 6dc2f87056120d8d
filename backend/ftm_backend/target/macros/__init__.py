"""Macros: expansions of instructions into the primitive operations of the machine.

A machine of this family loads and stores vectors, multiplies and adds, compares, moves under a
predicate, shuffles lanes, and transfers data by DMA. Every other instruction of the table is a
*macro*: its row names a function of this package that expresses it by those operations. Tests
compare expansions with their macros, the cycle model charges them, and ``docs/expansions.md`` shows
them.

``macro_builder`` records the expansion of an operation inside of ``@map``; ``macro_simulator``
executes and times the expansion of any other instruction.
"""
