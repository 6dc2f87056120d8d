"""The recorder's folders: each includes only from those below it, and no two units include one
another."""

from __future__ import annotations

import re

import pytest

from layers import dependencies, named_ops

LAYERS = (
    "support", "random", "memory", "graph", "ops", "tensor", "program", "reference", "execute", "partition", "compile", "sync",
    "distributed", "shape_inference", "eager_checks", "dispatch", "kernels", "nn", "layouts", "quantized", "capture", "torch",
)  # fmt: skip
"""From the lowest up, as in docs/layers.md."""

DECLARED = re.compile(
    r"^(?!using|template|inline)(?:\[\[noreturn\]\] )?\w[\w:<>,&* ]*?[ &*](\w+)\([^{};]*\)(?: noexcept)?;",
    re.MULTILINE,
)
"""A function that a header declares and does not define."""


def test_every_folder_has_its_floor() -> None:
    folders = {path.name for path in dependencies.RECORDER.iterdir() if path.is_dir()}
    assert folders == set(LAYERS)
    described = re.findall(
        r"^\| `csrc/(\w+)/` \|",
        (dependencies.ROOT / "docs" / "layers.md").read_text(),
        re.MULTILINE,
    )
    assert tuple(described) == LAYERS


def test_includes_go_down() -> None:
    upward = [
        f"{path} includes {header}"
        for path, header in dependencies.includes()
        if LAYERS.index(header.parts[0]) > LAYERS.index(path.parts[0])
    ]
    assert upward == []


def test_units_include_in_no_circle() -> None:
    assert dependencies.cycle(dependencies.unit_edges()) == []


def test_quoted_includes_are_found() -> None:
    """What is quoted is the recorder's own, by its path from csrc/, or the machine's interface."""
    lost = [
        f"{path.relative_to(dependencies.ROOT)} includes {name}"
        for path in sorted(dependencies.RECORDER.rglob("*.*"))
        for name in dependencies.INCLUDE.findall(path.read_text())
        if not (dependencies.RECORDER / name).is_file() and name != "ftm_machine.h"
    ]
    assert lost == []


@pytest.mark.parametrize(
    "header", sorted(dependencies.RECORDER.rglob("*.h")), ids=lambda path: path.stem
)
def test_declared_and_defined_under_one_name(header) -> None:
    names = set(DECLARED.findall(header.read_text()))
    source = header.with_suffix(".cpp")
    text = source.read_text() if source.exists() else ""
    missing = [
        name for name in names if not re.search(rf"^(?:[^\s/#].*)?\b{name}\(", text, re.MULTILINE)
    ]
    assert missing == []


def test_a_circle_is_seen() -> None:
    assert dependencies.cycle({("a", "b"), ("b", "c"), ("d", "a")}) == []
    assert dependencies.cycle({("a", "b"), ("b", "c"), ("c", "b")}) == ["b", "c"]


def test_sources_name_few_ops_and_say_why() -> None:
    assert named_ops.found() == {
        path: set(names.split()) for path, (_, names) in named_ops.NAMED.items()
    }
