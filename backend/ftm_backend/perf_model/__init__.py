"""The performance model: cycles and memory traffic of a program on a machine.

All figures are modelled; nothing is measured.
"""
