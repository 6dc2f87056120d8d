"""Kernels that sort."""
