"""Programs that were not written for ftm, cut down to their loops: each makes its model and gives
the run that is measured.

A program takes a device and returns a function without arguments; what that returns can be read as
a number. Everything is seeded by the caller, sizes are the original's or smaller where those take
minutes, and data is made, not loaded.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from . import generation, graphs, images, language, loops, pieces, recurrent, rewards

__all__ = ["PROGRAMS", "Program"]

Program = Callable[[str], Callable[[], Tensor]]

PROGRAMS: dict[str, Program] = {
    name: program
    for module in (language, recurrent, rewards, loops, graphs, images, generation, pieces)
    for name, program in module.PROGRAMS.items()
}
