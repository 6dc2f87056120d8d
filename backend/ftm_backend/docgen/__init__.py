"""Writes the manual of the assembly, ``docs/isa.md`` and ``docs/expansions.md``, from the
instruction table."""
