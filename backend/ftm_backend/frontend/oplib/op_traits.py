"""Record: what the recorder must know about an op that its schema does not express.

`recorded` declares it once, next to the op's record, and the recorder receives all traits as
one table. Ops without a record, which run on the CPU, may have traits too: their calls are
checked like eager's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Concatenate, Literal, ParamSpec, get_args

Extent = Literal["first", "dim", "classes", "all", "each"]
"""The range of indices, in terms of the op's first argument: its first dimension; the dimension
that the call names; the class dimension (the second, or the only one); all elements; for a list of
indices, the dimensions in order."""

Call = Literal[
    "always",
    "out",
    "mixed",
    "mixed_reals",
    "integers",
    "bools",
    "no_dims",
    "negatives",
    "negative_exponent",
    "transposed_integers",
    "halves",
    "one_sample",
]
"""Kinds of calls, in order: any; with ``out=``; with tensors of several dtypes; with floating-point
tensors of several dtypes; with a first argument of integers or bools; with a bool operand; with an
empty list as second argument; with a negative number in a list; an integer tensor with a negative
``exponent``; ``transposed`` with integers; with a first argument of a half type; with a first
argument of fewer than two dimensions."""

Composite = Literal["", "whole", "unfit", "serves"]
"""How to treat ATen's composite kernel. "" : let it handle calls if it exists and the op reaches no
backend otherwise. "whole": skip it, because the op lowers better undecomposed. "unfit": it supports
only listed devices or needs more from a backend, so unsupported calls run on the CPU. "serves": use
it although it appears to call the op's own ``out=`` form."""

Layout = Literal["", "cpu", "convolution", "convolution_backward"]
"""How the CPU lays out results if neither the meta kernel nor ``like`` determines it
(csrc/shape_inference/result_strides.cpp). "cpu": call the CPU kernel on zeros. "convolution",
"convolution_backward": as the kernel that ATen selects. A non-structured op also tries the CPU
whenever an operand is not row-major."""

Refusal = Literal["", "zero_divisors", "zero_divisors_if_rounded", "no_distribution"]
"""Elements that eager rejects: an integer divisor of 0; the same only with a rounding mode; weights
that are no distribution."""

Concatenation = Literal["", "dim", "new_dim"]
"""Concatenates along an existing dimension, or a new one, given by the op's second argument."""

Draws = Literal[
    "",
    "uniform",
    "normal",
    "log_normal",
    "cauchy",
    "geometric",
    "exponential",
    "bernoulli",
    "integers",
    "permutation",
    "choice",
    "dropout",
]
"""The distribution; its parameters are the arguments with the usual names."""


@dataclass(frozen=True, slots=True)
class IndexArguments:
    """An argument with indices into the op's first argument.

    Attributes:
        argument: Its position.
        within: The range of the indices.
        wraps: Negative indices count from the end.
    """

    argument: int
    within: Extent
    wraps: bool = False


@dataclass(slots=True, init=False, unsafe_hash=True)
class ValueDomain:
    """Valid numbers: each of ``ends`` must be at most the next.

    An end is a number or the name of an argument. Overloads that lack such an argument, or pass a
    tensor, are not checked.

    Attributes:
        ends: Two or more numbers or names.
        where: Check only if this bool argument is not False; "" checks always.
    """

    ends: tuple[int | str, ...]
    where: str

    def __init__(self, *ends: int | str, where: str = "") -> None:
        """Store the ends and the condition."""
        if len(ends) < 2:
            raise ValueError("a domain has two ends or more")
        self.ends, self.where = ends, where


