"""Assembly texts that are nearly right: lines and words of good ones, moved, doubled, left out and
replaced."""

from __future__ import annotations

import random
import re

_WORD = re.compile(r"\d+|\w+|[^\w\s]")
_NUMBERS = (
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "64",
    "65",
    "4095",
    "65536",
    str(2**31),
    str(2**63 - 1),
    str(-(2**63)),
    str(2**64),
    "9" * 30,
    "9" * 5000,
    "1e400",
    "nan",
    "-inf",
    "0.0",
    "1" + "0" * 400,
)
_SPECKS = (
    "\x00", "\u0663", "\ud800", "\u2028", "\x85", "é", "\t", "\r", "[", "]", "@", "|", ":", ".",
    ",", "->", "//", "x", "r99", "v70000",
)  # fmt: skip


def mutate(rng: random.Random, corpus: list[str]) -> str:
    """One text made from those of the corpus."""
    lines = rng.choice(corpus).split("\n")
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        rng.choices((_change_word, _change_line, _put_speck), (10, 4, 1))[0](rng, lines, corpus)
    return "\n".join(lines)


def _change_word(rng: random.Random, lines: list[str], corpus: list[str]) -> None:
    at = rng.randrange(len(lines))
    words = list(_WORD.finditer(lines[at]))
    if not words:
        return
    word = rng.choice(words)
    if word[0].isdecimal() and rng.random() < 0.6:
        put = (
            rng.choice(_NUMBERS)
            if rng.random() < 0.5
            else str(int(word[0][:20]) + rng.choice((-1, 1, 8)))
        )
    else:
        others = _WORD.findall(rng.choice(rng.choice(corpus).split("\n")))
        put = rng.choice(others) if others else ""
    lines[at] = lines[at][: word.start()] + put + lines[at][word.end() :]


def _change_line(rng: random.Random, lines: list[str], corpus: list[str]) -> None:
    at, how = rng.randrange(len(lines)), rng.random()
    if how < 0.25 and len(lines) > 1:
        del lines[at]
    elif how < 0.5:
        lines.insert(at, rng.choice(lines))
    elif how < 0.75:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines.insert(at, rng.choice(rng.choice(corpus).split("\n")))


def _put_speck(rng: random.Random, lines: list[str], corpus: list[str]) -> None:
    at = rng.randrange(len(lines))
    place = rng.randint(0, len(lines[at]))
    lines[at] = lines[at][:place] + rng.choice(_SPECKS) + lines[at][place:]
