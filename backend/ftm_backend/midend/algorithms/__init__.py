"""Algorithms of named operations: one module each; `registry` lists them."""