@dataclass(frozen=True, slots=True, kw_only=True)
class OpTraits:
    """Traits of an op.

    Attributes:
        constants: Scalar arguments that shape the program (bounds of a range, the order of a norm).
            Other scalars are runtime arguments and do not recompile.
        runtime: Float arguments that are runtime arguments; other floats shape the program.
        indices: The argument with indices; indices from the CPU are checked at the call.
        cpu_indices: Index arguments may be CPU tensors.
        domain: Valid numbers, as eager checks them.
        forbids_overlap: Eager rejects outputs that overlap inputs.
        value_is_number: A tensor ``value`` is read as a number before any write, so it may overlap
            the destination.
        tried: Calls that the meta kernel may accept and eager reject; they are tried on the CPU
            kernel with zeros.
        ranks: Valid ranks of the first arguments; calls with other ranks are tried as well.
        checks_dim: The meta kernel rejects a wrong ``dim`` with a better message than the CPU.
        checks_alpha: Eager requires an ``alpha`` that the result's dtype can represent; the meta
            kernel does not check.
        asks_cpu: Calls whose result types on the CPU differ from the meta kernel's.
        refuses: Elements that eager rejects.
        may_fail: A running program can find an element that the op rejects; the error names the
            line that recorded the call. For ops without ``indices``.
        converts_to_out: The result is cast to the dtype of ``out``; a trial on zeros does not show
            it.
        takes_no_bools: There is no kernel for bool results.
        concatenates: How it concatenates a list of tensors of one type. Long lists are concatenated
            in steps, each one program.
        masks_results: The CPU leaves results undefined that ``output_mask`` excludes; the meta
            kernel defines them.
        counts_bags: The results other than the bags follow the meta kernel; the CPU omits those
            that its backward does not need.
        composite: How to treat ATen's composite kernel.
        like: The argument whose memory format the CPU gives the first result; -1: the meta kernel's
            strides are right.
        layout: Otherwise, how the CPU lays out the result.
        draws: The distribution that the reference executor (csrc/reference/random_ops.cpp) draws
            for programs that do not compile, with the same numbers as the lowering. Other random
            ops use the CPU's streams there.
    """

    constants: tuple[str, ...] = ()
    runtime: tuple[str, ...] = ()
    indices: IndexArguments | None = None
    cpu_indices: bool = False
    domain: ValueDomain | None = None
    forbids_overlap: bool = False
    value_is_number: bool = False
    tried: tuple[Call, ...] = ()
    ranks: tuple[int, ...] = ()
    checks_dim: bool = False
    checks_alpha: bool = False
    asks_cpu: Call | Literal[""] = ""
    refuses: Refusal = ""
    may_fail: bool = False
    converts_to_out: bool = False
    takes_no_bools: bool = False
    concatenates: Concatenation = ""
    masks_results: bool = False
    counts_bags: bool = False
    composite: Composite = ""
    like: int = -1
    layout: Layout = ""
    draws: Draws = ""

    def __post_init__(self) -> None:
        """Check that all words are known."""
        given: dict[str, tuple[tuple[str, ...], object]] = {
            "indices": ((self.indices.within,) if self.indices else (), Extent),
            "tried": (self.tried, Call),
            "asks_cpu": ((self.asks_cpu,) if self.asks_cpu else (), Call),
            "refuses": ((self.refuses,), Refusal),
            "composite": ((self.composite,), Composite),
            "layout": ((self.layout,), Layout),
            "draws": ((self.draws,), Draws),
            "concatenates": ((self.concatenates,), Concatenation),
        }
        for fact, (words, known) in given.items():
            for word in words:
                if word not in get_args(known):
                    raise ValueError(
                        f"{fact}: one of {', '.join(filter(None, get_args(known)))}, not {word!r}"
                    )

    def words(self) -> dict[str, list[str]]:
        """Return the traits that differ from the default, as words; a bool has none."""
        words: dict[str, list[str]] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if value == f.default:
                continue
            if isinstance(value, bool):
                words[f.name] = []
            elif isinstance(value, IndexArguments):
                words[f.name] = [
                    value.within,
                    str(value.argument),
                    *(["wraps"] if value.wraps else []),
                ]
            elif isinstance(value, ValueDomain):
                words[f.name] = [value.where, *map(str, value.ends)]
            else:
                words[f.name] = [
                    str(word) for word in (value if isinstance(value, tuple) else (value,))
                ]
        return words


TRAITS: dict[str, OpTraits] = {}
"""Traits by op name without overload."""

P = ParamSpec("P")


def _with_parameters_of(
    make: Callable[P, OpTraits],
) -> Callable[Concatenate[str, P], None]:
    """Return a function with the parameters of `make`, so that fields are declared only once."""

    def recorded(names: str, /, *args: P.args, **facts: P.kwargs) -> None:
        """Declare the traits of ops; the arguments are the fields of `OpTraits`.

        Args:
            names: Op names without overloads, separated by blanks.
            *args: Unused; all fields are keyword-only.
            **facts: Fields of `OpTraits`.

        Raises:
            ValueError: A name has an overload or has traits already, or a word is unknown.
        """
        traits = make(*args, **facts)
        for name in names.split():
            if "." in name or "::" not in name:
                raise ValueError(f"{name}: traits cover all overloads: write namespace::name")
            if name in TRAITS:
                raise ValueError(f"{name} has traits already")
            TRAITS[name] = traits

    return recorded


recorded = _with_parameters_of(OpTraits)


def trait_table() -> list[tuple[str, dict[str, list[str]]]]:
    """Return the name and the words of each op with traits, for the recorder."""
    return [(name, facts.words()) for name, facts in TRAITS.items()]
