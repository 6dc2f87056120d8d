"""torch.distributed on ftm tensors."""
