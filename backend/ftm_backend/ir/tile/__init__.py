"""The tile level: what kernels become before registers are known.

A kernel is a tree of loops and instructions (``tree``). Instructions are those of the matrix
assembly, but addresses, extents and slots are index expressions (``index``) instead of registers;
loops are loops. Lowerings write it with a ``builder``; it prints and is read back as text
(``text``).
"""
