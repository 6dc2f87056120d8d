"""All pages begin with what a reader will be able to do, have short sentences, and none of the words
that make a reader stop.

python tests/docs/test_prose.py     # the figures of each page
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "SECURITY", "CONTRIBUTING", "CHANGELOG")),
    *sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts),
]
FRONTS = {
    *(ROOT / f"{name}.md" for name in ("README", "SECURITY", "CHANGELOG")),
    *(DOCS / f"{name}.md" for name in ("index", "changelog", "contributing")),
}
"""Pages that introduce the project, or that include another page."""
MOST_WORDS = 20
STOPS = re.compile(
    r"\b(?:beside|alike|nobody|hangs? on|of which|as far as|is told|are told|whom|whoever)\b",
    re.IGNORECASE,
)


def sentences(text: str) -> list[list[str]]:
    """The words of each sentence of the running text: no code, tables, headings or lists of links."""
    text = re.sub(r"^```.*?^```$|^<!--.*?-->$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    lines = [
        line for line in text.splitlines() if not line.lstrip().startswith(("|", "#", "```", "<"))
    ]
    found = []
    for paragraph in "\n".join(lines).split("\n\n"):
        for item in re.split(r"\n\s*(?:[-*]|\d+\.) ", f"\n{paragraph}"):
            for sentence in re.split(r"(?<=[.?!:])\s+(?=[A-Z`*\[])", item.strip()):
                words = re.findall(r"`[^`]*`|[\w'-]+", sentence)
                if len(words) > 2:
                    found.append(words)
    return found


def figures(path: Path) -> tuple[float, int, list[str]]:
    """Mean and longest sentence in words, and the words that stop."""
    text = path.read_text()
    lengths = [len(words) for words in sentences(text)] or [0]
    return sum(lengths) / len(lengths), max(lengths), STOPS.findall(text)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_sentences_are_short_and_plain(path: Path) -> None:
    mean, _, stops = figures(path)
    assert mean <= MOST_WORDS and stops == []


@pytest.mark.parametrize(
    "path",
    [path for path in PAGES if path not in FRONTS],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_pages_begin_with_what_the_reader_will_be_able_to_do(path: Path) -> None:
    text = re.sub(r"<!--.*?-->\n\n", "", path.read_text(), flags=re.DOTALL)
    assert re.match(r"# .*\n\nAfter this (?:page|tutorial) ", text)


if __name__ == "__main__":
    for page in PAGES:
        mean, longest, stops = figures(page)
        print(f"{page.relative_to(ROOT)!s:45} {mean:5.1f} {longest:4}  {stops or ''}")
