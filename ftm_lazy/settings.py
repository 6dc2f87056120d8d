"""Settings of ftm: environment variable, type, default and one line of documentation each.

`current()` reads the environment when the device is first used, and only then. `table()` generates
the table in ``docs/settings.md``.
"""

from __future__ import annotations

import difflib
import functools
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TypeVar

from ftm_backend.target import presets, tuning_overrides

__all__ = ["DEBUG_KEYS", "Settings", "SettingsError", "current", "parse_size", "read", "table"]

DEBUG_KEYS = {
    "compile": "Print a line for each program: compiled or cached, its size, and the time.",
    "data": "With FTM_DUMP: also write the inputs and outputs of each program's first run, for "
    "`ftm run`.",
    "diff": "With FTM_DUMP: also write a file `NN_stage.diff` for each pass that changes the "
    "program.",
    "locations": "Record the Python line of every operation, for explanations and errors. Without "
    "it, only operations with indices that may be out of range have one.",
    "recompile": "Warn on each compile with the reason: the difference from the nearest earlier "
    "trace, with its Python line.",
    "worker": "Pass the compiler process's stderr through.",
}
"""The words of FTM_DEBUG and their effects."""

_UNITS = ["", "K", "M", "G", "T"]


class SettingsError(ValueError):
    """An environment variable has an invalid value; the message lists the valid ones."""


def _switch(text: str) -> bool:
    if text.lower() in ("1", "true", "on", "yes"):
        return True
    if text.lower() in ("0", "false", "off", "no"):
        return False
    raise ValueError("valid values: 1 or 0")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("valid values: whole numbers from 1")
    return int(text)


def _count_or_none(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("valid values: whole numbers; 0 for never")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ValueError("valid values: seconds, more than 0")
    return value


def _large(text: str, kilo: int) -> int | None:
    """Return a whole number, or one with K, M, G or T; None for anything else."""
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].isalpha() else (text, "")
    if not number.isdecimal() or len(number) > 18 or unit not in _UNITS:
        return None
    return int(number) * kilo ** _UNITS.index(unit)


def parse_size(text: str) -> int:
    """Return a number of bytes, such as 500M; ValueError for anything else."""
    value = _large(text, 1024)
    if value is None:
        raise ValueError("valid values: bytes, or a whole number with K, M, G or T, such as 500M")
    return value


def _instructions(text: str) -> int:
    value = _large(text, 1000)
    if not value or value >= 1 << 63:
        raise ValueError("valid values: whole numbers from 1, or with K, M, G or T, such as 500G")
    return value


def _debug(text: str) -> frozenset[str]:
    if text in ("0", "off"):
        return frozenset()
    if text in ("1", "all"):
        return frozenset(DEBUG_KEYS)
    keys = frozenset(word.strip() for word in text.split(","))
    if not keys <= DEBUG_KEYS.keys():
        raise ValueError(
            f"valid values: 1 for all, or a list with commas of {', '.join(DEBUG_KEYS)}"
        )
    return keys


def _directory(text: str) -> Path | None:
    return None if text.lower() == "off" else _expanded(text)


def _expanded(text: str) -> Path:
    """Replace ``~`` by the home directory; ValueError if there is none."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError("there is no such home directory: write the path without ~") from None


def _machine(text: str) -> str:
    if text in presets.NAMES:
        return text
    path = _expanded(text)
    if path.suffix == ".so" and path.is_file():
        return str(path.resolve())
    missing = f"there is no file {path}; " if os.sep in text else ""
    raise ValueError(
        f"{missing}valid values: {', '.join(presets.NAMES)}, or the path of a machine library (.so)"
    )


def _choices(text: str) -> str:
    return ",".join(f"{decision}={choice}" for decision, choice in tuning_overrides.parse(text))


def _executor(text: str) -> str:
    if text not in ("machine", "reference"):
        raise ValueError("valid values: machine, reference")
    return text


def _cache_directory() -> Path | None:
    """Return the user's cache directory.

    It is None without a home directory, e.g. in a container whose user has no passwd entry. A
    relative XDG_CACHE_HOME is ignored, as the XDG specification requires.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(base):
        warnings.warn(
            "there is no home directory, so compiled programs are not cached:"
            " set FTM_CACHE_DIR to a directory",
            stacklevel=2,
        )
        return None
    return Path(base) / "ftm"


