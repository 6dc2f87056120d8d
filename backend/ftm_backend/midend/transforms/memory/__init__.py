"""Passes that order kernels, give tensors their device buffers, and outline kernels into
functions."""
