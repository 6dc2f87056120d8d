"""Lowering of attention, forward and backward."""
