"""Record: a compiled program, which is the machine's image, its assembly and other texts.

Its bytes are one header line in JSON that lists the sections, then the sections. They depend on
neither the process nor the time, so equal compilations give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ftm_backend.assembler.image_layout import call_ops
from ftm_backend.assembler.image_template import ImageTemplate
from ftm_backend.ir.asm.call_comments import with_call_names
from ftm_backend.ir.trace.kernel_labels import kernel_labels
from ftm_backend.ir.trace.trace import Trace

_FORMAT = "ftm-executable"
_VERSION = 1
_MOST_TEXT = 1 << 29  # bytes of all texts together, uncompressed


@dataclass(frozen=True)
class Executable:
    """A compiled program.

    Attributes:
        image: The bytes that the machine loads.
        asm: Its assembly.
        machine: The machine preset that it is compiled for.
        texts: Stage name to text, in order; empty unless `CompileOptions.keep_texts`. A text is
            empty if it needs MLIR's bindings and they are not installed.
        template: How to make images for other sizes, for a program with symbolic sizes.
        seconds: Stage name to compile time; not part of the bytes.
    """

    image: bytes
    asm: str
    machine: str
    texts: dict[str, str] = field(default_factory=dict)
    template: ImageTemplate | None = None
    seconds: dict[str, float] = field(default_factory=dict, compare=False)

    def named_asm(self, trace: Trace | str, places: Sequence[str] = ()) -> str:
        """Return the assembly with the name of each kernel as the comment of its call.

        Args:
            trace: The trace that it is the program of, or its text.
            places: For each operation of the trace where it was recorded, such as
                ``model.py:33``, or "". Empty if that is not known.
        """
        trace = Trace.parse(trace) if isinstance(trace, str) else trace
        ops = call_ops(self.image)
        names = kernel_labels(trace, ops)
        numbers = trace.op_numbers()
        computing = [
            place
            for place, number in zip(places or [""] * len(numbers), numbers, strict=True)
            if number is not None
        ]
        for kernel, own in enumerate(ops):
            place = next((computing[op] for op in own if computing[op]), "")
            names[kernel] = ", ".join(filter(None, (names[kernel], place)))
        return with_call_names(self.asm, names)

    def to_bytes(self) -> bytes:
        """Return everything but ``seconds`` as bytes."""
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
        """Return the program from `to_bytes`.

        Raises:
            ValueError: The bytes are damaged, or another version wrote them.
        """
        header, body = _header(data)
        if header["blake2b"] != hashlib.blake2b(body, digest_size=16).hexdigest():
            raise ValueError("the compiled program is damaged: its checksum differs")
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
                "the compiled program is damaged: its sections differ from those in the header"
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
    """Return the header, after checking its types, and the sections.

    Raises:
        ValueError: The header is damaged.
    """
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
        raise ValueError("the compiled program is damaged: its header is incomplete")
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
    """Return texts by name.

    Raises:
        ValueError: A text is damaged, or exceeds `_MOST_TEXT`.
    """
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
                f"the compiled program is damaged: section {name!r} is cut off or too long"
            )
    return texts
