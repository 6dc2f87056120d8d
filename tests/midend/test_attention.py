"""Attention in blocks, on machines whose DMA works beside the core: as eager computes it, whatever the masks and the numbers are."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor

from ftm_backend import driver, isa
from ftm_backend.machine import Machine, cycles, presets
from ftm_backend.machine.presets import MachineParameters
from ftm_backend.midend import attention, pipeline
from ftm_backend.midend.attention_form import Attention
from ftm_backend.midend.attention_plan import AttentionPlan, attention_plan
from ftm_backend.options import Options
from midend.contraction_programs import assembly

M7032 = presets.load("m7032")
TIGHT = replace(M7032, am_bytes=56 * 1024, sm_bytes=2 * 1024, gsm_bytes=48 * 1024)
"""Scratchpads so small that small attentions have several blocks."""

TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
TOLERANCE = {"f64": 1e-11, "f32": 2e-5, "f16": 4e-3, "bf16": 3e-2}


@dataclass(frozen=True)
class Case:
    """softmax(Q K' * scale, with a mask) * keep, times V; mask: ``add`` [m, n], ``keys`` [batch, n], ``where`` (booleans) or ``causal``."""

    batch: int = 2
    heads: int = 3
    m: int = 33
    n: int = 41
    d: int = 10
    v: int = 7
    dtype: str = "f32"
    mask: str = ""
    safe: bool = False
    keep: bool = False
    turned_keys: bool = False
    turned_result: bool = False

    @property
    def scale(self) -> float:
        return 1 / math.sqrt(max(self.d, 1))

    def trace(self) -> str:
        """As PyTorch's own decomposition records it: heads are batch entries of the products, not of the softmax."""
        b, h, m, n, d, v, t = self.batch, self.heads, self.m, self.n, self.d, self.v, self.dtype
        lines, count = ["trace"], 0
        used = list(self.scalars(0.0))
        number = {name: f"${position}" for position, name in enumerate(used)}

        def line(text: str, kind: str = "") -> str:
            nonlocal count
            lines.append(f"  %{count} = {text}" + (f" : {kind}" if kind else ""))
            count += 1
            return f"%{count - 1}"

        def view(base: str, sizes: list[int], strides: list[int], dtype: str = t) -> str:
            return line(f"ftm.view(base={base}, sizes={sizes}, strides={strides}, offset=0)".replace(" ", "").replace(",s", ", s").replace(
                ",o", ", o"), f"{dtype}[{','.join(map(str, sizes))}]")

        q, k, values = (line(f"param {t}[{b},{h},{rows},{columns}]") for rows, columns in (
            (m, d), (d, n) if self.turned_keys else (n, d), (n, v)))
        mask = {"add": f"param {t}[{m},{n}]", "where": f"param i1[{m},{n}]", "keys": f"param {t}[{b},1,1,{n}]"}.get(self.mask)
        hidden = line(mask) if mask else ""
        kept = line(f"param {t}[{b},{h},{m},{n}]") if self.keep else ""
        lines += [f"  {number[name]} = scalar {'i64' if name == 'one' else 'f64'}" for name in used]
        shape = f"{t}[{b},{h},{m},{n}]"
        q = line(f"aten::mul.Tensor(self={q}, other={number['scale']})", f"{t}[{b},{h},{m},{d}]")
        q = view(q, [b * h, m, d], [m * d, d, 1])
        k = view(k, [b * h, d, n], [n * d, *((n, 1) if self.turned_keys else (1, d))])
        values = view(values, [b * h, n, v], [n * v, v, 1])
        scores = view(line(f"aten::bmm(self={q}, mat2={k})", f"{t}[{b * h},{m},{n}]"), [b, h, m, n], [h * m * n, m * n, n, 1])
        lowest = line(f"aten::full(size=[], fill_value={number['lowest']}, dtype={t})", f"{t}[]") if self.mask in ("where", "causal") else ""
        if self.mask == "causal":
            ones = line(f"aten::full(size=[{m},{n}], fill_value={number['ones']}, dtype=i1)", f"i1[{m},{n}]")
            hidden = line(f"aten::tril(self={ones}, diagonal=0)", f"i1[{m},{n}]")
        if self.mask in ("where", "causal"):
            scores = line(f"aten::where.self(condition={hidden}, self={scores}, other={lowest})", shape)
        elif self.mask:
            scores = line(f"aten::add.Tensor(self={scores}, other={hidden}, alpha={number['one']})", shape)
        weights = line(f"aten::_softmax(self={scores}, dim=-1, half_to_float=false)", shape)
        if self.safe:
            test = line(f"aten::isneginf(self={scores})", f"i1[{b},{h},{m},{n}]")
            none = line(f"aten::all.dim(self={test}, dim=-1, keepdim=true)", f"i1[{b},{h},{m},1]")
            zero = line(f"aten::full(size=[], fill_value={number['given']}, dtype={t})", f"{t}[]")
            weights = line(f"aten::where.self(condition={none}, self={zero}, other={weights})", shape)
        if self.keep:
            weights = line(f"aten::mul.Tensor(self={weights}, other={kept})", shape)
        weights = view(weights, [b * h, m, n], [m * n, n, 1])
        result = line(f"aten::bmm(self={weights}, mat2={values})", f"{t}[{b * h},{m},{v}]")
        if self.turned_result:
            turned = view(result, [b * h, v, m], [m * v, 1, v])
            result = line(f"aten::clone(self={turned}, memory_format=none)", f"{t}[{b * h},{v},{m}]")
        return "\n".join([*lines, f"  return {result}"]) + "\n"

    def scalars(self, given: float) -> dict[str, float]:
        """The program's numbers, by what they are."""
        found = {"scale": self.scale}
        if self.mask in ("where", "causal"):
            found["lowest"] = -math.inf
        if self.mask == "causal":
            found["ones"] = 1.0
        if self.mask in ("add", "keys"):
            found["one"] = 1
        return found | ({"given": given} if self.safe else {})

    def inputs(self, seed: int = 0) -> list[Tensor]:
        """Random operands in the order of the parameters."""
        generator = torch.Generator().manual_seed(seed)
        b, h, m, n, d, v, kind = self.batch, self.heads, self.m, self.n, self.d, self.v, TYPES[self.dtype]

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float64).to(kind)

        found = [normal(b, h, m, d), normal(b, h, *((d, n) if self.turned_keys else (n, d))), normal(b, h, n, v)]
        if self.mask in ("add", "keys"):
            mask = normal(m, n) if self.mask == "add" else normal(b, 1, 1, n)
            found.append(mask.masked_fill(torch.rand(mask.shape, generator=generator) < 0.3, -math.inf))
        if self.mask == "where":
            found.append(torch.rand((m, n), generator=generator) < 0.5)
        if self.keep:
            found.append((torch.rand((b, h, m, n), generator=generator) < 0.8).to(kind) * 1.25)
        return found

    def eager(self, inputs: list[Tensor], given: float) -> Tensor:
        """What the CPU computes."""
        q, k, values, *others = inputs
        scores = (q * self.scale) @ (k if self.turned_keys else k.mT)
        if self.mask == "causal":
            scores = scores.masked_fill(~torch.ones(self.m, self.n, dtype=torch.bool).tril(), -math.inf)
        elif self.mask == "where":
            scores = scores.masked_fill(~others[0], -math.inf)
        elif self.mask:
            scores = scores + others[0]
        weights = scores.softmax(-1)
        if self.safe:
            weights = torch.where((scores == -math.inf).all(-1, keepdim=True), given, weights)
        if self.keep:
            weights = weights * others[-1]
        result = (weights @ values).reshape(self.batch * self.heads, self.m, self.v)
        return result.mT if self.turned_result else result


