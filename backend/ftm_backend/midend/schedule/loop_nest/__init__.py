"""Schedules of loop nests: elementwise ops, broadcasts, reductions and pooling."""
