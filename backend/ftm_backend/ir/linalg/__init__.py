"""Linalg on tensors as plain data: what the frontend builds and the midend works on.

MLIR's objects cost tens of microseconds each to make and to question from Python, and their types
cannot name a size that is not known yet; a program of a thousand operations would spend its compile
time on them. So the compiler keeps its own records (``ir``), which print as upstream's ``linalg``
(``printer``) and are read back from it (``reader``).
"""
