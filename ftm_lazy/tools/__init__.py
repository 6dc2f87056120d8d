"""Command line tools that need PyTorch; those that do not are in `ftm_backend.tools`."""
