"""Images that are nearly right: records of good ones, with fields, whole records and sections
changed."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass

from ftm_backend.assembler import image_layout

_INTERESTING = (
    0,
    1,
    -1,
    2,
    3,
    7,
    8,
    15,
    16,
    31,
    63,
    64,
    65,
    127,
    128,
    255,
    256,
    4095,
    4096,
    65535,
    65536,
    2**31 - 1,
    -(2**31),
    2**31,
    2**32 - 1,
    2**46,
    2**62,
    2**63 - 1,
    -(2**63),
    -2,
    -64,
)
_KINDS = dict(image_layout.SECTIONS)


@dataclass
class Image:
    """An image taken apart: header fields, and the records of each section as mutable bytes."""

    header: list[int]
    sections: dict[str, list[bytearray]]

    @classmethod
    def read(cls, data: bytes) -> Image:
        """Of a valid image."""
        sections = {}
        for number, (name, kind) in enumerate(image_layout.SECTIONS):
            at = image_layout.HEADER.size + number * image_layout.SECTION.size
            offset, count = image_layout.SECTION.struct.unpack_from(data, at)
            size = _size(kind)
            sections[name] = [
                bytearray(data[offset + k * size : offset + (k + 1) * size]) for k in range(count)
            ]
        return cls(list(image_layout.HEADER.struct.unpack_from(data)), sections)

    def copy(self) -> Image:
        """Apart from the original."""
        return Image(
            list(self.header),
            {name: [bytearray(r) for r in records] for name, records in self.sections.items()},
        )

    def write(self) -> bytes:
        """The bytes; counts, offsets and the size are right."""
        start = image_layout.HEADER.size + image_layout.SECTION.size * len(image_layout.SECTIONS)
        directory, body = bytearray(), bytearray()
        for name, _ in image_layout.SECTIONS:
            body += bytes(-(start + len(body)) % 64)
            directory += image_layout.SECTION.pack(start + len(body), len(self.sections[name]))
            body += b"".join(self.sections[name])
        header = list(self.header)
        header[4] = start + len(body)
        return (
            image_layout.HEADER.pack(
                *(
                    value % (1 << 64 if code == "Q" else 1 << 32)
                    for value, code in zip(header, image_layout.HEADER.format, strict=True)
                )
            )
            + bytes(directory)
            + bytes(body)
        )


def _size(kind: image_layout.LayoutRecord | str) -> int:
    return kind.size if isinstance(kind, image_layout.LayoutRecord) else struct.calcsize("<" + kind)


def _format(name: str) -> str:
    kind = _KINDS[name]
    return kind.format if isinstance(kind, image_layout.LayoutRecord) else kind


def mutate(rng: random.Random, corpus: list[Image]) -> bytes:
    """One image made from those of the corpus."""
    image = rng.choice(corpus).copy()
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        rng.choices((_change_field, _change_records, _change_header), (12, 3, 1))[0](
            rng, image, corpus
        )
    data = image.write()
    if rng.random() < 0.03:  # no structure: bytes anywhere, or a cut
        changed = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        data = bytes(changed[: rng.randrange(len(changed))] if rng.random() < 0.3 else changed)
    return data


def _pick(rng: random.Random, image: Image) -> str | None:
    """A section that has records, those with few names and numbers of their own less often."""
    names = [
        name
        for name, records in image.sections.items()
        if records and name not in ("text", "strings", "labels")
    ]
    if not names:
        return None
    return rng.choices(names, [len(_format(name)) for name in names])[0]


def _change_field(rng: random.Random, image: Image, corpus: list[Image]) -> None:
    name = _pick(rng, image)
    if name is None:
        return
    record, form = rng.choice(image.sections[name]), _format(name)
    values = list(struct.unpack("<" + form, record))
    k = rng.randrange(len(values))
    how = rng.random()
    if how < 0.35:  # a value that another record has in this place: in range, and wrong
        values[k] = struct.unpack(
            "<" + form, rng.choice(rng.choice(corpus).sections[name] or [record])
        )[k]
    elif how < 0.6:
        values[k] += rng.choice((-2, -1, 1, 2, 8, 64))
    elif how < 0.7:
        values[k] ^= 1 << rng.randrange(8 * struct.calcsize(form[k]))
    else:
        values[k] = rng.choice(_INTERESTING)
    struct.pack_into(
        "<" + form, record, 0, *(_wrapped(v, code) for v, code in zip(values, form, strict=True))
    )


def _wrapped(value: int, code: str) -> int:
    bits = 8 * struct.calcsize(code)
    value %= 1 << bits
    return value - (1 << bits) if code.islower() and value >> (bits - 1) else value


def _change_records(rng: random.Random, image: Image, corpus: list[Image]) -> None:
    name = _pick(rng, image)
    if name is None:
        return
    records = image.sections[name]
    at = rng.randrange(len(records))
    how = rng.random()
    if how < 0.25:
        del records[at]
    elif how < 0.5:
        records.insert(at, bytearray(rng.choice(records)))
    elif how < 0.75:
        other = rng.randrange(len(records))
        records[at], records[other] = records[other], records[at]
    else:
        records[at] = bytearray(rng.choice(rng.choice(corpus).sections[name] or records))


def _change_header(rng: random.Random, image: Image, corpus: list[Image]) -> None:
    # magic, version and fingerprint are compared, and no more
    k = rng.randrange(5, len(image.header))
    image.header[k] = rng.choice(
        (image.header[k] + rng.choice((-1, 1, 64)), rng.choice(_INTERESTING))
    )
