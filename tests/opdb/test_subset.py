"""A stated, varied part of PyTorch's databases, and the promise of docs/ops.md: what it calls
native is native.

`make test-ops` runs everything; this is what `make test` has time for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

from ftm_lazy.torch_version.supported import release
from opdb import known, support
from opdb.databases import DATABASES, Unit
from opdb.families import FAMILIES, family
from opdb.schedule import sources
from opdb.worker import run_unit_check

WHOLE = {
    "ops": (
        "add", "where", "clamp", "nn_functional_gelu", "special_log_ndtr", "amax", "std", "cumsum", "sort", "topk",
        "gather", "index_put", "scatter_add", "mm", "baddbmm", "outer", "nn_functional_conv1d",
        "nn_functional_avg_pool2d", "nn_functional_layer_norm", "nn_functional_nll_loss", "nn_functional_pad_reflect",
        "nn_functional_embedding", "nn_functional_dropout", "uniform", "full_like", "cat", "tril", "unfold", "nonzero",
        "fft_rfft",
    ),
    "compiled": ("baddbmm", "nn_functional_layer_norm", "index_put"),
    "modules": ("nn_GRUCell", "nn_BatchNorm2d", "nn_Bilinear", "nn_Embedding"),
    "optims": ("SGD", "AdamW"),
}  # fmt: skip
"""Entries that run with all checks in their primary dtype: some of every family."""

CHANGING = 4
"""Number of further entries under `torch.compile`; a hash of the sources selects them."""

DTYPES = {
    "add": (
        "float64", "bfloat16", "float16", "int8", "uint8", "int16", "int32", "int64", "bool",
        "complex64",
    ),
    "sum": ("bfloat16", "int8", "bool"),
    "floor_divide": ("float64", "int32"),
    "bitwise_and": ("bool", "uint8"),
    "mm": ("bfloat16", "float64", "int64"),
    "sort": ("bool", "uint8"),
    "index_select": ("float16", "int16"),
    "softmax": ("bfloat16", "float16"),
}  # fmt: skip
"""Entries of op_db that run forward and backward in other dtypes."""

PROMISED = {(entry["db"], entry["entry"]): entry for entry in support.load()}
"""What docs/ops.md says, of the databases of the PyTorch that requirements.txt pins."""

REQUIREMENTS = Path(__file__).parents[2] / "requirements.txt"
IS_PINNED = f"torch=={release(torch.__version__)}\n" in REQUIREMENTS.read_text()


@cache
def all_units(db: str) -> tuple[Unit, ...]:
    """All units of a database; to ask each entry of it takes half a second."""
    return tuple(DATABASES[db].units(db))


def units() -> Iterator[Unit]:
    """What runs."""
    for db, names in WHOLE.items():
        primary: dict[str, Unit] = {}
        for unit in all_units(db):
            primary.setdefault(unit.entry, unit)
        yield from (primary[name] for name in names)
        if db == "compiled":
            others = [unit for name, unit in primary.items() if name not in names]
            yield from Random(sources()).sample(others, CHANGING)
    for name, dtypes in DTYPES.items():
        yield from (
            unit for unit in all_units("ops") if unit.entry == name and unit.dtype in dtypes
        )


@pytest.mark.parametrize(
    "unit, check",
    [
        pytest.param(unit, check, id=f"{unit.entry}-{unit.dtype}-{check}")
        for unit in units()
        for check in unit.checks
    ],
)
def test_entry(unit: Unit, check: str) -> None:
    record = run_unit_check(unit.db, unit.entry, unit.dtype, check)
    promised = PROMISED[unit.db, unit.entry]
    word = (
        promised["checks"].get(check)
        if unit.dtype == promised["dtype"]
        else promised["dtypes"].get(unit.dtype)
    )
    found = support.word(record)
    assert not known.reason(unit.entry, unit.dtype, check, unit.db), "known gaps run below"
    assert found is None or found in support.RIGHT, record["detail"]
    if word == "native":
        assert found == "native", record["fallbacks"] or record["uncompiled"]


def test_a_known_gap_is_still_one() -> None:
    """It fails as it did: one that passes leaves `known.GAPS`, one that fails otherwise is
    something else."""
    unit = ("polygamma_polygamma_n_0", "int8", "forward")
    assert known.reason(*unit, "ops")
    record = run_unit_check("ops", *unit)
    assert support.word(record) == "wrong", "it is not wrong any more"
    assert record["detail"] and all("inf" in told for told in record["detail"]), record["detail"]


def test_what_is_not_right_when_compiled_has_a_reason() -> None:
    """Every entry that is no whole graph, or wrong, under `torch.compile` though it is right on the
    device; and no other has one."""
    compiled = {entry["entry"]: entry for (db, _), entry in PROMISED.items() if db == "compiled"}
    there = {name: PROMISED["ops", name]["dtype"] is not None for name in compiled}
    wrong = {
        name
        for name, entry in compiled.items()
        if not set(entry["checks"].values()) <= set(support.RIGHT)
    }
    assert wrong == set(known.COMPILED) | {
        name for name in compiled if not _is_right(PROMISED["ops", name])
    }
    assert {
        name for name, entry in compiled.items() if there[name] and "forward" not in entry["checks"]
    } == set(known.NOT_COMPILED)


def test_as_many_are_right_when_compiled_as_on_the_device() -> None:
    """Entry by entry; in parts where Dynamo makes no whole graph."""
    on_the_device = {
        name for (db, name), entry in PROMISED.items() if db == "ops" and _is_right(entry)
    }
    assert on_the_device <= {
        name for (db, name), entry in PROMISED.items() if db == "compiled" and _is_right(entry)
    }


def _is_right(entry: dict[str, Any]) -> bool:
    words = [
        word
        for check, word in entry["checks"].items()
        if check.split(" ")[0] in ("forward", "backward")
    ]
    return set(words) <= set(support.RIGHT) and (bool(words) or entry["dtype"] is None)


def sample(count: int) -> list[Unit]:
    """Entries of op_db in their primary dtype; others wherever a source has changed."""
    first: dict[str, Unit] = {}
    for unit in all_units("ops"):
        if ("ops", unit.entry) in PROMISED:  # a newer PyTorch has more
            first.setdefault(unit.entry, unit)
    return random.Random(sources()).sample([first[name] for name in sorted(first)], count)


@pytest.mark.parametrize("number", range(6))
def test_the_table_says_what_happens(number: int) -> None:
    unit = sample(6)[number]
    promised = PROMISED[unit.db, unit.entry]
    record = run_unit_check(unit.db, unit.entry, unit.dtype, "forward")
    found, word = support.word(record), promised["checks"].get("forward")
    if not known.reason(unit.entry, unit.dtype, "forward", unit.db):
        assert found == word, (
            f"{unit.entry}: docs/ops.md says {word}, it is {found}: {record['detail']}"
        )


def test_the_subset_has_some_of_every_family() -> None:
    assert {family(name) for name in WHOLE["ops"]} == {"elementwise", *FAMILIES}


@pytest.mark.skipif(not IS_PINNED, reason="docs/ops.md has the entries of the pinned PyTorch")
def test_the_committed_summary_has_all_entries() -> None:
    names = {(db, name) for db, database in DATABASES.items() for name in database.entries()}
    assert set(PROMISED) == names
