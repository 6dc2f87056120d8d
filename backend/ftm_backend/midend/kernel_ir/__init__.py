"""Kernel IR: linalg statements grouped into kernels, with their device buffers."""
