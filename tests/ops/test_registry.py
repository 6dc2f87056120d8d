"""The table of op records: complete, importable without MLIR, true to PyTorch's schemas."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
import torch

from ftm_backend.frontend import lower
from ftm_backend.frontend.oplib import advanced_indexing
from ftm_backend.frontend.oplib.op_registry import omitted_arguments, parameter_name, register
from ftm_backend.frontend.oplib.op_traits import TRAITS
from ftm_backend.frontend.ops import RECORDS, OpRecord, native_ops
from ftm_backend.ir.linalg.printer import print_function
from ops import samples, test_records


def test_importing_records_loads_no_mlir() -> None:
    code = "import sys, ftm_backend.frontend.ops as o; o.native_ops(); print([m for m in sys.modules if m.partition('.')[0] in ('torch', 'torch_mlir')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_family_has_samples() -> None:
    families = {
        r.family
        for n, r in RECORDS.items()
        if n.startswith(("aten::", "ftm::")) and not r.family.startswith("random")
    }
    assert families <= set(samples.SAMPLERS), (
        f"no samples for {sorted(families - set(samples.SAMPLERS))}"
    )


def test_every_name_is_an_op_of_pytorch() -> None:
    missing = []
    for name in native_ops():
        try:
            samples.for_op(name)
        except AttributeError:
            missing.append(name)
    assert not missing


def test_domains_name_arguments() -> None:
    """Of some overload: overloads without such an argument are not checked."""
    strange = []
    for name, facts in TRAITS.items():
        words = (
            (*facts.domain.ends, facts.domain.where)
            if facts.domain and name.startswith("aten::")
            else ()
        )
        packet = getattr(torch.ops.aten, name.removeprefix("aten::"), None)
        overloads = (
            [getattr(packet, overload)._schema for overload in packet.overloads()] if words else []
        )
        known = {argument.name for schema in overloads for argument in schema.arguments}
        strange += [
            f"{name}: {word}"
            for word in words
            if isinstance(word, str) and word and word not in known
        ]
    assert strange == []


def _checks_elements(name: str) -> bool:
    """Whether the lowering of a sampled call has a place that makes the machine fault."""
    sampled = next(
        iter(
            test_records.calls(name, next(t for t in ("f32", "i64") if t in RECORDS[name].dtypes))
        ),
        None,
    )
    return sampled is not None and str(advanced_indexing.OUT_OF_BOUNDS) in print_function(
        lower(sampled[0].trace)
    )


def test_ops_that_check_elements_have_their_line_noted() -> None:
    """Their errors surface after the call, so the message must name its line."""
    modules = {
        n: sys.modules[r.lower.__module__] for n, r in RECORDS.items() if n in test_records.NAMES
    }
    checking = [
        n
        for n, module in modules.items()
        if {"checked_index", "OUT_OF_BOUNDS", "fault_unless", "scatter_planes"} & set(vars(module))
        and _checks_elements(n)
    ]
    assert "aten::embedding" in checking and "aten::max_unpool2d" in checking
    silent = [
        n
        for n in checking
        if not (facts := TRAITS.get(n.split(".")[0])) or not (facts.indices or facts.may_fail)
    ]
    assert not silent


@pytest.mark.parametrize("name", sorted(n for n in RECORDS if n.startswith(("aten::", "ftm::"))))
def test_lowerings_take_the_schemas_arguments(name: str) -> None:
    """A lowering must be callable with the arguments that the recorder prints."""
    omitted = omitted_arguments(RECORDS[name].lower)
    schema = [a.name for a in samples.for_op(name)._schema.arguments if a.name not in omitted]
    arguments = [parameter_name(name, argument) for argument in schema]
    parameters = inspect.signature(RECORDS[name].lower).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        assert set(arguments) <= set(parameters)
    required = {
        p.name
        for p in parameters.values()
        if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    } - {"b"}
    if torch.Tag.nondeterministic_seeded in samples.for_op(name).tags:
        required -= {"seed", "offset"}
    assert required <= set(arguments)


def record(**changes: object) -> OpRecord:
    facts = {
        "names": ("aten::new_op",),
        "dtypes": ("f32",),
        "lower": lambda b, self: self,
        "family": "unary",
    }
    return OpRecord(**{**facts, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"names": ()}, "without names"),
        ({"names": ("relu",)}, "names are written as in a trace"),
        ({"names": ("aten::relu",)}, "two records"),
        ({"dtypes": ("float32",)}, "dtypes must be tokens"),
        ({"dtypes": ()}, "dtypes must be tokens"),
        ({"family": ""}, "a family is needed"),
        ({"tolerance": {"i64": (1.0, 1.0)}}, "results are exact"),
        ({"lower": lambda self: self}, "first parameter"),
    ],
)
def test_an_incomplete_record_fails_at_registration(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        register(record(**changes))
    assert "aten::new_op" not in RECORDS
