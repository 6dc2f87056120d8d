"""The device's Python interface to PyTorch: registration and the module `torch.ftm`."""
