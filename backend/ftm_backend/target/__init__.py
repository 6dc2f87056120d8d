"""What the machine can do: the instruction table, the element types and spaces that it speaks of,
and what macros stand for.

Every part of the compiler may read it; it knows nothing but the machines' parameters.
"""
