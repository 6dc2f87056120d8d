"""Upstream's own ways from our torch dialect: to TOSA and StableHLO, and through LLVM to something
that runs.

Nothing of the midend, of code generation or of the machine takes part, so what these ways give is
an independent opinion, and what they take is what other compilers can take from us.
"""
