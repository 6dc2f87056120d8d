"""Options of a compilation, and which of them belong in a cache key."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TypeVar

from ftm_backend.target import tuning_overrides

_T = TypeVar("_T")


def _decides(default: _T) -> _T:
    """Declare a field that changes the compiled program."""
    return field(default=default, metadata={"cache": True})


@dataclass(frozen=True)
class CompileOptions:
    """Options of one compilation; all of them have defaults."""

    machine: str = _decides("host")
    """Name of the machine preset that the program is tiled for."""

    cores: int = _decides(0)
    """Cores that the cost model assumes; 0: the preset's number. The program runs on any number."""

    tune: str = _decides("")
    """Choices that the user makes instead of the cost model (`target/tuning_overrides.py`)."""

    keep_texts: bool = False
    """Keep the text of every stage in the executable (`Executable.texts`)."""

    dump: str = ""
    """Directory for a file ``NN_stage`` for every stage, created if needed; empty: none."""

    dump_diffs: bool = False
    """With ``dump``: also write ``NN_stage.diff`` for each stage that changes the text of the stage
    before it."""

    reproducers: str = ""
    """Directory for the input of a stage that fails; empty: a private temporary directory."""

    def __post_init__(self) -> None:
        """Check ``cores`` and ``tune``."""
        tuning_overrides.parse(self.tune)
        if self.cores < 0:
            raise ValueError(f"cores must be 0 (the preset's number) or more, not {self.cores}")

    def cache_key(self) -> dict[str, object]:
        """Return the options that change the compiled program, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.metadata.get("cache")}
