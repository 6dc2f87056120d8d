"""Lowering of contractions: matrix products, convolutions and their gradients."""
