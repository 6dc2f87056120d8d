"""Generators of ``docs/isa.md`` and ``docs/expansions.md`` from the instruction table."""
