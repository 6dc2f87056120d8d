"""Attention programs for tests: traces from PyTorch's decomposition, inputs, and CPU results."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ftm_backend import assembler, driver
from ftm_backend.compile_options import CompileOptions
from ftm_backend.machine import Machine
from ftm_backend.midend import pipeline
from ftm_backend.target import presets
from ftm_backend.target.presets import MachineParameters
from midend.contraction_programs import assembly

M7032 = presets.load("m7032")
TIGHT = replace(M7032, am_bytes=56 * 1024, sm_bytes=2 * 1024, gsm_bytes=48 * 1024)
"""Scratchpads so small that small attentions have several blocks."""

TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
TOLERANCE = {"f64": 1e-11, "f32": 2e-5, "f16": 4e-3, "bf16": 3e-2}


@dataclass(frozen=True)
class Case:
    """softmax(Q K' * scale, with a mask) * keep, times V.

    mask: ``add`` [m, n], ``keys`` [batch, n], ``where`` (booleans) or ``causal``. backward: the
    gradients of queries, keys and values instead; the result's gradient is one more operand. both:
    the result as well; the gradient is that of its weighted half squares. columns: the gradients are
    stored transposed, as autograd writes that of ``k.mT``.
    """

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
    backward: bool = False
    both: bool = False
    columns: bool = False

    @property
    def scale(self) -> float:
        return 1 / math.sqrt(max(self.d, 1))

    def trace(self) -> str:
        """As PyTorch's own decomposition records it: heads are batch entries of the products, not
        of the softmax."""
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
            return line(
                f"ftm.view(base={base}, sizes={sizes}, strides={strides}, offset=0)".replace(
                    " ", ""
                )
                .replace(",s", ", s")
                .replace(",o", ", o"),
                f"{dtype}[{','.join(map(str, sizes))}]",
            )

        q, k, values = (
            line(f"param {t}[{b},{h},{rows},{columns}]")
            for rows, columns in ((m, d), (d, n) if self.turned_keys else (n, d), (n, v))
        )
        mask = {
            "add": f"param {t}[{m},{n}]",
            "where": f"param i1[{m},{n}]",
            "keys": f"param {t}[{b},1,1,{n}]",
        }.get(self.mask)
        hidden = line(mask) if mask else ""
        kept = line(f"param {t}[{b},{h},{m},{n}]") if self.keep else ""
        grad = line(f"param {t}[{b * h},{m},{v}]") if self.backward else ""
        lines += [f"  {number[name]} = scalar {'i64' if name == 'one' else 'f64'}" for name in used]
        shape = f"{t}[{b},{h},{m},{n}]"
        q = line(f"aten::mul.Tensor(self={q}, other={number['scale']})", f"{t}[{b},{h},{m},{d}]")
        q = view(q, [b * h, m, d], [m * d, d, 1])
        keys = k
        k = view(keys, [b * h, d, n], [n * d, *((n, 1) if self.turned_keys else (1, d))])
        turned = view(values, [b * h, v, n], [n * v, 1, v]) if self.backward else ""
        values = (
            "" if self.backward and not self.both else view(values, [b * h, n, v], [n * v, v, 1])
        )
        scores = view(
            line(f"aten::bmm(self={q}, mat2={k})", f"{t}[{b * h},{m},{n}]"),
            [b, h, m, n],
            [h * m * n, m * n, n, 1],
        )
        lowest = (
            line(f"aten::full(size=[], fill_value={number['lowest']}, dtype={t})", f"{t}[]")
            if self.mask in ("where", "causal")
            else ""
        )
        if self.mask == "causal":
            ones = line(
                f"aten::full(size=[{m},{n}], fill_value={number['ones']}, dtype=i1)", f"i1[{m},{n}]"
            )
            hidden = line(f"aten::tril(self={ones}, diagonal=0)", f"i1[{m},{n}]")
        if self.mask in ("where", "causal"):
            scores = line(
                f"aten::where.self(condition={hidden}, self={scores}, other={lowest})", shape
            )
        elif self.mask:
            scores = line(
                f"aten::add.Tensor(self={scores}, other={hidden}, alpha={number['one']})", shape
            )
        weights = line(f"aten::_softmax(self={scores}, dim=-1, half_to_float=false)", shape)
        if self.safe:
            test = line(f"aten::isneginf(self={scores})", f"i1[{b},{h},{m},{n}]")
            none = line(f"aten::all.dim(self={test}, dim=-1, keepdim=true)", f"i1[{b},{h},{m},1]")
            zero = line(f"aten::full(size=[], fill_value={number['given']}, dtype={t})", f"{t}[]")
            weights = line(
                f"aten::where.self(condition={none}, self={zero}, other={weights})", shape
            )
        softmax = weights
        if self.keep:
            weights = line(f"aten::mul.Tensor(self={weights}, other={kept})", shape)
        if self.both:
            result = line(
                f"aten::bmm(self={view(weights, [b * h, m, n], [m * n, n, 1])}, mat2={values})",
                f"{t}[{b * h},{m},{v}]",
            )
            grad = line(f"aten::mul.Tensor(self={result}, other={grad})", f"{t}[{b * h},{m},{v}]")

        def product(
            of_scores: str, other: str, rows: int, inner: int, columns: int, turned: bool
        ) -> str:
            """The product [rows, inner] x [inner, columns], or its transpose.

            turned: the first operand is the transpose of ``of_scores``.
            """
            if self.columns:
                other = view(other, [b * h, columns, inner], [inner * columns, 1, columns])
                sides = ([b * h, inner, rows], [m * n, *((n, 1) if turned else (1, n))])
                return line(
                    f"aten::bmm(self={other}, mat2={view(of_scores, *sides)})",
                    f"{t}[{b * h},{columns},{rows}]",
                )
            sides = ([b * h, rows, inner], [m * n, *((1, n) if turned else (n, 1))])
            return line(
                f"aten::bmm(self={view(of_scores, *sides)}, mat2={other})",
                f"{t}[{b * h},{rows},{columns}]",
            )

        if self.backward:
            of_values = product(weights, grad, n, m, v, turned=True)
            slopes = view(
                line(f"aten::bmm(self={grad}, mat2={turned})", f"{t}[{b * h},{m},{n}]"),
                [b, h, m, n],
                [h * m * n, m * n, n, 1],
            )
            if self.keep:
                slopes = line(f"aten::mul.Tensor(self={slopes}, other={kept})", shape)
            slopes = line(
                f"aten::_softmax_backward_data(grad_output={slopes}, output={softmax}, dim=-1, input_dtype={t})",
                shape,
            )
            if self.mask in ("where", "causal"):
                zero = line(
                    f"aten::full(size=[], fill_value={number['zero']}, dtype={t})", f"{t}[]"
                )
                slopes = line(
                    f"aten::where.self(condition={hidden}, self={slopes}, other={zero})", shape
                )
            keys = view(keys, [b * h, n, d], [n * d, *((1, n) if self.turned_keys else (d, 1))])
            of_q = product(slopes, keys, m, n, d, turned=False)
            sides = (d, m) if self.columns else (m, d)
            of_q = line(
                f"aten::mul.Tensor(self={of_q}, other={number['of_q']})",
                f"{t}[{b * h},{sides[0]},{sides[1]}]",
            )
            of_k = product(slopes, q, n, m, d, turned=True)
            return (
                "\n".join(
                    [
                        *lines,
                        "  return "
                        + ", ".join([*([result] if self.both else []), of_q, of_k, of_values]),
                    ]
                )
                + "\n"
            )
        weights = view(weights, [b * h, m, n], [m * n, n, 1])
        result = line(f"aten::bmm(self={weights}, mat2={values})", f"{t}[{b * h},{m},{v}]")
        if self.turned_result:
            turned = view(result, [b * h, v, m], [m * v, 1, v])
            result = line(
                f"aten::clone(self={turned}, memory_format=none)", f"{t}[{b * h},{v},{m}]"
            )
        return "\n".join([*lines, f"  return {result}"]) + "\n"

    def scalars(self, given: float) -> dict[str, float]:
        """The program's scalars by name."""
        found = {"scale": self.scale}
        if self.mask in ("where", "causal"):
            found["lowest"] = -math.inf
        if self.mask == "causal":
            found["ones"] = 1.0
        if self.mask in ("add", "keys"):
            found["one"] = 1
        if self.safe:
            found["given"] = given
        if self.backward and self.mask in ("where", "causal"):
            found["zero"] = 0.0
        return found | ({"of_q": self.scale} if self.backward else {})

    def inputs(self, seed: int = 0) -> list[Tensor]:
        """Random operands in the order of the parameters."""
        generator = torch.Generator().manual_seed(seed)
        b, h, m, n, d, v, kind = (
            self.batch, self.heads, self.m, self.n, self.d, self.v, TYPES[self.dtype],
        )  # fmt: skip

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float64).to(kind)

        found = [
            normal(b, h, m, d),
            normal(b, h, *((d, n) if self.turned_keys else (n, d))),
            normal(b, h, n, v),
        ]
        if self.mask in ("add", "keys"):
            mask = normal(m, n) if self.mask == "add" else normal(b, 1, 1, n)
            found.append(
                mask.masked_fill(torch.rand(mask.shape, generator=generator) < 0.3, -math.inf)
            )
        if self.mask == "where":
            found.append(torch.rand((m, n), generator=generator) < 0.5)
        if self.keep:
            found.append((torch.rand((b, h, m, n), generator=generator) < 0.8).to(kind) * 1.25)
        if self.backward:
            found.append(normal(b * h, m, v))
        return found

    def eager(self, inputs: list[Tensor], given: float) -> list[Tensor]:
        """The CPU's results."""
        q, k, values, *others = inputs
        scores = (q * self.scale) @ (k if self.turned_keys else k.mT)
        if self.mask == "causal":
            scores = scores.masked_fill(
                ~torch.ones(self.m, self.n, dtype=torch.bool).tril(), -math.inf
            )
        elif self.mask == "where":
            scores = scores.masked_fill(~others[0], -math.inf)
        elif self.mask:
            scores = scores + others[0]
        weights = scores.softmax(-1)
        if self.safe:
            weights = torch.where((scores == -math.inf).all(-1, keepdim=True), given, weights)
        softmax = weights
        if self.keep:
            weights = weights * others[-2 if self.backward else -1]
        if self.backward:
            return self._gradients(inputs, softmax, weights)
        result = (weights @ values).reshape(self.batch * self.heads, self.m, self.v)
        return [result.mT if self.turned_result else result]

    def _gradients(self, inputs: list[Tensor], softmax: Tensor, weights: Tensor) -> list[Tensor]:
        q, k, values, *others, grad = inputs
        grad = grad.reshape(self.batch, self.heads, self.m, self.v)
        result = weights @ values
        if self.both:
            grad = grad * result
        slopes = grad @ values.mT
        if self.keep:
            slopes = slopes * others[-1]
        slopes = torch._softmax_backward_data(slopes, softmax, -1, softmax.dtype)
        if self.mask == "causal":
            slopes = slopes.masked_fill(~torch.ones(self.m, self.n, dtype=torch.bool).tril(), 0)
        elif self.mask == "where":
            slopes = slopes.masked_fill(~others[0], 0)
        found = (
            (slopes @ (k.mT if self.turned_keys else k)) * self.scale,
            slopes.mT @ (q * self.scale),
            weights.mT @ grad,
        )
        if self.columns:
            found = tuple(x.mT for x in found)
        return [
            x.reshape(self.batch * self.heads, *x.shape[2:])
            for x in ((result,) * self.both + found)
        ]


