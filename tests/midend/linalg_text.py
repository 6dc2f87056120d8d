"""Writes small linalg functions for the tests."""

from __future__ import annotations

from collections.abc import Sequence


class Function:
    """Text of ``@main``, statement by statement.

    ``f.generic("(i,j)->(j)", ...)`` returns the name of the new value; types are kept by name.
    """

    def __init__(self) -> None:
        self.types: dict[str, str] = {}
        self._arguments: list[str] = []
        self._lines: list[str] = []
        self._count = 0

    def argument(self, kind: str) -> str:
        """A parameter of type ``kind``, such as ``"5x7xf32"`` (a tensor) or ``"f64"`` (a
        scalar)."""
        name = f"%arg{len(self._arguments)}"
        self.types[name] = kind if kind in ("f64", "i64") else f"tensor<{kind}>"
        self._arguments.append(f"{name}: {self.types[name]}")
        return name

    def line(self, text: str, kind: str) -> str:
        """``%n = text``, whose type is ``kind``."""
        name = f"%{self._count}"
        self._count += 1
        self._lines.append(f"  {name} = {text}")
        self.types[name] = kind
        return name

    def constant(self, value: str, kind: str) -> str:
        """A scalar or dense constant."""
        return self.line(f"arith.constant {value}" + (f" : {kind}" if kind != "i1" else ""), kind)

    def empty(self, kind: str) -> str:
        """``tensor.empty``."""
        return self.line(f"tensor.empty() : tensor<{kind}>", f"tensor<{kind}>")

    def fill(self, value: str, kind: str) -> str:
        """A tensor full of a scalar."""
        out = self.empty(kind)
        return self.line(
            f"linalg.fill ins({value} : {self.types[value]}) outs({out} : tensor<{kind}>) -> tensor<{kind}>",
            f"tensor<{kind}>",
        )

    def generic(
        self,
        loops: str,
        inputs: Sequence[tuple[str, str]],
        output: tuple[str, str] | Sequence[tuple[str, str]],
        body: str,
        reduced: str = "",
    ) -> str:
        """A ``linalg.generic``.

        loops: names, ``"i j"``; inputs, output: (value, map results such as ``"i, 0"``); body: text
        whose arguments are ``%a %b ...`` for inputs and ``%x %y ...`` for outputs; reduced: names
        of reduced loops.
        """
        outputs = [output] if isinstance(output[0], str) else list(output)
        names = loops.split()
        operands = [*inputs, *outputs]
        maps = ", ".join(f"affine_map<({', '.join(names)}) -> ({m})>" for _, m in operands)
        kinds = ", ".join(f'"{"reduction" if n in reduced.split() else "parallel"}"' for n in names)
        letters = [f"%{c}" for c in "abcdefgh"[: len(inputs)]] + [
            f"%{c}" for c in "xyz"[: len(outputs)]
        ]
        arguments = ", ".join(
            f"{c}: {self.types[v].removesuffix('>').split('x')[-1].removeprefix('tensor<')}"
            for c, (v, _) in zip(letters, operands, strict=True)
        )
        ins = (
            f" ins({', '.join(v for v, _ in inputs)} : {', '.join(self.types[v] for v, _ in inputs)})"
            if inputs
            else ""
        )
        outs = f" outs({', '.join(v for v, _ in outputs)} : {', '.join(self.types[v] for v, _ in outputs)})"
        kind = ", ".join(self.types[v] for v, _ in outputs)
        many = len(outputs) > 1
        text = (
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}{ins}{outs} {{\n"
            f"    ^bb0({arguments}):\n      {body}\n  }} -> {f'({kind})' if many else kind}"
        )
        name = f"%{self._count}"
        self._count += 1
        self._lines.append(f"  {name}{f':{len(outputs)}' if many else ''} = {text}")
        if many:
            for k, (v, _) in enumerate(outputs):
                self.types[f"{name}#{k}"] = self.types[v]
        else:
            self.types[name] = kind
        return name

    def map(self, kind: str, inputs: Sequence[tuple[str, str]], body: str, loops: str = "") -> str:
        """An elementwise generic into a new tensor of type ``kind``; loops default to one per
        dimension."""
        rank = kind.count("x")
        names = loops or " ".join("ijkl"[:rank])
        return self.generic(names, inputs, (self.empty(kind), ", ".join("ijkl"[:rank])), body)

    def view(self, base: str, kind: str, offset: int, strides: Sequence[int]) -> str:
        """``ftm.view``."""
        steps = "array<i64" + (": " + ", ".join(map(str, strides)) if strides else "") + ">"
        return self.line(
            f'"ftm.view"({base}) {{offset = {offset} : i64, strides = {steps}}} : ({self.types[base]}) -> tensor<{kind}>',
            f"tensor<{kind}>",
        )

    def update(self, base: str, value: str, offset: int, strides: Sequence[int]) -> str:
        """``ftm.update``."""
        steps = "array<i64" + (": " + ", ".join(map(str, strides)) if strides else "") + ">"
        return self.line(
            f'"ftm.update"({base}, {value}) {{offset = {offset} : i64, strides = {steps}}} : '
            f"({self.types[base]}, {self.types[value]}) -> {self.types[base]}",
            self.types[base],
        )

    def text(self, *results: str) -> str:
        """The module, returning ``results``."""
        kinds = ", ".join(self.types[r] for r in results)
        return (
            f"func.func @main({', '.join(self._arguments)}) -> ({kinds}) {{\n"
            + "\n".join(self._lines)
            + f"\n  return {', '.join(results)} : {kinds}\n}}\n"
        )
