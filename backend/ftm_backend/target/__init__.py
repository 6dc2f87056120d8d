"""The machine: instruction table, element types, address spaces, presets and macro expansions.

Every part of the compiler may import it; it imports nothing of the compiler.
"""
