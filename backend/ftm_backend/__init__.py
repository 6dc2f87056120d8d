"""The compiler and the machine: a trace, MLIR or assembly in, an executable out; without torch."""
