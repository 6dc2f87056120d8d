"""Compiled functions on disk: other processes reuse them, and damaged ones do no harm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ftm_backend.compile_server import join, source_hash, split
from ftm_lazy.compile.disk_cache import DiskCache, FunctionStore
from ftm_lazy.compile.worker import Worker

REQUEST = {"machine": "host", "cores": 2, "tune": "", "texts": False}


def trace(layers: int) -> str:
    """So many equal layers."""
    lines = ["trace", "  %0 = param f32[64,48]", "  %1 = param f32[48,48]"]
    for number in range(2, 2 * layers + 2, 2):
        source = 0 if number == 2 else number - 1
        lines += [
            f"  %{number} = aten::mm(self=%{source}, mat2=%1) : f32[64,48]",
            f"  %{number + 1} = aten::relu(self=%{number}) : f32[64,48]",
        ]
    return "\n".join([*lines, f"  return %{2 * layers + 1}", ""])


class Counted(FunctionStore):
    """Functions of a cache, and how many were asked for, found and stored."""

    def __init__(
        self,
        directory: Path,
        compiler: Callable[[], str | None] = source_hash,
        limit: int = 1 << 20,
    ) -> None:
        super().__init__(DiskCache(directory, limit), compiler)
        self.counts = [0, 0, 0]

    def get(self, digests):
        found = super().get(digests)
        self.counts[0] += len(digests)
        self.counts[1] += len(found)
        return found

    def put(self, functions):
        self.counts[2] += len(functions)
        super().put(functions)


def compiled(text: str, store: FunctionStore | None) -> bytes:
    """The program of a process that has compiled nothing before."""
    worker = Worker(timeout=120.0, functions=store)
    try:
        return worker.compile(text, REQUEST)[0]
    finally:
        worker.close()


def test_another_process_compiles_only_what_is_new(tmp_path: Path) -> None:
    first, second, third = (Counted(tmp_path / "cache") for _ in range(3))
    compiled(trace(2), first)
    wanted, found, made = first.counts
    assert found == 0 and wanted == made > 0
    assert compiled(trace(5), second) == compiled(trace(5), None)
    assert second.counts[1] > 0 and second.counts[2] == second.counts[0] - second.counts[1]
    compiled(trace(5), third)
    assert third.counts == [second.counts[0], second.counts[0], 0]


def test_a_damaged_file_is_compiled_again_and_written_anew(tmp_path: Path) -> None:
    compiled(trace(2), Counted(tmp_path / "cache"))
    files = list((tmp_path / "cache").glob("*.function"))
    whole = {file: file.read_bytes() for file in files}
    for file, content in whole.items():
        file.write_bytes(content[:-5])
    store = Counted(tmp_path / "cache")
    with pytest.warns(RuntimeWarning, match="is damaged"):
        assert compiled(trace(2), store) == compiled(trace(2), None)
    assert store.counts[1] == 0 and store.counts[2] == len(files)
    assert {file: file.read_bytes() for file in files} == whole


def test_functions_of_another_compiler_are_not_used(tmp_path: Path) -> None:
    compiled(trace(2), Counted(tmp_path / "cache", lambda: "another"))
    edited, right = Counted(tmp_path / "cache", lambda: None), Counted(tmp_path / "cache")
    compiled(trace(2), edited)
    compiled(trace(2), right)
    assert edited.counts[1] == right.counts[1] == 0
    assert right.counts[2] > 0


def test_functions_count_for_the_limit(tmp_path: Path) -> None:
    store = FunctionStore(DiskCache(tmp_path / "cache", 50_000), lambda: "c")
    for number in range(30):
        store.put({f"{number:064}": bytes(5_000)})
    kept = [file.stat().st_size for file in (tmp_path / "cache").glob("*.function")]
    assert 25_000 < sum(kept) <= 50_000
    assert store.get([f"{29:064}", f"{0:064}"]) == {f"{29:064}": bytes(5_000)}


def test_functions_travel_as_they_are() -> None:
    functions = {"a": b"", "b": b"12", "c": bytes(range(256))}
    assert split(*join(functions)) == functions
