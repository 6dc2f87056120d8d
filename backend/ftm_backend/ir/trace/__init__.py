"""Trace IR: the operations that the recorder captured, one node per PyTorch op."""
