"""Kernels that are matrix products, convolutions and their gradients."""
