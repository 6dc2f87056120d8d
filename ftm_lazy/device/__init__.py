"""The device as PyTorch sees it from Python: registration and the module `torch.ftm`."""
