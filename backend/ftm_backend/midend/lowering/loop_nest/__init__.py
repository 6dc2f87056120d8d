"""Lowering of loop nests: elementwise ops, broadcasts, reductions, pooling and transposes."""
