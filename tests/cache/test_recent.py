"""The compiler's LRU caches stay bounded by size, by number of entries and by age."""

from __future__ import annotations

from ftm_backend import driver
from ftm_backend.codegen import function_cache
from ftm_backend.ir.trace import parsed_line_cache
from ftm_backend.lru import KEPT_PROGRAMS, LRUCache, ProgramClock
from ftm_backend.midend.transforms.fusion import fusion_cache


def test_size_and_number_are_bounded() -> None:
    by_size: LRUCache[str] = LRUCache(10)
    for k in range(5):
        by_size.put(k, str(k), 4)
    assert [by_size.get(k) for k in range(5)] == [None, None, None, "3", "4"]
    by_number: LRUCache[str] = LRUCache(1000, most_entries=2)
    assert by_number.put("a", "A", 1) == by_number.put("b", "B", 1) == []
    by_number.get("a")
    assert by_number.put("c", "C", 1) == ["B"], "what was used last stays"
    assert by_number.put("a", "D", 1) == [], "a new value for a key drops no other"
    assert (by_number.pop("a"), by_number.pop("a"), len(by_number)) == ("D", None, 1)


def test_entries_that_no_program_uses_are_dropped() -> None:
    clock = ProgramClock()
    cache: LRUCache[int] = LRUCache(1000, kept_programs=3, clock=clock)
    cache.put("once", 1, 1)
    cache.put("always", 2, 1)
    for k in range(5):
        clock.tick()
        assert cache.get("always") == 2
        cache.put(k, k, 1)
    assert cache.get("once") is None
    assert [cache.get(k) for k in range(5)] == [None, None, 2, 3, 4]


def test_the_compiler_keeps_nothing_of_programs_long_ago() -> None:
    """Different programs, one after the other, leave as much behind as the last 256 of them."""
    caches = (
        function_cache.KNOWN,
        fusion_cache._RESULTS,
        parsed_line_cache._SPECS,
    )

    def compile_many(first: int, last: int) -> list[int]:
        for k in range(first, last):
            scale = f"aten::mul.Scalar(self=%0, other={k}.5)"
            driver.compile(f"trace\n  %0 = param f32[4]\n  %1 = {scale} : f32[4]\n  return %1\n")
        return [len(cache) for cache in caches]

    before = compile_many(0, KEPT_PROGRAMS)
    after = compile_many(KEPT_PROGRAMS, KEPT_PROGRAMS + 40)
    assert all(new <= old for new, old in zip(after, before, strict=True)), (before, after)
