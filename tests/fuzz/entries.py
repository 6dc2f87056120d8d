"""Files of the cache that are nearly right: sealed anew after they were changed, so that the
checksums hold."""

from __future__ import annotations

import hashlib
import json
import random
import zlib
from typing import Any

_ODD = (
    None,
    True,
    -1,
    0,
    1.5,
    2**70,
    "",
    "asm",
    "text:linalg",
    [],
    {},
    [["image", 1]],
    float("nan"),
    "\ud800",
)


def mutate(rng: random.Random, executable: bytes) -> bytes:
    """The bytes of an executable, changed: its header, its sections, or anything."""
    line, _, body = executable.partition(b"\n")
    header = json.loads(line)
    how = rng.random()
    if how < 0.25:
        _change(rng, header)
    elif how < 0.5:
        _change(rng, header["sections"])
    elif how < 0.6:
        header["sections"].append(header["sections"][0])
    elif how < 0.75:  # a text that unpacks to something else
        k = rng.randrange(1, len(header["sections"]))
        starts = [
            sum(s[1] for s in header["sections"][:n]) for n in range(len(header["sections"]) + 1)
        ]
        text = rng.choice(
            (
                b"",
                b"\xff\xfe",
                zlib.compress(b"\xff" * 10),
                zlib.compress(bytes(1 << 26)),
                b"x" * 100,
            )
        )
        body = body[: starts[k]] + text + body[starts[k + 1] :]
        header["sections"][k][1] = len(text)
    else:
        changed = bytearray(body)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        body = bytes(changed)
    if rng.random() < 0.8:
        header["blake2b"] = hashlib.blake2b(body, digest_size=16).hexdigest()
    data = json.dumps(header).encode() + b"\n" + body
    return data[: rng.randrange(len(data))] if rng.random() < 0.05 else data


def _change(rng: random.Random, value: Any) -> None:
    """One item of a nest of lists and dictionaries, somewhere."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return
    key = rng.choice(keys)
    if isinstance(value[key], (list, dict)) and rng.random() < 0.7:
        _change(rng, value[key])
    elif rng.random() < 0.2:
        del value[key]
    else:
        value[key] = rng.choice(_ODD)
