"""Frontends: `torch.compile`, exported programs, scripted modules, and `FTMCompiler` for all.

Each frontend runs the model on placeholder tensors of the device. The recorder makes the trace by
the rules of the lazy device, so everything after it is shared. See ``docs/frontends.md``.
"""
