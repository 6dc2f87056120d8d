"""A compiled program: the machine's image, its assembly, and, if asked for, the text of every
stage.

As bytes it is one JSON header line that says what follows, then the sections; nothing in it depends
on the process or the time, so that equal compilations give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass, field
from typing import Any

from ftm_backend.assembler.image_template import ImageTemplate

__all__ = ["Executable"]

_FORMAT = "ftm-executable"
_VERSION = 1
_MOST_TEXT = 1 << 29  # bytes of all texts, unpacked


@dataclass(frozen=True)
class Executable:
    """A compiled program.

    image: what the machine loads. asm: its assembly (`.lan`). texts: stage name -> text in the
    order of the stages (trace, torch, linalg, ftm, asm); empty unless `Options.keep_texts`.
    machine: preset it is tiled for. template: how to make images for other sizes, of a general
    program. seconds: stage name -> time that its making took; known only where it was compiled, no
    part of the bytes.
    """

    image: bytes
    asm: str
    machine: str
    texts: dict[str, str] = field(default_factory=dict)
    template: ImageTemplate | None = None
    seconds: dict[str, float] = field(default_factory=dict, compare=False)

    def to_bytes(self) -> bytes:
        """Everything but ``seconds``."""
        texts = {
            "asm": self.asm,
            **{f"text:{stage}": text for stage, text in self.texts.items() if stage != "asm"},
        }
        general = (
            [("template", zlib.compress(self.template.to_bytes(), 1))] if self.template else []
        )
        sections = [
            ("image", self.image),
            *general,
            *((name, zlib.compress(text.encode(), 1)) for name, text in texts.items()),
        ]
        body = b"".join(data for _, data in sections)
        header = {
            "format": _FORMAT,
            "version": _VERSION,
            "machine": self.machine,
            "stages": list(self.texts),
            "sections": [[name, len(data)] for name, data in sections],
            "blake2b": hashlib.blake2b(body, digest_size=16).hexdigest(),
        }
        return json.dumps(header).encode() + b"\n" + body

    @classmethod
    def from_bytes(cls, data: bytes) -> Executable:
        """The reverse of `to_bytes`.

        Raises:
            ValueError: the bytes are damaged, or were written by another version.
        """
        header, body = _header(data)
        if header["blake2b"] != hashlib.blake2b(body, digest_size=16).hexdigest():
            raise ValueError("the compiled program is damaged: its checksum does not fit")
        sections, at = {}, 0
        for name, size in header["sections"]:
            sections[name], at = body[at : at + size], at + size
        wanted = {
            "image",
            *sections.keys() & {"template"},
            "asm",
            *(f"text:{stage}" for stage in header["stages"] if stage != "asm"),
        }
        if at != len(body) or sections.keys() != wanted or len(sections) != len(header["sections"]):
            raise ValueError(
                "the compiled program is damaged: its sections are not those that the header names"
            )
        texts = _unpack({name: data for name, data in sections.items() if name != "image"})
        general = texts.pop("template", None)
        template = (
            None
            if general is None
            else ImageTemplate.from_bytes(general.encode(), len(sections["image"]))
        )
        asm = texts["asm"]
        stages = {
            stage: asm if stage == "asm" else texts[f"text:{stage}"] for stage in header["stages"]
        }
        return cls(sections["image"], asm, header["machine"], stages, template)


def _header(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The header, its fields of the right types, and what follows it; raises ValueError."""
    line, _, body = data.partition(b"\n")
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise ValueError("these bytes are no compiled program")
    if header.get("version") != _VERSION:
        raise ValueError(
            f"the compiled program has format version {header.get('version')}, expected {_VERSION}"
        )
    sections, stages = header.get("sections"), header.get("stages")
    good = (
        isinstance(sections, list)
        and isinstance(stages, list)
        and isinstance(header.get("machine"), str)
    )
    good = (
        good
        and isinstance(header.get("blake2b"), str)
        and all(isinstance(stage, str) for stage in stages or ())
    )
    if not good or not all(_is_section(section) for section in sections or ()):
        raise ValueError("the compiled program is damaged: its header does not say what follows")
    return header, body


def _is_section(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and isinstance(value[0], str)
        and type(value[1]) is int
        and value[1] >= 0
    )


def _unpack(packed: dict[str, bytes]) -> dict[str, str]:
    """Texts by name; raises ValueError when they are damaged, or would take more memory than any
    program's texts."""
    texts, rest = {}, _MOST_TEXT
    for name, data in packed.items():
        stream = zlib.decompressobj()
        try:
            text = stream.decompress(data, rest)
            whole = stream.eof and not stream.unused_data
            texts[name] = text.decode()
        except (zlib.error, UnicodeDecodeError) as error:
            raise ValueError(
                f"the compiled program is damaged: section {name!r}: {error}"
            ) from None
        rest -= len(text)
        if not whole or rest <= 0:
            raise ValueError(
                f"the compiled program is damaged: section {name!r} is cut off, or longer than any text"
            )
    return texts
