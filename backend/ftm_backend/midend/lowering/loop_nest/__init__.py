"""Kernels that are loop nests: elementwise work, broadcasts, reductions, and nests over windows in
strips."""
