"""A compiled program: the machine's image, its assembly, and, if asked for, the text of every stage.

As bytes it is one JSON header line that says what follows, then the sections; nothing in it depends on the
process or the time, so that equal compilations give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass, field

__all__ = ["Executable"]

_FORMAT = "ftm-executable"
_VERSION = 1


@dataclass(frozen=True)
class Executable:
    """A compiled program.

    image: what the machine loads.  asm: its assembly (`.lan`).  texts: stage name -> text in the order of the
    stages (trace, torch, linalg, ftm, asm); empty unless `Options.keep_texts`.  machine: preset it is tiled for.
    seconds: stage name -> time that its making took; known only where it was compiled, no part of the bytes.
    """

    image: bytes
    asm: str
    machine: str
    texts: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict, compare=False)

    def to_bytes(self) -> bytes:
        """Everything but ``seconds``."""
        texts = {"asm": self.asm, **{f"text:{stage}": text for stage, text in self.texts.items() if stage != "asm"}}
        sections = [("image", self.image), *((name, zlib.compress(text.encode(), 1)) for name, text in texts.items())]
        body = b"".join(data for _, data in sections)
        header = {
            "format": _FORMAT, "version": _VERSION, "machine": self.machine, "stages": list(self.texts),
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
        line, _, body = data.partition(b"\n")
        try:
            header = json.loads(line)
        except ValueError:
            header = None
        if not isinstance(header, dict) or header.get("format") != _FORMAT:
            raise ValueError("these bytes are no compiled program")
        if header.get("version") != _VERSION:
            raise ValueError(f"the compiled program has format version {header.get('version')}, expected {_VERSION}")
        if header["blake2b"] != hashlib.blake2b(body, digest_size=16).hexdigest():
            raise ValueError("the compiled program is damaged: its checksum does not fit")
        sections, at = {}, 0
        for name, size in header["sections"]:
            sections[name], at = body[at : at + size], at + size
        asm = zlib.decompress(sections["asm"]).decode()
        texts = {
            stage: asm if stage == "asm" else zlib.decompress(sections[f"text:{stage}"]).decode()
            for stage in header["stages"]
        }
        return cls(sections["image"], asm, header["machine"], texts)
