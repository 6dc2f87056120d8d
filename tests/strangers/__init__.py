"""Campaigns of generated programs, which no test lists. See ``run.py``."""
