"""Settings: every value that is not valid is refused with the valid ones named."""

import os
from dataclasses import fields
from pathlib import Path

import pytest

from ftm_lazy import settings
from ftm_lazy.settings import Settings, SettingsError, read


def test_defaults():
    values = read({})
    assert (values.dump, values.debug, values.strict, values.checked) == (
        None,
        frozenset(),
        False,
        False,
    )
    assert values.cores == len(os.sched_getaffinity(0))
    assert values.machine == values.preset == "host"
    assert values.machine_library.name == "libftm_machine.so"
    assert read({"FTM_CORES": "", "FTM_MACHINE": "  "}) == values


def test_values(tmp_path):
    library = tmp_path / "mine.so"
    library.touch()
    values = read(
        {
            "FTM_DUMP": str(tmp_path),
            "FTM_DEBUG": "compile, recompile",
            "FTM_CACHE_DIR": "off",
            "FTM_CACHE_SIZE": "3k",
            "FTM_CORES": "7",
            "FTM_MACHINE": str(library),
            "FTM_STRICT": "True",
            "FTM_CHECKED": "1",
            "FTM_COMPILE_TIMEOUT": "0.5",
            "PATH": "/bin",
        }
    )
    assert values == Settings(
        dump=tmp_path,
        debug=frozenset({"compile", "recompile"}),
        cache_dir=None,
        cache_size=3072,
        cores=7,
        machine=str(library),
        strict=True,
        checked=True,
        compile_timeout=0.5,
    )
    assert values.preset == "host" and values.machine_library == library
    assert read({"FTM_DEBUG": "1"}).debug == settings.DEBUG_KEYS.keys()
    assert read({"FTM_CACHE_DIR": "~/x"}).cache_dir == Path.home() / "x"


@pytest.mark.parametrize(
    ("variable", "value", "named"),
    [
        ("FTM_MACHINE", "m7033", "host, m7002, m7032, mt3000"),
        ("FTM_MACHINE", "/none/machine.so", "no file /none/machine.so"),
        ("FTM_CORES", "0", "from 1"),
        ("FTM_CORES", "two", "from 1"),
        ("FTM_CORES", "-1", "from 1"),
        ("FTM_STRICT", "maybe", "1 or 0"),
        ("FTM_CHECKED", "2", "1 or 0"),
        ("FTM_DEBUG", "compile,all_of_it", "locations"),
        ("FTM_CACHE_SIZE", "1X", "500M"),
        ("FTM_CACHE_SIZE", "-5", "500M"),
        ("FTM_COMPILE_TIMEOUT", "0", "more than 0"),
        ("FTM_COMPILE_TIMEOUT", "nan", "more than 0"),
        ("FTM_COMPILE_TIMEOUT", "soon", "more than 0"),
        ("FTM_EXECUTOR", "gpu", "machine, reference"),
        ("FTM_TRACE_LIMIT", "1.5", "from 1"),
    ],
)
def test_wrong_values_name_the_right_ones(variable, value, named):
    with pytest.raises(SettingsError) as caught:
        read({variable: value})
    assert f"{variable}={value!r}" in str(caught.value) and named in str(caught.value)


def test_misspelt_variables_are_warned_of():
    with pytest.warns(UserWarning, match="FTM_STRCT is not a setting.*did you mean FTM_STRICT"):
        read({"FTM_STRCT": "1"})
    with pytest.warns(UserWarning, match="the settings are FTM_DUMP"):
        read({"FTM_ZZZ": "1"})


def test_table_has_every_setting():
    text = settings.table()
    assert all(
        f"`{item.metadata['variable']}`" in text and item.metadata["doc"]
        for item in fields(Settings)
    )


def test_without_a_home_no_folder_is_called_tilde(tmp_path, monkeypatch):
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    # as for a user without an entry in passwd
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.warns(UserWarning, match="there is no home directory.*FTM_CACHE_DIR"):
        assert read({}).cache_dir is None
    with pytest.raises(SettingsError, match="write the path without ~"):
        read({"FTM_CACHE_DIR": "~/programs"})
    monkeypatch.setenv("XDG_CACHE_HOME", "~/.cache")
    with pytest.warns(UserWarning, match="there is no home directory"):
        assert read({}).cache_dir is None
