"""The disk cache: a hit is always the stored program, and no failure stops the user's program."""

import errno
import fcntl
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ftm_backend import atomic_file
from ftm_lazy.compile import disk_cache_size
from ftm_lazy.compile.disk_cache import CacheKey, DiskCache

PROGRAM = bytes(range(256)) * 40


def key(trace: str = "trace\n  return\n", **changed: object) -> CacheKey:
    return CacheKey(**({"trace": trace, "compiler": "c0", "machine": "host", "cores": 2} | changed))


def store(directory: Path, limit: int = 1 << 20) -> DiskCache:
    return DiskCache(directory / "programs", limit)


def test_stores_and_finds(tmp_path):
    disk = store(tmp_path)
    assert disk.is_empty() and disk.get(key()) is None
    disk.put(key(), PROGRAM)
    assert not disk.is_empty()
    assert store(tmp_path).get(key()) == PROGRAM
    disk.put(key("other"), b"")
    assert disk.get(key("other")) == b""


@pytest.mark.parametrize("part", ["trace", "compiler", "machine", "cores"])
def test_every_part_of_the_key_counts(tmp_path, part):
    disk = store(tmp_path)
    disk.put(key(), PROGRAM)
    assert disk.get(key(**{part: 3 if part == "cores" else "another"})) is None


def test_parts_do_not_run_into_each_other():
    assert key(compiler="ab", machine="c").digest != key(compiler="a", machine="bc").digest


def test_key_has_nothing_of_the_process():
    code = "from ftm_lazy.compile.disk_cache import CacheKey; from ftm_backend.compile_server import source_hash;print(CacheKey('t', source_hash(), 'host', 2).digest)"
    digests = set()
    for seed in "12":
        environment = os.environ | {"PYTHONHASHSEED": seed, "FTM_CACHE_DIR": f"/nowhere/{seed}"}
        run = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(run.stdout)
    assert len(digests) == 1


def test_equal_digest_of_another_key_is_a_miss(tmp_path):
    disk = store(tmp_path)
    disk.put(key(), PROGRAM)
    other = key("another trace")
    os.rename(disk.path(key()), disk.path(other))  # what a collision of the hash would look like
    assert disk.get(other) is None


@pytest.mark.parametrize("at", [0, 5, 20, 60, 90, -1])
def test_one_wrong_byte_is_a_miss(tmp_path, at):
    disk = store(tmp_path)
    disk.put(key(), PROGRAM)
    content = bytearray(disk.path(key()).read_bytes())
    content[at] ^= 1
    disk.path(key()).write_bytes(content)
    with pytest.warns(RuntimeWarning, match="is damaged"):
        assert disk.get(key()) is None
    assert not disk.path(key()).exists()
    disk.put(key(), PROGRAM)
    assert disk.get(key()) == PROGRAM


@pytest.mark.parametrize("length", [0, 3, 30, 60, -1])
def test_a_cut_file_is_a_miss(tmp_path, length):
    disk = store(tmp_path)
    disk.put(key(), PROGRAM)
    disk.path(key()).write_bytes(disk.path(key()).read_bytes()[:length])
    with pytest.warns(RuntimeWarning, match="is damaged"):
        assert disk.get(key()) is None


def test_the_longest_unused_goes_first(tmp_path):
    disk = store(tmp_path, limit=35_000)  # room for three
    names = ["a", "b", "c"]
    for age, name in enumerate(names):
        disk.put(key(name), PROGRAM)
        moment = time.time() - 100 + age
        os.utime(disk.path(key(name)), (moment, moment))
    assert disk.get(key("a")) == PROGRAM  # used: now the youngest
    disk.put(key("d"), PROGRAM)
    assert [name for name in "abcd" if disk.get(key(name))] == ["a", "c", "d"]
    assert sum(file.stat().st_size for file in (tmp_path / "programs").iterdir()) <= 35_000


def test_the_limit_holds_whatever_is_stored(tmp_path):
    """Many programs of many sizes, some again and again; what another process or an older version
    left counts too."""
    disk = store(tmp_path, limit=200_000)
    generator = random.Random(0)
    for step in range(400):
        disk.put(key(str(generator.randrange(300))), bytes(generator.randrange(20_000)))
        if step == 200:
            (tmp_path / "programs/.total").unlink()
        if step == 300:
            (tmp_path / "programs/.total").write_bytes(b"?")
        if step % 50 == 49:
            sizes = [file.stat().st_size for file in (tmp_path / "programs").glob("*.program")]
            assert 100_000 < sum(sizes) <= 200_000


