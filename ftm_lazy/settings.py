"""Every setting of ftm: its environment variable, type, default and one line of documentation.

A setting is read from the environment when the device is first used, and not again: `current()`.
The table in ``docs/settings.md`` is `table()`.
"""

from __future__ import annotations

import difflib
import functools
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ftm_backend.target import presets

__all__ = ["DEBUG_KEYS", "Settings", "SettingsError", "current", "read", "table"]

DEBUG_KEYS = {
    "compile": "a line for each program: compiled or found, where, in what time",
    "data": "with FTM_DUMP: also what each program was given when it first ran, and what came out, for `ftm-run`",
    "diff": "with FTM_DUMP: also a file `NN_stage.diff` for each pass that changes the program",
    "locations": "every operation has its Python line noted, for explanations and errors; else those whose indices may be refused",
    "recompile": "a warning for each compile that says why: what differs from the nearest earlier trace, and in which line",
    "worker": "what the compiler's process writes to its stderr",
}
"""What FTM_DEBUG may ask for."""

_UNITS = ["", "K", "M", "G", "T"]


class SettingsError(ValueError):
    """An environment variable has a value that the setting does not take; the message lists the
    valid ones."""


def _switch(text: str) -> bool:
    words = {
        "1": True,
        "true": True,
        "on": True,
        "yes": True,
        "0": False,
        "false": False,
        "off": False,
        "no": False,
    }
    if text.lower() not in words:
        raise ValueError("valid values: 1 or 0")
    return words[text.lower()]


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
    """A whole number, or one with K, M, G or T; None for anything else."""
    number, unit = (text[:-1], text[-1:].upper()) if text[-1:].isalpha() else (text, "")
    if not number.isdecimal() or len(number) > 18 or unit not in _UNITS:
        return None
    return int(number) * kilo ** _UNITS.index(unit)


def _size(text: str) -> int:
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
    """A path in which ``~`` is the home directory; ValueError where there is none, so that no
    folder is called ``~``."""
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


def _executor(text: str) -> str:
    if text not in ("machine", "reference"):
        raise ValueError("valid values: machine, reference")
    return text


