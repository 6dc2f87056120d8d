"""torch.distributed's backend for tensors on ftm."""