def test_storing_looks_at_no_other_file(tmp_path, monkeypatch):
    disk = store(tmp_path)
    disk.put(key("first"), PROGRAM)

    def refuse(*arguments):
        raise AssertionError("the directory is gone through")

    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(os, "listdir", refuse)
    disk.put(key("second"), PROGRAM)
    assert disk.get(key("second")) == PROGRAM


def test_who_holds_the_sum_for_long_does_not_stop_the_others(tmp_path, monkeypatch):
    disk = store(tmp_path)
    disk.put(key(), PROGRAM)
    monkeypatch.setattr(disk_cache_size, "_LOCK_TRIES", 2)
    with open(tmp_path / "programs/.total", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        disk.put(key("b"), PROGRAM)
    disk.put(key("c"), PROGRAM)
    assert disk.get(key("b")) == disk.get(key("c")) == PROGRAM


def test_a_program_larger_than_the_limit_is_not_stored(tmp_path):
    disk = store(tmp_path, limit=1000)
    disk.put(key(), PROGRAM)
    assert disk.get(key()) is None


def test_partial_files_of_killed_writers_are_removed(tmp_path):
    store(tmp_path).put(key(), PROGRAM)
    left, written = tmp_path / "programs/.partial-left", tmp_path / "programs/.partial-written"
    left.write_bytes(b"x"), written.write_bytes(b"x")
    with open(written) as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        assert store(tmp_path).get(key()) == PROGRAM  # another process
    assert not left.exists() and written.exists()


def test_a_writer_outlives_another_process_that_cleans_up(tmp_path):
    with atomic_file.replacing(tmp_path / "target", ".partial-") as file:
        file.write(b"content")
        atomic_file.remove_abandoned(tmp_path, ".partial-")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [
        ("target", b"content")
    ]


def test_off_stores_nothing():
    disk = DiskCache(None, 1 << 20)
    disk.put(key(), PROGRAM)
    assert disk.get(key()) is None and disk.is_empty()


def test_full_disk_warns_and_leaves_nothing(tmp_path, monkeypatch):
    disk = store(tmp_path)

    class Full:
        def __init__(self, descriptor, mode):
            self.descriptor = descriptor

        def __enter__(self):
            return self

        def __exit__(self, *exception):
            os.close(self.descriptor)

        def write(self, content):
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(atomic_file.os, "fdopen", Full)
        with pytest.warns(RuntimeWarning, match="No space left on device.*FTM_CACHE_DIR"):
            disk.put(key(), PROGRAM)
    assert [file.name for file in (tmp_path / "programs").iterdir()] == [".total"]
    disk.put(key(), PROGRAM)
    assert disk.get(key()) == PROGRAM


@pytest.mark.parametrize("below", ["", "further"])
def test_a_file_in_the_directorys_place_is_told_once(tmp_path, below):
    (tmp_path / "programs").write_text("a file where the directory should be")
    disk = DiskCache(tmp_path / "programs" / below, 1 << 20)
    with pytest.warns(RuntimeWarning) as told:
        for name in "abc":
            assert disk.get(key(name)) is None
            disk.put(key(name), PROGRAM)
    assert len(told) == 1 and "is not a directory; set FTM_CACHE_DIR" in str(told[0].message)


def test_read_only_directory_serves_but_does_not_grow(tmp_path, monkeypatch):
    disk = store(tmp_path)
    disk.put(key(), PROGRAM)

    def refuse(*arguments, **named):
        raise OSError(errno.EROFS, "Read-only file system")  # permissions would not hold root back

    monkeypatch.setattr(atomic_file.tempfile, "mkstemp", refuse)
    monkeypatch.setattr(os, "utime", refuse)
    with pytest.warns(RuntimeWarning, match="cannot store.*Read-only file system"):
        disk.put(key("new"), PROGRAM)
    assert disk.get(key()) == PROGRAM and disk.get(key("new")) is None


WRITER = """
import random, sys, warnings
from pathlib import Path
from ftm_lazy.compile.disk_cache import CacheKey, DiskCache
warnings.simplefilter("error")
disk = DiskCache(Path(sys.argv[1]), 60_000)
random.seed(int(sys.argv[2]))
hits = 0
for _ in range(300):
    name = random.randrange(12)
    key, program = CacheKey(str(name), "c0", "host", 2), bytes([name]) * 10_000
    found = disk.get(key)
    assert found is None or found == program
    hits += found is not None
    disk.put(key, program)
print(hits)
"""


def test_many_processes_write_read_and_evict(tmp_path):
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(4)
    ]
    for run in runs:
        output, errors = run.communicate(timeout=120)
        assert run.returncode == 0, errors
        assert int(output) > 0
    files = list(tmp_path.iterdir())
    assert {file.suffix or file.name for file in files} == {".program", ".total"}
