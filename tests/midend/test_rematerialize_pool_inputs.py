"""Pass `rematerialize-pool-inputs`: results, and which feature maps are computed again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ftm_backend.ir.linalg.function import Statement
from ftm_backend.midend.transforms.tensor.rematerialize_pool_inputs import rematerialize_pool_inputs
from midend.harness import TOLERANCE
from midend.stems import stem
from midend.trace_builder import Program
from midend.trace_programs import M7032, assembly, check, linalg


def network(shown: bool = False, **given: Any) -> Program:
    """A stem that returns the pooled images and the gradient of its input.

    shown: what is pooled is a result, too.
    """
    made = stem(**given)
    of_input = made.batch_norm_backward(of_image=True)[0]
    return made.program.returns(*made.pooled, of_input, *[made.image] * shown)


def is_recomputed(program: Program) -> bool:
    """Whether a feature map is recomputed: only gradients and summands of its size are stored."""
    function, shape = linalg(program), program.parameters[0].shape

    def stored() -> int:
        statements = [item for item in function.body if isinstance(item, Statement)]
        return sum(any(r.value.shape == shape for r in s.results) for s in statements)

    before = stored()
    rematerialize_pool_inputs(function, M7032)
    return stored() < before


CASES: dict[str, dict[str, Any]] = {
    "a network's first": {"shape": (2, 32, 40, 40)},
    "odd images": {"shape": (3, 21, 29, 37)},
    "channels in pieces": {"shape": (1, 133, 22, 23)},
    "windows apart": {
        "shape": (2, 40, 32, 33), "kernel": (2, 3), "stride": (3, 4), "padding": (0, 1),
    },
    "without a border": {"shape": (2, 33, 32, 34), "kernel": (2, 2), "padding": (0, 0)},
    "without an activation": {
        "shape": (2, 32, 26, 26), "kernel": (5, 2), "stride": (1, 3), "padding": (2, 0),
        "activation": False,
    },
    "means": {"shape": (2, 32, 24, 26), "average": True},
    "few channels": {"shape": (2, 3, 40, 41)},
    "one image of one channel": {"shape": (1, 1, 64, 64)},
}  # fmt: skip


def run(program: Program, **machine: int) -> None:
    preset = replace(M7032, **machine)
    check(program, assembly(program, preset), *{preset.cores, 3}, tolerance=20 * TOLERANCE["f32"])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", CASES)
def test_every_stem(name: str, cores: int) -> None:
    program = network(**CASES[name])
    assert is_recomputed(program)
    run(program, cores=cores)


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("name", ["a network's first", "odd images", "means"])
@pytest.mark.parametrize("kilobytes", [48, 128])
def test_small_scratchpads(name: str, dtype: str, kilobytes: int) -> None:
    run(network(**CASES[name], dtype=dtype), cores=3, am_bytes=kilobytes * 1024)


@pytest.mark.parametrize(
    "given",
    [
        {"shape": (2, 32, 40, 40), "shown": True},
        {"shape": (2, 40, 31, 34), "kernel": (2, 3), "stride": (3, 4), "padding": (0, 1)},
    ],
    ids=["an image that is a result", "windows that leave some of an image out"],
)
def test_what_is_computed_once(given: dict[str, Any]) -> None:
    program = network(**given)
    assert not is_recomputed(program)
    run(program, cores=3)
