"""Lowering: kernels and their schedules become tile IR, one package per kind of kernel."""
