"""Schedules of attention, forward and backward."""
