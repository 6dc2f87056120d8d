"""Lowering: kernels and their schedules become tile IR."""
