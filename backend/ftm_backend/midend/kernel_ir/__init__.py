"""Kernel IR: linalg statements in kernels, and their DDR buffers."""
