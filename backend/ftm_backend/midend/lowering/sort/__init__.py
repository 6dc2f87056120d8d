"""Lowering of sorts."""
