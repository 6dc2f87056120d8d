"""The machine: an emulator of the assembly behind `Machine`, which is loaded on first use."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ftm_backend.machine.emulator import LoadedProgram, Machine, MachineError

__all__ = ["LoadedProgram", "Machine", "MachineError"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ftm_backend.machine import emulator

    return getattr(emulator, name)
