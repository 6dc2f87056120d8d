"""What the recorder has to know of an op that its schema does not say.

It is said beside the op's record, once, by `recorded`; the recorder gets all of it as one table.
Ops without a record, which run on the CPU, may be named as well: their calls are checked like
eager's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Concatenate, Literal, ParamSpec, get_args

__all__ = [
    "FACTS",
    "IndexArguments",
    "SchemaAnnotations",
    "ValueDomain",
    "recorded",
    "recording_table",
]

Extent = Literal["first", "dim", "classes", "all", "each"]
"""Of the op's first argument: its first dimension; the one that the call names; the dimension of
the classes (the second, or the only one); all elements; for a list of indices, the dimensions one
after the other."""

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
"""Any call; one with ``out=``; one whose tensors are of several dtypes; one whose floating-point
tensors are; one whose first argument is of integers or bools; one with a bool operand; one whose
second argument is an empty list; one with a negative number in a list; an integer tensor to a
negative ``exponent``; one that is ``transposed``, of integers; one whose first argument is of a
half type; one whose first argument has fewer than two dimensions."""

Composite = Literal["", "whole", "unfit", "serves"]
"""Of ATen's kernel that is made of other ops: calls are left to it where there is one and the op
reaches no backend otherwise; it stands back, since the op lowers better as it is; it serves no
device but those that it names, or asks for something that a backend must bring, so what the
compiler does not take runs on the CPU; it serves though it looks as if it called the op's own
``out=``
form."""

Layout = Literal["", "cpu", "convolution", "convolution_backward"]
"""How the CPU lays out results, where neither the meta kernel nor ``like`` says it
(csrc/shape_inference/result_strides.cpp): as its kernel does, which is called on zeros; as the
kernel does that ATen selects for a convolution, or for its gradients. An op that is not structured
is also tried on the CPU whenever an operand is not row-major."""

Refusal = Literal["", "zero_divisors", "zero_divisors_if_rounded", "no_distribution"]
"""Elements that eager refuses: an integer divisor that is 0; the same where a rounding mode is
given; weights that can't be drawn by."""

Concatenation = Literal["", "dim", "new_dim"]
"""Along a dimension that the tensors have, or along a new one; the op's second argument says
which."""

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
"""From which distribution, whose parameters are the arguments of their usual names."""


@dataclass(frozen=True, slots=True)
class IndexArguments:
    """An argument holds places in the op's first argument.

    argument: its position. within: what the places are of. wraps: negative ones count from the end.
    """

    argument: int
    within: Extent
    wraps: bool = False


@dataclass(frozen=True, slots=True, init=False)
class ValueDomain:
    """Calls with other numbers are refused: each of ``ends`` is at most the next; each is a number
    or the name of an argument.

    An overload in which such an argument is a tensor, or is not there, is asked nothing.

    where: the bool argument that must not be false for this to be asked; "": always.
    """

    ends: tuple[int | str, ...]
    where: str

    def __init__(self, *ends: int | str, where: str = "") -> None:
        if len(ends) < 2:
            raise ValueError("a domain has two ends or more")
        object.__setattr__(self, "ends", ends)
        object.__setattr__(self, "where", where)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaAnnotations:
    """The facts.

    constants: Scalar arguments that shape the program (bounds of a range, the order of a norm); the
        others may change from step to step and compile once.
    runtime: float arguments that may change from step to step; the others shape the program.
    indices: which argument holds places; those that came from the CPU are checked where the call is
    made. cpu_indices: index arguments may live on the CPU. domain: what eager asks of the numbers.
    forbids_overlap: eager refuses to write over what the op still reads. value_is_number: a tensor
    called ``value`` is read as a number before anything is written, so it may lie in what is
    written. tried: calls that the meta kernel may take and eager refuses; they are tried on the
    CPU's kernel, on tensors of zeros. ranks: of the first arguments; a call with others is tried as
    well. checks_dim: the meta kernel refuses a wrong ``dim`` by itself, with more to say than the
    CPU's. checks_alpha: eager wants an ``alpha`` that the result's dtype can hold, and the meta
    kernel does not look. asks_cpu: calls whose results are of other types on the CPU than the meta
    kernel says. refuses: elements that eager refuses. may_fail: a program can find, when it runs,
    an element that the op refuses, and its error names the line that recorded the call;
        said of ops without ``indices``.
    converts_to_out: the result is cast to the dtype of ``out`` by rule, which a trial on zeros
    can't show. takes_no_bools: there is no kernel for results of bool. concatenates: what the op
    does with a list of tensors of one type. Many of them are concatenated in steps, of one program
    each. masks_results: the CPU leaves results undefined that ``output_mask`` excludes, and the
    meta kernel does not. counts_bags: the results beside the bags are what the meta kernel says;
    the CPU leaves out what its backward can do without. composite: what ATen's kernel that is made
    of other ops is good for. like: the argument whose memory format the CPU gives the first result;
    -1: what the meta kernel says holds. layout: or the rule by which the CPU lays it out. draws:
    how the reference executor (csrc/reference/random_ops.cpp), which runs programs that do not
    compile, draws the very numbers
        that the lowering draws. Random ops that do not say so are drawn from the CPU's streams
        there.
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
        """Fact -> its words, of those that say something; a fact that holds has none."""
        said: dict[str, list[str]] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if value == f.default:
                continue
            if isinstance(value, bool):
                said[f.name] = []
            elif isinstance(value, IndexArguments):
                said[f.name] = [
                    value.within,
                    str(value.argument),
                    *(["wraps"] if value.wraps else []),
                ]
            elif isinstance(value, ValueDomain):
                said[f.name] = [value.where, *map(str, value.ends)]
            else:
                said[f.name] = [
                    str(word) for word in (value if isinstance(value, tuple) else (value,))
                ]
        return said


FACTS: dict[str, SchemaAnnotations] = {}
"""By the op's name without overload."""

P = ParamSpec("P")


def _saying(make: Callable[P, SchemaAnnotations]) -> Callable[Concatenate[str, P], None]:
    """A function that takes what ``make`` takes, so that each fact is declared in
    `SchemaAnnotations` alone."""

    def recorded(names: str, /, *args: P.args, **facts: P.kwargs) -> None:
        """Says the facts of ``names`` (separated by blanks, without overloads), which are the
        fields of `SchemaAnnotations`.

        Raises:
            ValueError: a name has an overload or has facts already, or a fact has a word that
                nothing knows.
        """
        said = make(*args, **facts)
        for name in names.split():
            if "." in name or "::" not in name:
                raise ValueError(f"{name}: facts are of all overloads: write namespace::name")
            if name in FACTS:
                raise ValueError(f"{name}: its facts are said twice")
            FACTS[name] = said

    return recorded


recorded = _saying(SchemaAnnotations)


def recording_table() -> list[tuple[str, dict[str, list[str]]]]:
    """Name, and the words of each fact."""
    return [(name, facts.words()) for name, facts in FACTS.items()]
