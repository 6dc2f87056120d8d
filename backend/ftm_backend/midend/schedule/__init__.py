"""Schedules: how a kernel is tiled and ordered for a machine, chosen by the cost model before it is
lowered."""