def linalg(case: Case) -> str:
    """The text that the midend takes."""
    return driver.run_from("trace", case.trace(), "linalg", Options())


def bits(x: Tensor) -> np.ndarray:
    """As the emulator takes it."""
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(np.uint16)
    return np.ascontiguousarray(x.numpy())


def check(case: Case, machine: MachineParameters, cores: list[int], inputs: list[Tensor] | None = None, given: float = 0.0) -> str:
    """Compares with the CPU in checked mode on each number of cores; gives the assembly."""
    inputs = case.inputs() if inputs is None else inputs
    text = assembly(linalg(case), machine)
    image = isa.assemble(text)
    wanted = case.eager(inputs, given)
    for count in cores:
        with Machine(cores=count, checked=True) as emulator:
            (got,) = emulator.load(image).run([bits(x) for x in inputs], list(case.scalars(given).values()))
        found = torch.from_numpy(np.array(got))
        found = found.view(torch.bfloat16) if case.dtype == "bf16" else found
        torch.testing.assert_close(found, wanted, rtol=TOLERANCE[case.dtype], atol=TOLERANCE[case.dtype], equal_nan=True,
                                   msg=lambda text, count=count: f"{count} cores: {text}")
    return text


def joined(case: Case, machine: MachineParameters = M7032) -> list[str]:
    """The kinds of the program's kernels."""
    value = pipeline.FUNCTION.read(linalg(case), machine)
    for step in pipeline.PASSES:
        value = step.run(value, machine)
        if step.name == "join-attention":
            break
    return [kernel.kind for kernel in value.kernels]


