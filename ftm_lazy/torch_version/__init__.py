"""What depends on PyTorch's version: the supported set, the check, and PyTorch's private names.

Everything else in ``ftm_lazy`` uses PyTorch's public interface or imports from here, so a new
version of PyTorch is a change of this folder (and of ``csrc/support/torch_version.h`` for the C++).
"""
