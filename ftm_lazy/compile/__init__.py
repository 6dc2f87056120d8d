"""From a trace to a loaded program: the compile client, worker processes, the disk cache and
compile statistics."""
