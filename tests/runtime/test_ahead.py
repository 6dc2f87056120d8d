"""What is announced is made by several threads, in order, and handed over once."""

from __future__ import annotations

import threading
import time

import pytest

from ftm_lazy.compile.lookahead import Lookahead


def eventually(condition) -> bool:
    end = time.monotonic() + 60.0
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    return condition()


def test_two_are_made_at_once_and_others_wait_for_them():
    both = threading.Barrier(2, timeout=60.0)

    def make(request: str) -> str:
        both.wait()
        return request.upper()

    ahead = Lookahead(make, 2)
    ahead.announce([(f"k{k}", frozenset({str(k)}), letter) for k, letter in enumerate("abcd", 1)])
    assert [ahead.take(f"k{k}") for k in (1, 2, 3, 4)] == ["A", "B", "C", "D"]
    assert ahead.take("k1") is None, "it was handed over"
    assert ahead.take("never") is None


def test_similar_pieces_are_made_one_by_one_in_order():
    at_work, made = [], []

    def make(request: int) -> int:
        at_work.append(request)
        assert len(at_work) == 1
        time.sleep(0.02)
        at_work.remove(request)
        made.append(request)
        return request

    ahead = Lookahead(make, 2)
    ahead.announce([(str(k), frozenset({"mm", "relu", f"{k}"}), k) for k in range(4)])
    assert [ahead.take(str(k)) for k in range(4)] == [0, 1, 2, 3]
    assert made == [0, 1, 2, 3]


def test_what_fails_fails_for_who_asks_and_nothing_else_does():
    def make(request: int) -> int:
        if request == 1:
            raise ValueError("number 1")
        return request

    ahead = Lookahead(make, 2)
    ahead.announce([(str(k), frozenset({f"{k}"}), k) for k in range(3)])
    assert ahead.take("0") == 0
    with pytest.raises(ValueError, match="number 1"):
        ahead.take("1")
    assert ahead.take("1") is None, "who asks again makes it"
    assert ahead.take("2") == 2


def test_the_caller_makes_what_has_not_begun():
    blocked = threading.Event()
    ahead = Lookahead(lambda request: blocked.wait(10.0) and request, 2)
    ahead.announce([(str(k), frozenset({f"{k}"}), k) for k in range(3)])
    assert eventually(lambda: sum(not piece.is_waiting for piece in ahead._sets[0].pieces) == 2)
    assert ahead.take("2") is None
    blocked.set()
    assert ahead.take("1") == 1


def test_what_two_threads_announce_is_made_once():
    made = []
    blocked = threading.Event()

    def make(request: int) -> int:
        blocked.wait(10.0)
        made.append(request)
        return request

    ahead = Lookahead(make, 2)
    for _ in range(2):
        ahead.announce([("k", frozenset("a"), 1), ("l", frozenset("b"), 2)])
    blocked.set()
    assert (ahead.take("k"), ahead.take("l")) == (1, 2)
    assert sorted(made) == [1, 2] and not ahead._sets


def test_with_one_process_nothing_is_made_ahead():
    ahead = Lookahead(lambda request: request, 0)
    ahead.announce([("k", frozenset("a"), 1), ("l", frozenset("b"), 2)])
    assert ahead.take("k") is None
