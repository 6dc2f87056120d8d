"""The front doors: `torch.compile`, exported programs, scripted modules, and `FTMCompiler` for all
of them.

Each is run on placeholders of the device, so that the recorder makes its trace by the rules of the
lazy device; from there on the way is one. See ``docs/frontends.md``.
"""
