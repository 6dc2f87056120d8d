"""Passes of the midend, by what they change: tensors, kernels, memory."""
