"""Passes on linalg: rewrite tensor operations before fusion."""
