"""FTM_DUMP: each program in a directory of its own, with what is needed to run it again."""

import json
import multiprocessing

import pytest

from ftm_lazy.compile import dump

TRACE = """trace
  %0 = param f32[64,10]
  %1 = param i64[]
  %2 = param i1[0,3]
  $0 = scalar f64
  %3 = aten::add.Tensor(self=%0, other=%1, alpha=$0) : f32[64,10]
  return %3
"""
TEXTS = {
    "trace": TRACE,
    "torch": "module {}",
    "linalg": "module {}",
    "tiles": "@stage tiles",
    "asm": "@program p, host",
}


def test_files_and_inputs(tmp_path):
    place = dump.write(tmp_path / "new", TEXTS)
    assert place.name.startswith("000_")
    assert sorted(file.name for file in place.iterdir()) == [
        "00_trace.trace", "01_torch.mlir", "02_linalg.mlir", "03_tiles.tiles", "04_asm.lan",
        "inputs.json",
    ]  # fmt: skip
    assert (place / "00_trace.trace").read_text() == TRACE
    assert json.loads((place / "inputs.json").read_text()) == [
        {"kind": "tensor", "dtype": "f32", "shape": [64, 10]},
        {"kind": "tensor", "dtype": "i64", "shape": []},
        {"kind": "tensor", "dtype": "i1", "shape": [0, 3]},
        {"kind": "scalar", "dtype": "f64"},
    ]
    assert dump.write(tmp_path / "new", TEXTS).name.startswith("001_")


def test_a_directory_that_cannot_be_written_is_warned_of(tmp_path):
    (tmp_path / "file").touch()
    with pytest.warns(RuntimeWarning, match="cannot write to FTM_DUMP="):
        assert dump.write(tmp_path / "file", TEXTS) is None


def write_many(directory) -> None:
    for _ in range(20):
        dump.write(directory, TEXTS)


def test_processes_share_a_directory(tmp_path):
    workers = [
        multiprocessing.get_context("fork").Process(target=write_many, args=(tmp_path,))
        for _ in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    places = list(tmp_path.iterdir())
    assert len(places) == len({place.name for place in places})
    assert all(len(list(place.iterdir())) == 6 for place in places)
