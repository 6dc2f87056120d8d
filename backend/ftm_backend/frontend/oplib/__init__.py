"""Building blocks of op records: the record itself, schema annotations, and shared lowerings."""
