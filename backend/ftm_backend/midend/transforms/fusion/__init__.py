"""Passes that form kernels and fuse producers, consumers and siblings into them."""
