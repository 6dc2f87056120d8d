"""From a trace to a machine image: compile client, worker processes, disk cache, statistics."""
