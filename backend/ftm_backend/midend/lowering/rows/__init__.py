"""Kernels that move whole rows, and running combinations along them."""
