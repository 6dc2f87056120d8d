"""The records of `outside_ops` and their op traits: all that ftm needs."""

from typing import Any

from ftm_backend.dtypes import FLOATS
from ftm_backend.frontend import scalar_math as e
from ftm_backend.frontend.oplib.advanced_indexing import checked_index
from ftm_backend.frontend.oplib.op_registry import lowering
from ftm_backend.frontend.oplib.op_traits import IndexArguments, ValueDomain, recorded
from ftm_backend.frontend.oplib.philox import RandomStream, element_index
from ftm_backend.frontend.oplib.pointwise import pointwise

recorded("outside::pick_rows", indices=IndexArguments(1, "first"))
recorded("outside::scaled", runtime=("by",), domain=ValueDomain(0, "most"))
recorded("outside::ramp", constants=("end",))
recorded("outside::spread", draws="uniform")

pointwise(
    "outside::bent", lambda self, slope: e.where(self > 0, self, self * slope), FLOATS, "outside"
)
pointwise(
    "outside::scaled",
    lambda self, by, most: e.minimum(e.maximum(self * by, -most), most),
    FLOATS,
    "outside",
)


@lowering("outside::pick_rows", (*FLOATS, "i64"), "outside")
def _pick_rows(b: Any, self: Any, index: Any) -> Any:
    places = b.reshape(index, (*index.shape, 1)).expand(b.result.shape)
    return b.pointwise(
        lambda at: b.extract(self, [checked_index(at, self.shape[0]), b.index(1)]),
        [places],
        b.result,
    )


@lowering("outside::ramp", FLOATS, "outside")
def _ramp(b: Any, self: Any, end: float) -> Any:
    assert b.result.shape == (int(end),)  # a number, not the machine's
    return b.pointwise(
        lambda x: x + b.index(0).to(x.dtype), [self.expand(b.result.shape)], b.result
    )


@lowering("outside::noise", FLOATS, "outside")
def _noise(b: Any, self: Any, seed: Any, offset: Any) -> Any:
    return b.pointwise(lambda: _drawn(b, seed, offset), [], b.result)


@lowering("outside::spread", FLOATS, "outside")
def _spread(b: Any, self: Any, from_: float, to: float, seed: Any, offset: Any) -> Any:
    return b.pointwise(lambda: from_ + _drawn(b, seed, offset) * (to - from_), [], b.result)


def _drawn(b: Any, seed: Any, offset: Any) -> Any:
    stream = RandomStream(seed, offset, element_index(b, b.result.shape))
    return stream.uniform(b.result.dtype)