CASES = {
    "plain": Case(), "one head": Case(batch=1, heads=1), "few queries": Case(m=5, n=130), "few keys": Case(m=130, n=3),
    "long": Case(batch=1, heads=2, m=260, n=300), "added mask": Case(mask="add"), "booleans": Case(mask="where"),
    "booleans, safe": Case(mask="where", safe=True), "keys": Case(mask="keys"), "causal": Case(mask="causal"),
    "causal, safe": Case(mask="causal", m=70, safe=True), "dropped": Case(keep=True, safe=True),
    "keys as columns": Case(turned_keys=True), "result as columns": Case(turned_result=True), "f64": Case(dtype="f64"),
    "f16": Case(dtype="f16", mask="add"), "bf16": Case(dtype="bf16", mask="where", safe=True), "all": Case(mask="add", safe=True, keep=True),
}


@pytest.mark.parametrize("name", CASES)
def test_one_kernel(name: str) -> None:
    assert joined(CASES[name])[-1] == "attention"
    assert "attention" not in joined(CASES[name], presets.load("host"))


@pytest.mark.parametrize("cores", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("name", CASES)
def test_attention(name: str, cores: int) -> None:
    check(CASES[name], replace(TIGHT, cores=cores), sorted({1, 3, cores}))
    check(CASES[name], replace(M7032, cores=cores), [cores])


@pytest.mark.parametrize(("m", "n", "parts"), [(16, 8, 1), (16, 8, 2), (16, 41, 3), (33, 41, 1), (12, 7, 3), (33, 8, 1), (5, 41, 2)])
@pytest.mark.parametrize("name", ["plain", "all", "result as columns", "keys as columns", "bf16"])
def test_every_plan_is_right(monkeypatch: pytest.MonkeyPatch, name: str, m: int, n: int, parts: int) -> None:
    def plan(form: Attention, machine: MachineParameters) -> AttentionPlan:
        blocks = -(-form.extents[-4] // m)
        return AttentionPlan(m, n, min(parts, blocks), "am", 6 * -(-blocks // parts), 1.0)

    monkeypatch.setattr(attention, "attention_plan", plan)
    check(CASES[name], M7032, [1, 2, 3, 4, 8])


@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize("given", [0.0, 0.25])
@pytest.mark.parametrize("machine", [TIGHT, M7032], ids=["tight", "m7032"])
def test_rows_without_scores_and_numbers_that_are_none(machine: MachineParameters, given: float, safe: bool) -> None:
    case = Case(mask="where", safe=safe, m=40, n=90)
    inputs = case.inputs()
    q, k, values, mask = inputs
    mask[3] = False  # no score at all: NaN, or what the program gives
    mask[4, :60] = False  # none in the first blocks
    mask[5, 30:] = False
    q[0, 0, 7, 2] = math.nan
    q[0, 1, 8] = 1e20  # scores that overflow
    k[1, 0, 60, 1] = math.inf
    values[1, 1, 12, 3] = math.inf
    values[1, 2, 5, 3] = math.nan
    check(case, replace(machine, cores=3), [1, 3], inputs, given)


@pytest.mark.parametrize("case", [Case(m=0), Case(n=0), Case(v=0), Case(d=0), Case(batch=0), Case(m=1), Case(n=1), Case(v=1), Case(d=1)])
def test_thin_and_empty(case: Case) -> None:
    check(case, replace(M7032, cores=3), [3])


def test_weights_that_are_wanted_stay_in_memory() -> None:
    trace = Case().trace()
    weights = next(line.split()[0] for line in trace.splitlines() if "_softmax" in line)
    result = trace.splitlines()[-1].split()[-1]
    text = driver.run_from("trace", trace.replace(f"return {result}", f"return {result}, {weights}"), "join-attention", Options(machine="m7032"))
    assert '"attention"' not in text


def test_a_head_too_wide_for_the_chip_is_left() -> None:
    assert "attention" not in joined(Case(batch=1, heads=1, m=200, n=200, d=4000, v=4000))


@pytest.mark.parametrize("tokens", [100, 256, 512, 700])
@pytest.mark.parametrize("cores", [1, 8])
def test_estimates_are_what_the_cycle_model_charges(monkeypatch: pytest.MonkeyPatch, tokens: int, cores: int) -> None:
    plans: list[AttentionPlan] = []

    def noted(form: Attention, machine: MachineParameters) -> AttentionPlan | None:
        found = attention_plan(form, machine)
        plans.extend([found] if found else [])
        return found

    monkeypatch.setattr(attention, "attention_plan", noted)
    machine = replace(M7032, cores=cores)
    for dtype in ("f32", "f64"):
        text = assembly(linalg(Case(batch=1, heads=12, m=tokens, n=tokens, d=64, v=64, dtype=dtype)), machine)
        charged = cycles.model(text, machine=machine, cores=cores).cycles
        assert 0.85 < plans[-1].cycles / charged < 1.15
