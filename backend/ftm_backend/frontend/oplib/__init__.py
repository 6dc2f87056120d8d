"""Building blocks of op records: the record itself, op traits, and shared lowerings."""