def _cache_directory() -> Path | None:
    """The user's cache directory; None without a home directory, as in a container whose user has
    no entry in passwd.

    A relative XDG_CACHE_HOME is ignored, as its specification asks.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    if not os.path.isabs(base):
        warnings.warn(
            "there is no home directory, so compiled programs are not kept: FTM_CACHE_DIR names a directory",
            stacklevel=2,
        )
        return None
    return Path(base) / "ftm"


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _setting(variable: str, parse: Callable[[str], Any], default: Any, shown: str, doc: str) -> Any:
    """A dataclass field that carries its record; `default` is a value, or a function that computes
    it."""
    record = {"variable": variable, "parse": parse, "shown": shown, "doc": doc}
    if callable(default):
        return field(default_factory=default, metadata=record)
    return field(default=default, metadata=record)


@dataclass(frozen=True)
class Settings:
    """The values of all settings; immutable."""

    dump: Path | None = _setting(
        "FTM_DUMP", _directory, None, "off", "directory for the text of each program at every stage"
    )
    debug: frozenset[str] = _setting(
        "FTM_DEBUG",
        _debug,
        frozenset(),
        "off",
        f"what to tell about: 1 for all, or some of {', '.join(DEBUG_KEYS)}",
    )
    cache_dir: Path | None = _setting(
        "FTM_CACHE_DIR",
        _directory,
        _cache_directory,
        "~/.cache/ftm",
        "directory of compiled programs; off for none",
    )
    cache_size: int = _setting(
        "FTM_CACHE_SIZE",
        _size,
        2 * 2**30,
        "2G",
        "size that directory is kept under; the longest unused goes first",
    )
    cores: int = _setting("FTM_CORES", _count, _cores, "all CPUs", "cores of the machine")
    machine: str = _setting(
        "FTM_MACHINE",
        _machine,
        presets.DEFAULT,
        presets.DEFAULT,
        f"{', '.join(presets.NAMES)}, or a machine library (.so)",
    )
    strict: bool = _setting(
        "FTM_STRICT",
        _switch,
        False,
        "0",
        "what would be computed beside compiled programs is an error: fallbacks, programs that do not compile, faults run again, fills, "
        "places of masks, scales of dynamic quantization; conditions that the CPU would answer are asked of the device",
    )
    checked: bool = _setting(
        "FTM_CHECKED",
        _switch,
        False,
        "0",
        "the machine faults on out-of-bounds access, uninitialised reads and races",
    )
    executor: str = _setting(
        "FTM_EXECUTOR",
        _executor,
        "machine",
        "machine",
        "machine, or reference: operation by operation on the CPU",
    )
    compile_timeout: float = _setting(
        "FTM_COMPILE_TIMEOUT",
        _seconds,
        300.0,
        "300",
        "seconds after which a compilation is given up",
    )
    instruction_limit: int = _setting(
        "FTM_INSTRUCTION_LIMIT",
        _instructions,
        100 * 10**9,
        "100G",
        "instructions that a core may execute in one run of a program; one more is a fault, so that no program is endless",
    )
    trace_limit: int = _setting(
        "FTM_TRACE_LIMIT",
        _count,
        20000,
        "20000",
        "recorded operations after which a trace is cut and launched",
    )
    progress: bool = _setting(
        "FTM_PROGRESS",
        _switch,
        True,
        "1",
        "a line on stderr, where that is a terminal, while a program compiles for more than 2 s",
    )
    loop_length: int = _setting(
        "FTM_LOOP_LENGTH",
        _count_or_none,
        700,
        "700",
        "recorded operations after which a trace that repeats itself is cut where it does: a loop becomes runs of one program; "
        "0: no loop is cut",
    )
    program_limit: int = _setting(
        "FTM_PROGRAM_LIMIT",
        _count,
        256,
        "256",
        "programs kept in memory; the longest unused goes first, and is found on disk",
    )
    instance_memory: int = _setting(
        "FTM_INSTANCE_MEMORY",
        _size,
        32 * 2**20,
        "32M",
        "of those, the bytes of images that instances of general programs may take; the longest unused goes first, and is made again "
        "without compiling",
    )
    device_name: str = _setting(
        "FTM_DEVICE_NAME",
        str,
        "ftm",
        "ftm",
        "what PyTorch calls the device, said when torch is imported; xla for programs of torch_xla",
    )
    xla_lax: bool = _setting(
        "FTM_XLA_LAX",
        _switch,
        False,
        "0",
        "where the device is named xla: what torch_xla takes and eager PyTorch refuses is taken",
    )

    @property
    def preset(self) -> str:
        """The machine preset that programs are compiled for."""
        return self.machine if self.machine in presets.NAMES else presets.DEFAULT

    @property
    def machine_library(self) -> Path:
        """The shared library that runs programs: the emulator, unless FTM_MACHINE names another."""
        if self.machine not in presets.NAMES:
            return Path(self.machine)
        return Path(presets.__file__).parents[2] / "machine" / "libftm_machine.so"


def read(environ: Mapping[str, str]) -> Settings:
    """The settings that `environ` describes; an empty variable counts as unset.

    Raises SettingsError for a value that is not valid, and warns of a variable that starts with
    ``FTM_`` and is none of the settings.
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
    """The settings of this process, from its environment at the first call."""
    return read(os.environ)


def table() -> str:
    """All settings as a Markdown table, for the documentation."""
    rows = ["| Variable | Default | What it sets |", "|---|---|---|"]
    for item in fields(Settings):
        record = item.metadata
        rows.append(f"| `{record['variable']}` | `{record['shown']}` | {record['doc']} |")
    rows += ["", "| `FTM_DEBUG` word | What it shows |", "|---|---|"]
    rows += [f"| `{key}` | {text} |" for key, text in DEBUG_KEYS.items()]
    return "\n".join(rows) + "\n"
