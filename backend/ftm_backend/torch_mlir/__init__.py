"""Conversions by upstream MLIR from our torch dialect: TOSA, StableHLO, and execution by LLVM.

They use neither midend nor code generation nor machine. So their results are an independent check,
and programs that they accept are programs that other compilers accept from us.
"""
