"""torch_xla.utils.checkpoint_tagger: tags of checkpoints, and removal of untagged ones."""

from __future__ import annotations

import json
from collections.abc import Callable

__all__ = ["CheckpointTagger"]


class CheckpointTagger:
    """Maps tags, such as "best" and "last", to paths.

    Args:
        remover: Called with a path that has lost its last tag.
    """

    def __init__(self, remover: Callable[[str], object] | None = None) -> None:
        if remover is not None and not callable(remover):
            raise AssertionError("the remover must be callable")
        self._tags: dict[str, str] = {}
        self._remover = remover

    def tag(self, name: str, path: str) -> None:
        """Move the tag `name` to `path`."""
        old = self._tags.get(name)
        self._tags[name] = path
        if old is not None and old not in self._tags.values() and self._remover is not None:
            self._remover(old)

    @property
    def tags(self) -> dict[str, str]:
        """Tag to path."""
        return self._tags

    def save_to_json(self) -> str:
        """Return the tags as JSON."""
        return json.dumps(self._tags)

    @classmethod
    def load_from_json(
        cls, str_json: str, remover: Callable[[str], object] | None = None
    ) -> CheckpointTagger:
        """Create a tagger from the result of `save_to_json`."""
        tagger = cls(remover)
        tagger._tags.update(json.loads(str_json))
        return tagger
