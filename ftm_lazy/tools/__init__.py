"""Command line tools that need PyTorch; the others are in `ftm_backend.tools`."""
