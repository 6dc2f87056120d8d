"""Tile IR: a kernel as loops and instructions on tiles, before registers are allocated.

A kernel is a tree (``kernel_tree``). Its instructions are those of the assembly, but loops are
loops, and addresses, extents and slots are index expressions (``index_expr``) instead of registers.
Lowerings write it with ``builder``; ``printer`` and ``reader`` convert it to and from text.
"""
