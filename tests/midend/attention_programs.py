"""Attention programs for tests: traces from PyTorch's decomposition, inputs, and CPU results."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ftm_backend.midend.kernel_ir.kernel_kind import KernelKind
from ftm_backend.target.presets import MachineParameters
from midend import trace_programs
from midend.trace_builder import Program, Scalar, Value
from midend.trace_programs import M7032, after, assembly

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
    stored transposed, as autograd writes that of ``k.mT``. one_op: the softmax that gives rows
    without any score zeros is one op.
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
    one_op: bool = False
    keep: bool = False
    turned_keys: bool = False
    turned_result: bool = False
    backward: bool = False
    both: bool = False
    columns: bool = False

    @property
    def scale(self) -> float:
        return 1 / math.sqrt(max(self.d, 1))

    def program(self, inputs: list[Tensor] | None = None, given: float = 0.0) -> Program:
        """As PyTorch's own decomposition records it: heads are batch entries of the products, not
        of the softmax.

        given: the weights of rows without any score, if `safe`.
        """
        t, dtype = Program(self.dtype), self.dtype
        b, h, m, n, d, v = self.batch, self.heads, self.m, self.n, self.d, self.v
        q, k, values, *others = (
            t.parameter(x, "i1" if x.dtype == torch.bool else dtype)
            for x in inputs or self.inputs()
        )
        hidden = others.pop(0) if self.mask in ("add", "keys", "where") else None
        kept = others.pop(0) if self.keep else None
        is_chosen = self.mask in ("where", "causal")

        def full(number: float, shape: tuple[int, ...] = (), dtype: str = dtype) -> Value:
            size = list(shape)
            return t.call("full", [dtype], size=size, fill_value=t.scalar(number), dtype=dtype)

        def times(x: Value, y: Value | Scalar) -> Value:
            return t.call("mul.Tensor", self=x, other=y)

        def heads(x: Value) -> Value:
            return t.view(x, [b, h, m, n], [h * m * n, m * n, n, 1])

        def bmm(x: Value, y: Value) -> Value:
            return t.call("bmm", self=x, mat2=y)

        q = t.view(times(q, t.scalar(self.scale)), [b * h, m, d], [m * d, d, 1])
        keys = t.view(k, [b * h, d, n], [n * d, *((n, 1) if self.turned_keys else (1, d))])
        turned = t.view(values, [b * h, v, n], [n * v, 1, v]) if self.backward else None
        if self.both or not self.backward:
            values = t.view(values, [b * h, n, v], [n * v, v, 1])
        scores = heads(bmm(q, keys))
        lowest = full(-math.inf) if is_chosen else None
        if self.mask == "causal":
            hidden = t.call("tril", self=full(1.0, (m, n), "i1"), diagonal=0)
        if is_chosen:
            scores = t.call("where.self", condition=hidden, self=scores, other=lowest)
        elif self.mask:
            scores = t.call("add.Tensor", self=scores, other=hidden, alpha=t.scalar(1))
        if self.one_op:
            weights = t.call("_safe_softmax", self=scores, dim=-1, dtype=None)
        else:
            weights = t.call("_softmax", self=scores, dim=-1, half_to_float=False)
        if self.safe:
            test = t.call("isneginf", self=scores)
            none = t.call("all.dim", self=test, dim=-1, keepdim=True)
            weights = t.call("where.self", condition=none, self=full(given), other=weights)
        softmax = weights
        weights = times(weights, kept) if kept else weights
        if not self.backward:
            result = bmm(t.view(weights, [b * h, m, n], [m * n, n, 1]), values)
            if self.turned_result:
                result = t.view(result, [b * h, v, m], [m * v, 1, v])
                result = t.call("clone", self=result, memory_format=None)
            return t.returns(result)
        gradient = others.pop(0)
        results = []
        if self.both:
            results = [bmm(t.view(weights, [b * h, m, n], [m * n, n, 1]), values)]
            gradient = times(results[0], gradient)

        def of_scores(x: Value, y: Value, is_turned: bool, columns: int) -> Value:
            """The product of scores, or of their transpose, with [.., columns]."""
            rows, inner = (n, m) if is_turned else (m, n)
            if self.columns:
                y = t.view(y, [b * h, columns, inner], [inner * columns, 1, columns])
                steps = (n, 1) if is_turned else (1, n)
                return bmm(y, t.view(x, [b * h, inner, rows], [m * n, *steps]))
            steps = (1, n) if is_turned else (n, 1)
            return bmm(t.view(x, [b * h, rows, inner], [m * n, *steps]), y)

        of_values = of_scores(weights, gradient, True, v)
        slopes = heads(bmm(gradient, turned))
        slopes = times(slopes, kept) if kept else slopes
        given_slopes = {"grad_output": slopes, "output": softmax, "dim": -1, "input_dtype": dtype}
        slopes = t.call("_softmax_backward_data", **given_slopes)
        if is_chosen:
            slopes = t.call("where.self", condition=hidden, self=slopes, other=full(0.0))
        k = t.view(k, [b * h, n, d], [n * d, *((1, n) if self.turned_keys else (d, 1))])
        of_q = times(of_scores(slopes, k, False, d), t.scalar(self.scale))
        return t.returns(*results, of_q, of_scores(slopes, q, True, d), of_values)

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


def check(
    case: Case,
    machine: MachineParameters,
    cores: list[int],
    inputs: list[Tensor] | None = None,
    given: float = 0.0,
) -> None:
    """Compares with the CPU in checked mode on each number of cores."""
    program = case.program(inputs, given)
    text, tolerance = assembly(program, machine), TOLERANCE[case.dtype]
    trace_programs.check(program, text, *cores, tolerance=tolerance, scaled=False)


def joined(program: Program, machine: MachineParameters = M7032) -> list[KernelKind]:
    """The kinds of the program's kernels."""
    return [kernel.kind for kernel in after(program, "fuse-attention", machine).kernels]


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
    "causal, one op": Case(mask="causal", m=70, one_op=True),
    "dropped": Case(keep=True, safe=True),
    "dropped, one op": Case(mask="where", keep=True, one_op=True, dtype="bf16"),
    "keys as columns": Case(turned_keys=True),
    "result as columns": Case(turned_result=True),
    "f64": Case(dtype="f64"),
    "f16": Case(dtype="f16", mask="add"),
    "bf16": Case(dtype="bf16", mask="where", safe=True),
    "all": Case(mask="add", safe=True, keep=True),
}
