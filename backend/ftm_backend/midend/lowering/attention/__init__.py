"""Kernels that are an attention, or its gradients."""
