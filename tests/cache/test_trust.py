"""Cached files that another user may have written are not run; invalid files are removed."""

import hashlib
import json
import os
import time
import warnings
import zlib

import pytest

from ftm_backend.executable import Executable
from ftm_lazy.compile.disk_cache import CacheKey, DiskCache

KEY = CacheKey("trace\n  return\n", "c0", "host", 2)
PROGRAM = bytes(range(256)) * 40


@pytest.fixture
def disk(tmp_path):
    """A cache with one program."""
    made = DiskCache(tmp_path / "programs", 1 << 20)
    made.put(KEY, PROGRAM)
    return made


def ignored(disk: DiskCache, reason: str) -> None:
    fresh = DiskCache(disk.path(KEY).parent, 1 << 20)
    with pytest.warns(RuntimeWarning, match=reason):
        assert fresh.get(KEY) is None


def test_the_directory_is_this_user_s_alone(disk):
    assert disk.path(KEY).parent.stat().st_mode & 0o777 == 0o700
    assert disk.path(KEY).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720])
def test_a_directory_that_others_write_to_is_not_used(disk, mode):
    disk.path(KEY).parent.chmod(mode)
    ignored(disk, "others may write to .*chmod 700")
    fresh = DiskCache(disk.path(KEY).parent, 1 << 20)
    with pytest.warns(RuntimeWarning, match="is not used"):
        fresh.put(CacheKey("b", "c0", "host", 2), PROGRAM)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        assert fresh.get(KEY) is None
    assert len(list(disk.path(KEY).parent.glob("*.program"))) == 1
    disk.path(KEY).parent.chmod(0o755)
    assert disk.get(KEY) == PROGRAM


def test_a_file_that_others_write_to_is_ignored_and_replaced(disk):
    disk.path(KEY).chmod(0o622)
    ignored(disk, "others may write to")
    disk.put(KEY, PROGRAM)
    assert disk.get(KEY) == PROGRAM


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["file", "directory"])
def test_what_another_user_owns_is_ignored(disk, what):
    os.chown(disk.path(KEY) if what == "file" else disk.path(KEY).parent, 12345, -1)
    ignored(disk, "belongs to user 12345")


def _pipe(path):
    os.mkfifo(path)


def _link(path):
    path.symlink_to("/dev/zero")


def _large(path):
    with open(path, "wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("make", [_pipe, _link, _large])
@pytest.mark.parametrize("strict", [False, True])
def test_what_is_no_program_s_file_is_removed_at_once(disk, make, strict, capfd):
    disk.path(KEY).unlink()
    make(disk.path(KEY))
    begin = time.monotonic()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("error" if strict else "always")
        assert disk.get(KEY) is None
    assert time.monotonic() - begin < 30
    assert "is damaged" in (capfd.readouterr().err if strict else str(told[0].message))
    assert not os.path.lexists(disk.path(KEY))
    disk.put(KEY, PROGRAM)
    assert disk.get(KEY) == PROGRAM


def executable() -> bytes:
    return Executable(
        b"image" * 10, "asm text\n", "host", {"trace": "trace\n", "asm": "asm text\n"}
    ).to_bytes()


def sealed(header: object, body: bytes) -> bytes:
    if isinstance(header, dict) and "blake2b" in header:
        header["blake2b"] = hashlib.blake2b(body, digest_size=16).hexdigest()
    return json.dumps(header).encode() + b"\n" + body


def changed(**fields: object) -> bytes:
    line, _, body = executable().partition(b"\n")
    header = json.loads(line) | fields
    return sealed({name: value for name, value in header.items() if value is not KeyError}, body)


def bomb() -> bytes:
    """Three sections that unpack to 600 MB."""
    text = zlib.compress(bytes(300 << 20))
    body = b"image" + 2 * text
    return sealed(
        json.loads(executable().partition(b"\n")[0])
        | {"sections": [["image", 5], ["asm", len(text)], ["text:trace", len(text)]]},
        body,
    )


BAD = {
    "nothing": b"",
    "junk": b"junk" * 100,
    "a list": sealed([], b""),
    "deep": b"[" * 100_000 + b"\n",
    "long number": b'{"format": ' + b"9" * 10_000 + b"}\n",
    **{
        f"no {name}": changed(**{name: KeyError})
        for name in ("blake2b", "sections", "stages", "machine", "version")
    },
    **{
        f"{name} of another type": changed(**{name: 7})
        for name in ("sections", "stages", "machine")
    },
    "names of another type": changed(sections=[[7, 50]]),
    "sizes of another type": changed(sections=[["image", "50"]]),
    "negative sizes": changed(sections=[["image", -1]]),
    "sizes beyond the end": changed(sections=[["image", 1 << 70]]),
    "no image": changed(sections=[["asm", 50]]),
    "an unknown stage": changed(stages=["trace", "other"]),
    "a stage that is no name": changed(stages=[["trace"]]),
    "a text that is not packed": changed(sections=[["image", 40], ["asm", 27], ["text:trace", 0]]),
}


@pytest.mark.parametrize("what", [*BAD, "bomb"])
def test_a_sealed_file_with_another_content_is_no_program(what):
    Executable.from_bytes(executable())
    with pytest.raises(ValueError, match="no compiled program|damaged|format version"):
        Executable.from_bytes(bomb() if what == "bomb" else BAD[what])
