"""What a compilation may be told. Fields marked as such decide what the program is and belong in a
cache key."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

__all__ = ["CompileOptions"]


def _decides(default: object) -> Any:
    """A field that changes the compiled program."""
    return field(default=default, metadata={"cache": True})


@dataclass(frozen=True)
class CompileOptions:
    """Options of one compilation; all of them have defaults."""

    machine: str = _decides("host")
    """Name of the machine preset that the program is tiled for."""

    cores: int = _decides(0)
    """How many cores the cost model counts on; 0 means the preset's. The program runs on any
    number."""

    keep_texts: bool = False
    """Keep the text of every stage in the executable (`Executable.texts`)."""

    dump: str = ""
    """Directory that gets a file ``NN_stage`` for every stage; created if needed.  Empty: none."""

    reproducers: str = ""
    """Directory for the input of a stage that fails. Empty: a private one among the temporary
    files."""

    def __post_init__(self) -> None:
        if self.cores < 0:
            raise ValueError(f"cores must be 0 (the preset's number) or more, not {self.cores}")

    def cache_key(self) -> dict[str, Any]:
        """The options that decide what the program is, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.metadata.get("cache")}
