"""Passes that order kernels, assign DDR buffers, and outline kernels as functions."""