def linalg(case: Case) -> str:
    """The text that the midend takes."""
    return driver.run_from("trace", case.trace(), "linalg", CompileOptions())


def bits(x: Tensor) -> np.ndarray:
    """As the emulator takes it."""
    if x.dtype == torch.bfloat16:
        return x.view(torch.int16).numpy().view(np.uint16)
    return np.ascontiguousarray(x.numpy())


def check(
    case: Case,
    machine: MachineParameters,
    cores: list[int],
    inputs: list[Tensor] | None = None,
    given: float = 0.0,
) -> str:
    """Compares with the CPU in checked mode on each number of cores; gives the assembly."""
    inputs = case.inputs() if inputs is None else inputs
    text = assembly(linalg(case), machine)
    image = assembler.assemble(text)
    wanted = case.eager(inputs, given)
    for count in cores:
        with Machine(cores=count, checked=True) as emulator:
            results = emulator.load(image).run(
                [bits(x) for x in inputs], list(case.scalars(given).values())
            )
        for number, (got, expected) in enumerate(zip(results, wanted, strict=True)):
            found = torch.from_numpy(np.array(got))
            found = found.view(torch.bfloat16) if case.dtype == "bf16" else found
            torch.testing.assert_close(
                found,
                expected,
                rtol=TOLERANCE[case.dtype],
                atol=TOLERANCE[case.dtype],
                equal_nan=True,
                msg=lambda text, where=(count, number): f"cores, result {where}: {text}",
            )
    return text


def joined(case: Case, machine: MachineParameters = M7032) -> list[str]:
    """The kinds of the program's kernels."""
    value = pipeline.LINALG.read(linalg(case), machine)
    for step in pipeline.pipeline(machine):
        value = step.run(value, machine)
        if step.name == "fuse-attention":
            break
    return [kernel.kind for kernel in value.kernels]


CASES = {
    "plain": Case(),
    "one head": Case(batch=1, heads=1),
    "few queries": Case(m=5, n=130),
    "few keys": Case(m=130, n=3),
    "long": Case(batch=1, heads=2, m=260, n=300),
    "added mask": Case(mask="add"),
    "booleans": Case(mask="where"),
    "booleans, safe": Case(mask="where", safe=True),
    "keys": Case(mask="keys"),
    "causal": Case(mask="causal"),
    "causal, safe": Case(mask="causal", m=70, safe=True),
    "dropped": Case(keep=True, safe=True),
    "keys as columns": Case(turned_keys=True),
    "result as columns": Case(turned_result=True),
    "f64": Case(dtype="f64"),
    "f16": Case(dtype="f16", mask="add"),
    "bf16": Case(dtype="bf16", mask="where", safe=True),
    "all": Case(mask="add", safe=True, keep=True),
}
