"""Campaigns of generated programs: what users might write and nobody listed. See ``run.py``."""