def _cores() -> int:
    """Return this process's share of the CPUs: torchrun starts several processes on a host."""
    processes = "1"
    if "LOCAL_RANK" in os.environ:
        processes = os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("FTM_DEVICES") or "1"
    return max(1, len(os.sched_getaffinity(0)) // max(1, int(processes)))


_T = TypeVar("_T")


def _setting(
    variable: str, parse: Callable[[str], _T], default: _T | Callable[[], _T], shown: str, doc: str
) -> _T:
    """Create the dataclass field of a setting.

    Args:
        variable: The environment variable.
        parse: Converts the variable's text; ValueError names the valid values.
        default: The default value, or a function that computes it.
        shown: The default in the documentation.
        doc: The sentence in the documentation.
    """
    record = {"variable": variable, "parse": parse, "shown": shown, "doc": doc}
    if callable(default):
        return field(default_factory=default, metadata=record)
    return field(default=default, metadata=record)


@dataclass(frozen=True)
class Settings:
    """The values of all settings; immutable.

    Each field's environment variable, default and meaning are in its metadata; `table` shows them.
    """

    dump: Path | None = _setting(
        "FTM_DUMP",
        _directory,
        None,
        "off",
        "Directory in which to write each program's text at every compiler stage.",
    )
    debug: frozenset[str] = _setting(
        "FTM_DEBUG",
        _debug,
        frozenset(),
        "off",
        f"Debug output: 1 for all, or a comma-separated list of {', '.join(DEBUG_KEYS)}.",
    )
    cache_dir: Path | None = _setting(
        "FTM_CACHE_DIR",
        _directory,
        _cache_directory,
        "~/.cache/ftm",
        "Directory of compiled programs; `off` disables the cache.",
    )
    cache_size: int = _setting(
        "FTM_CACHE_SIZE",
        parse_size,
        2 * 2**30,
        "2G",
        "Maximum size of that directory. The least recently used files are removed first.",
    )
    cores: int = _setting(
        "FTM_CORES",
        _count,
        _cores,
        "all CPUs",
        "Cores of the machine. The processes of torchrun share the CPUs equally by default.",
    )
    devices: int = _setting(
        "FTM_DEVICES",
        _count,
        1,
        "1",
        "Devices in this process, `ftm:0` to `ftm:n-1`. A process of torchrun has one for each"
        " process of its host by default, so that `set_device(LOCAL_RANK)` works.",
    )
    machine: str = _setting(
        "FTM_MACHINE",
        _machine,
        presets.DEFAULT,
        presets.DEFAULT,
        f"Target machine: {', '.join(presets.NAMES)}, or the path of a machine library (.so).",
    )
    tune: str = _setting(
        "FTM_TUNE",
        _choices,
        "",
        "off",
        "Choices that override the compiler's cost model, such as `conv-transpose=phases`, "
        "separated by commas. Decisions and their alternatives: "
        f"{tuning_overrides.listing()}.",
    )
    strict: bool = _setting(
        "FTM_STRICT",
        _switch,
        False,
        "0",
        "Raise an error instead of computing on the CPU: for operations that are not compiled, "
        "programs that do not compile, replays after a fault, fills, positions in masks, and "
        "scales of dynamic quantization. Conditions are evaluated on the device.",
    )
    checked: bool = _setting(
        "FTM_CHECKED",
        _switch,
        False,
        "0",
        "Let the machine fault on out-of-bounds accesses, uninitialized reads and data races.",
    )
    jit: bool = _setting(
        "FTM_JIT",
        _switch,
        True,
        "1",
        "Let the emulator translate map bodies to the host's vector code (AVX-512) when it loads a "
        "program. With 0 it calls a kernel for each operation, as on other hosts.",
    )
    executor: str = _setting(
        "FTM_EXECUTOR",
        _executor,
        "machine",
        "machine",
        "`machine` runs compiled programs; `reference` runs each operation on the CPU instead.",
    )
    compile_timeout: float = _setting(
        "FTM_COMPILE_TIMEOUT",
        _seconds,
        300.0,
        "300",
        "Seconds after which a compilation is aborted.",
    )
    instruction_limit: int = _setting(
        "FTM_INSTRUCTION_LIMIT",
        _instructions,
        100 * 10**9,
        "100G",
        "Instructions that a core may execute in one run of a program. One more is a fault, so "
        "every program ends.",
    )
    trace_limit: int = _setting(
        "FTM_TRACE_LIMIT",
        _count,
        20000,
        "20000",
        "Number of pending operations after which the trace is cut and launched.",
    )
    progress: bool = _setting(
        "FTM_PROGRESS",
        _switch,
        True,
        "1",
        "Show a progress line on stderr, if that is a terminal, while a program compiles for more "
        "than 2 s.",
    )
    loop_length: int = _setting(
        "FTM_LOOP_LENGTH",
        _count_or_none,
        700,
        "700",
        "Number of pending operations after which a repeating trace is cut at its iterations, so "
        "a loop becomes several runs of one program. 0 never cuts loops.",
    )
    program_limit: int = _setting(
        "FTM_PROGRAM_LIMIT",
        _count,
        256,
        "256",
        "Programs kept in memory. The least recently used is evicted first; the disk cache still "
        "has it.",
    )
    instance_memory: int = _setting(
        "FTM_INSTANCE_MEMORY",
        parse_size,
        32 * 2**20,
        "32M",
        "Bytes of the specializations of dynamic-shape programs kept in memory. The least recently "
        "used is evicted first and can be made again without compiling.",
    )
    device_name: str = _setting(
        "FTM_DEVICE_NAME",
        str,
        "ftm",
        "ftm",
        "The device's name in PyTorch, read when torch is imported; `xla` for programs written for "
        "torch_xla.",
    )
    default: bool = _setting(
        "FTM_DEFAULT",
        _switch,
        False,
        "0",
        "Let Accelerate, Lightning's `auto` and transformers' `device_map=\"auto\"` choose ftm, as "
        'after `torch.set_default_device("ftm")`. New tensors are not affected.',
    )
    xla_lax: bool = _setting(
        "FTM_XLA_LAX",
        _switch,
        False,
        "0",
        "If the device is named xla: accept operands that torch_xla accepts and eager PyTorch "
        "rejects.",
    )

    @property
    def preset(self) -> str:
        """Name of the machine preset that programs are compiled for."""
        return self.machine if self.machine in presets.NAMES else presets.DEFAULT

    @property
    def machine_library(self) -> Path:
        """Path of the shared library that runs programs: the emulator, or that of FTM_MACHINE."""
        if self.machine not in presets.NAMES:
            return Path(self.machine)
        return Path(presets.__file__).parents[2] / "machine" / "libftm_machine.so"


def read(environ: Mapping[str, str]) -> Settings:
    """Parse the settings in an environment.

    Warns about a variable that starts with ``FTM_`` and is not a setting.

    Args:
        environ: Variable to text, such as `os.environ`. An empty variable counts as unset.

    Returns:
        The settings, with defaults for variables that are unset.

    Raises:
        SettingsError: A value is not valid; the message lists the valid ones.

    Example:
        >>> settings.read({"FTM_CORES": "4"}).cores
        4
    """
    values = {}
    known = {item.metadata["variable"]: item for item in fields(Settings)}
    for variable, item in known.items():
        text = environ.get(variable, "").strip()
        if not text:
            continue
        try:
            values[item.name] = item.metadata["parse"](text)
        except ValueError as error:
            raise SettingsError(f"{variable}={text!r} is not valid; {error}") from None
    for variable in sorted(environ):
        if variable.startswith("FTM_") and variable not in known:
            near = difflib.get_close_matches(variable, known, n=1)
            meant = f"did you mean {near[0]}?" if near else f"the settings are {', '.join(known)}"
            warnings.warn(
                f"{variable} is not a setting of ftm and has no effect; {meant}", stacklevel=2
            )
    return Settings(**values)


@functools.cache
def current() -> Settings:
    """Return the settings of this process, read from its environment at the first call."""
    return read(os.environ)


def table() -> str:
    """Format all settings as Markdown tables for the documentation."""
    rows = ["| Variable | Default | Meaning |", "|---|---|---|"]
    for item in fields(Settings):
        record = item.metadata
        rows.append(f"| `{record['variable']}` | `{record['shown']}` | {record['doc']} |")
    rows += ["", "| `FTM_DEBUG` word | Effect |", "|---|---|"]
    rows += [f"| `{key}` | {text} |" for key, text in DEBUG_KEYS.items()]
    return "\n".join(rows) + "\n"
