"""Memory planned for symbolic sizes: buffers in use at the same time never overlap."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ftm_backend.codegen import allocate_scratchpad
from ftm_backend.ir.tile.kernel_tree import TileDecl
from ftm_backend.midend.analysis.arena_overlaps import ArenaReuse
from ftm_backend.midend.transforms.memory.assign_buffers import DeviceBuffer
from ftm_backend.midend.transforms.memory.best_fit_arena import Arena, region
from ftm_backend.symbolic import ShapeEnv, SymInt, compile_expressions, parse_size
from ftm_backend.target import presets

_HAND = (20, 40)
_OTHERS = ((17, 17), (64, 17), (17, 64), (64, 64), (33, 50))
amounts = st.sampled_from(["{s0}", "{s1}", "{4*s0}", "{s0*s1}", "{s0+s1}", 3, 16, 40, 100, 400])


def _symbols() -> ShapeEnv:
    return ShapeEnv({"s0": (_HAND[0], 2), "s1": (_HAND[1], 2)})


def _numbers(values: list[Any], symbols: ShapeEnv, at: tuple[int, int]) -> list[int] | None:
    """The numbers of sizes for other values of the symbols; None where the guards do not hold."""
    holds = {"==": lambda n: n == 0, "!=": lambda n: n != 0, ">=": lambda n: n >= 0}
    guards = list(symbols.guards.values())
    found = compile_expressions([guard.size for guard in guards], ("s0", "s1"))(*at)
    if not all(holds[guard.relation](n) for guard, n in zip(guards, found, strict=True)):
        return None
    return list(
        compile_expressions(
            [v.text if isinstance(v, SymInt) else str(v) for v in values], ("s0", "s1")
        )(*at)
    )


@settings(max_examples=150, deadline=None)
@example(
    [(1600, 4, 2), (1300, 3, 2), ("{64*s0}", 0, 2), (1280, 1, 2), ("{64*s0}", 2, 2)]
)  # ends before the next for the hints, but not for all values
@given(st.lists(st.tuples(amounts, st.integers(0, 9), st.integers(1, 5)), min_size=2, max_size=8))
def test_tiles_that_live_together_are_apart(given: list[tuple[Any, int, int]]) -> None:
    with _symbols() as symbols, pytest.MonkeyPatch.context() as patch:
        tiles = [
            TileDecl(f"T{k}", "am", "f32", 1, parse_size(str(count)), 1, 4)
            for k, (count, _, _) in enumerate(given)
        ]
        lives = {
            t: set(range(begin, begin + length))
            for t, (_, begin, length) in zip(tiles, given, strict=True)
        }
        intervals = {
            t: SimpleNamespace(
                overlaps=lambda other, mine=t: bool(lives[mine] & lives[other.tile]), tile=t
            )
            for t in tiles
        }
        patch.setattr(allocate_scratchpad, "live_intervals", lambda kernel, distinct: intervals)
        kernel: Any = SimpleNamespace(tiles=tiles)
        assert allocate_scratchpad.fits(kernel, presets.load("host"))
        allocate_scratchpad.place(kernel)
        places = [(t.offset, t.offset + t.bytes) for t in tiles]
    for at in (_HAND, *_OTHERS):
        numbers = _numbers([n for place in places for n in place], symbols, at)
        if numbers is None:
            assert at != _HAND
            continue
        spans = list(zip(numbers[::2], numbers[1::2], strict=True))
        for k, (a, b) in enumerate(spans):
            for j, (c, d) in enumerate(spans[:k]):
                assert b <= c or d <= a or not lives[tiles[k]] & lives[tiles[j]], (at, spans)


@settings(max_examples=150, deadline=None)
@example([(100, 0), (16, 0), ("{s0}", 9), (16, 9), (16, 0), (100, 0)])
# what is left of a region in two pieces
@example([(100, 0), (16, 0), (16, 9), ("{s0}", 9), (16, 9), (100, 0)])
@given(st.lists(st.tuples(amounts, st.integers(0, 5)), min_size=2, max_size=14))
def test_regions_in_use_are_apart_and_know_who_was_there(given: list[tuple[Any, int]]) -> None:
    with _symbols() as symbols:
        arena, owners = Arena(), ArenaReuse()
        taken: list[tuple[DeviceBuffer, int]] = []  # and until when it is in use
        for now, (count, length) in enumerate(given):
            for buffer, until in taken:
                if until == now:
                    arena.free(buffer.offset, buffer.count)
            buffer = DeviceBuffer(dtype="f32", shape=(parse_size(str(count)),))
            buffer.offset = arena.allocate(buffer.count)
            buffer.before += owners.take(
                buffer.offset, buffer.offset + region(buffer.count), buffer
            )
            taken.append((buffer, now + 1 + length))
        places = [n for b, _ in taken for n in (b.offset, b.offset + region(b.count))]
    for at in (_HAND, *_OTHERS):
        numbers = _numbers(places, symbols, at)
        if numbers is None:
            assert at != _HAND
            continue
        spans = list(zip(numbers[::2], numbers[1::2], strict=True))
        for k, (buffer, _) in enumerate(taken):
            byte_owner: dict[int, DeviceBuffer] = {}
            for j in range(k):
                if spans[j][0] < spans[k][1] and spans[k][0] < spans[j][1]:
                    assert taken[j][1] <= k, "two that are in use share a byte"
                byte_owner.update(
                    dict.fromkeys(range(spans[j][0] // 64, spans[j][1] // 64), taken[j][0])
                )
            last = {
                byte_owner[b]
                for b in range(spans[k][0] // 64, spans[k][1] // 64)
                if b in byte_owner
            }
            assert last <= set(buffer.before)
