"""Schedules: tiling, loop order and memory placement of each kernel, chosen by the cost model.

Lowering turns a kernel and its schedule into tile IR.
"""
