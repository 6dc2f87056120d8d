"""Linalg IR: loop nests on tensors, built by the frontend and transformed by the midend.

The records are plain Python data (``function``) that print as MLIR's ``linalg`` dialect
(``printer``) and are read back from it (``reader``). The compiler does not work on MLIR's own
objects for two reasons: creating or inspecting one from Python takes tens of microseconds, so a
program of a thousand operations would spend its compile time there, and MLIR types cannot hold a
symbolic size.
"""
