"""Channel normalizations as linalg programs."""

from __future__ import annotations

from midend.linalg_text import Function


def channels_backward(
    f: Function, images: int, channels: int, length: int, dtype: str = "f32"
) -> str:
    """The backward of a channel normalization: two sums of each channel, and their summands."""
    kind, stat, one = f"{images}x{channels}x{length}x{dtype}", f"{channels}x{dtype}", dtype
    x, dy, w = f.argument(kind), f.argument(kind), f.argument(stat)
    zero = f.fill(f.constant("0.0", one), stat)
    places = [(dy, "n, c, l"), (x, "n, c, l")]
    s1 = f.generic(
        "n c l",
        places[:1],
        (zero, "c"),
        f"%r = arith.addf %x, %a : {one}\n linalg.yield %r : {one}",
        "n l",
    )
    body = (
        f"%p = arith.mulf %a, %b : {one}\n %r = arith.addf %x, %p : {one}\n linalg.yield %r : {one}"
    )
    s2 = f.generic("n c l", places, (zero, "c"), body, "n l")
    return f.map(
        kind,
        [(dy, "i, j, k"), (x, "i, j, k"), (s1, "j"), (s2, "j"), (w, "j")],
        f"%p = arith.mulf %b, %d : {one}\n %q = arith.addf %p, %c : {one}\n %s = arith.mulf %q, %e : {one}\n"
        f"%r = arith.subf %a, %s : {one}\n linalg.yield %r : {one}",
    )
