"""Templates: filling in sizes equals assembling the text for them, and guards are enforced."""

from __future__ import annotations

import re

import pytest

from ftm_backend import assembler
from ftm_backend.assembler.image_template import ImageTemplate, TemplateError, assemble
from ftm_backend.driver import compile
from ftm_backend.symbolic import ShapeEnv, compile_expressions

_TEXT = """\
@program t, host
@in b0, f32, {s0}x{s1}
@out o0, f32, {s0*s1}
@arena t0, {64*((4*s0+63)/64)}, f32, {s0}

@func main
  @tile T, am, f32, 4x{s1}, 2, {64*s1}
    SMOV 0, r1
  LOOP: 1, {(s0+3)/4}
    DLD b0[r1+{s1-2}], 4@{s1} | {s1-1}@1, T[0]
    DWAIT T
    @map 4 x {s1-1}, T[0]:v0 -> T[1]:v1
      VMUL.F32 v0, {=(1/[s0])}, v1
    @endmap
    DST T[1], o0[{s0-1}], 1@1 | 1@1
    DWAIT T
    SADD r1, {s1}, r1
    SLT r1, {s0*s1}, r2
    [r2] SBR LOOP
@ret
"""
_VALUES = [(5, 7), (12, 33), (100, 64), (4, 3)]


def _plain(values: tuple[int, int]) -> str:
    """The text for these values, with numbers in the places of sizes."""

    def number(match: re.Match[str]) -> str:
        real = match[1].startswith("=")
        found = compile_expressions([match[1].removeprefix("=")], ("s0", "s1"), real=real)(*values)[
            0
        ]
        return repr(found) if real else str(found)

    return re.sub(r"\+?\{([^}]*)\}", lambda m: ("+" if m[0][0] == "+" else "") + number(m), _TEXT)


def _without_text(image: bytes) -> dict[str, object]:
    from ftm_backend.assembler.image_writer import read_sections

    return {name: records for name, records in read_sections(image).items() if name != "text"}


def _made() -> tuple[bytes, ImageTemplate]:
    with ShapeEnv({"s0": (20, 0), "s1": (40, 0)}):
        image, template = assemble(_TEXT)
    assert template is not None
    return image, template


@pytest.mark.parametrize("values", _VALUES)
def test_an_instance_is_what_assembling_gives(values: tuple[int, int]) -> None:
    image, template = _made()
    assert template.admits(values)
    assert _without_text(template.image(image, values)) == _without_text(
        assembler.assemble(_plain(values))
    )


def test_the_image_itself_is_for_the_numbers_at_hand() -> None:
    image, _ = _made()
    assert _without_text(image) == _without_text(assembler.assemble(_plain((20, 40))))


def test_bytes_and_back() -> None:
    image, template = _made()
    again = ImageTemplate.from_bytes(template.to_bytes(), len(image))
    assert again.image(image, (5, 7)) == template.image(image, (5, 7))
    assert again.guards == template.guards


@pytest.mark.parametrize(
    "damage",
    [
        b"", b"[]", b"[[],[],[],[]", b'[["s0"],["s0"],[[4,8,1]],[]]',
        b'[["s0"],["s0"],[[99999999,8,0]],[]]', b'[["s0"],["s0.x"],[[0,8,0]],[]]',
        b'[["s0"],["s0"],[[0,3,0]],[]]', b'[["s0"],[],[],[["s0","<"]]]', b'[["s0"],["s1"],[],[]]',
    ],
)  # fmt: skip
def test_damaged_templates_are_refused(damage: bytes) -> None:
    image, _ = _made()
    with pytest.raises(TemplateError, match="damaged"):
        ImageTemplate.from_bytes(damage, len(image))


def test_sizes_that_do_not_fit_are_refused() -> None:
    image, template = _made()
    with pytest.raises(TemplateError):
        template.image(image, (1 << 40, 1 << 40))


def test_a_compiled_program_serves_other_sizes_as_if_compiled_for_them() -> None:
    def trace(n: object, declared: str = "") -> str:
        return (
            f"trace\n{declared}  %0 = param f32[{n},12]\n  $0 = scalar f64\n"
            f"  %1 = aten::mul.Scalar(self=%0, other=$0) : f32[{n},12]\n  return %1\n"
        )

    made = compile(trace("{s0}", "  size s0 = 40, 2\n"))
    assert made.template is not None
    assert _without_text(made.image) == _without_text(compile(trace(40)).image)
    assert made.template.admits([57])
    assert made.template.admits([2])
    assert not made.template.admits([1])
    assert (
        made.template.refusal([1])
        == "s0-2 >= 0 does not hold where s0 = 1 (the symbol's least value)"
    )
    assert not made.template.admits([1 << 20])
    assert "(codegen/allocate_scratchpad.py:" in made.template.refusal([1 << 20])
    assert _without_text(made.template.image(made.image, [57]))["shapes"] == [57, 12, 57, 12]
