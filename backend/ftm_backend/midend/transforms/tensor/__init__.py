"""Passes on linalg: rewrite tensor operations before they are grouped into kernels."""
