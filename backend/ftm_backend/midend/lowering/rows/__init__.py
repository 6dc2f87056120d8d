"""Lowering of row kernels: gathers and scatters of whole rows, and scans."""
