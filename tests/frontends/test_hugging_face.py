"""The two smallest of the models in `hugging_face.py` through every door, and the table of all of
them."""

from __future__ import annotations

import json

import pytest

from frontends import hugging_face


@pytest.mark.parametrize("name", ("GPT-2", "ResNet"))
def test_every_door(name: str) -> None:
    found = hugging_face.check(name)
    assert tuple(found) == hugging_face.DOORS and not hugging_face.unexpected(name, found)
    assert found["torch.compile"] == found["package"] == found["validate"] == "right"


def test_all_models_are_published() -> None:
    published = json.loads(hugging_face.PUBLISHED.read_text())
    assert {name: tuple(found) for name, found in published.items()} == dict.fromkeys(
        hugging_face.MODELS, hugging_face.DOORS
    )
