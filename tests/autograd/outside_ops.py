"""Ops of another library: a plain one, and one of each kind that needs op traits.

The kinds: indices, shapes from numbers, random draws, and numbers with a domain.
"""

import torch

_library = torch.library.Library("outside", "DEF")
_library.define("bent(Tensor self, Scalar slope) -> Tensor")
_library.define("scaled(Tensor self, float by, Scalar most) -> Tensor")
_library.define("pick_rows(Tensor self, Tensor index) -> Tensor")
_library.define("ramp(Tensor self, Scalar end) -> Tensor")
_library.define(
    "noise(Tensor self, *, Generator? generator=None) -> Tensor",
    tags=(torch.Tag.nondeterministic_seeded,),
)
_library.define(
    "spread(Tensor self, float from, float to, *, Generator? generator=None) -> Tensor",
    tags=(torch.Tag.nondeterministic_seeded,),
)


def _scaled(self: torch.Tensor, by: float, most: float) -> torch.Tensor:
    if most < 0:
        raise ValueError("nothing is at most a negative number's size")
    return (self * by).clamp(-most, most)


_library.impl("bent", lambda self, slope: torch.where(self > 0, self, self * slope), "CPU")
_library.impl("bent", lambda self, slope: torch.empty_like(self), "Meta")
_library.impl("scaled", _scaled, "CPU")
_library.impl("scaled", lambda self, by, most: torch.empty_like(self), "Meta")
_library.impl("pick_rows", lambda self, index: self.index_select(0, index), "CPU")
_library.impl(
    "pick_rows", lambda self, index: self.new_empty((*index.shape, *self.shape[1:])), "Meta"
)
_library.impl("ramp", lambda self, end: self + torch.arange(int(end), dtype=self.dtype), "CPU")
_library.impl("ramp", lambda self, end: self.new_empty((int(end),)), "Meta")
_library.impl(
    "noise", lambda self, generator=None: torch.rand(self.shape, generator=generator), "CPU"
)
_library.impl("noise", lambda self, generator=None: self.new_empty(self.shape), "Meta")
_library.impl(
    "spread",
    lambda self, low, high, generator=None: torch.empty_like(self).uniform_(
        low, high, generator=generator
    ),
    "CPU",
)
_library.impl("spread", lambda self, low, high, generator=None: torch.empty_like(self), "Meta")
