"""Intermediate representations, in the order of compilation: trace, linalg, kernel, tile, asm.

Each folder defines one representation, prints it, reads it back and verifies it. Nothing here
transforms a program.
"""
