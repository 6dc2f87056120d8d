"""A program's source to its migrated source: calls first, then the imports that nothing uses any
more."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import MetadataWrapper, QualifiedNameProvider

from ftm_lazy.migrate.calls import CallRewriter
from ftm_lazy.migrate.helpers import HELPERS, needed
from ftm_lazy.migrate.imports import ImportRewriter, NameUses
from ftm_lazy.migrate.rename_rules import SEVERAL
from ftm_lazy.migrate.sharding import Sharding

__all__ = ["MigrateError", "Migrated", "migrate"]


class MigrateError(ValueError):
    """A source that cannot be read; the message says where."""


@dataclass(frozen=True)
class Migrated:
    """What became of a source.

    Args:
        code: the new source, in the encoding of the old one.
        left: (line of the old source, reason) of what is left to the user.
    """

    code: bytes
    left: list[tuple[int, str]] = field(default_factory=list)


def migrate(source: bytes) -> Migrated:
    """Rewrite a program for torch_xla as plain PyTorch on ftm; raises MigrateError if it is no
    Python."""
    if b"\0" in source:
        raise MigrateError("not Python: it has NUL bytes")
    if b"xla" not in source:
        return Migrated(source)
    try:
        module = cst.parse_module(source)
    except (
        cst.ParserSyntaxError,
        SyntaxError,
        UnicodeDecodeError,
        LookupError,
        RecursionError,
    ) as error:
        raise MigrateError(f"not Python: {error}") from error
    wrapper = MetadataWrapper(module)
    sharding = Sharding()
    wrapper.visit(sharding)
    calls = CallRewriter(several=not SEVERAL.isdisjoint(_names(wrapper)), shards=sharding.allowed)
    rewritten = wrapper.visit(calls)
    taken = sorted(calls.helpers & _definitions(module))
    if taken:
        raise MigrateError(
            f"it has definitions of its own named {', '.join(taken)}, which helpers are named: rename them"
        )
    uses = NameUses()
    MetadataWrapper(rewritten).visit(uses)
    imports = ImportRewriter(uses.names, _wanted(rewritten, calls), needed(calls.helpers))
    finished = rewritten.visit(imports)
    return Migrated(
        finished.bytes, sorted(calls.left + (sharding.against if sharding.calls else []))
    )


def _names(wrapper: MetadataWrapper) -> set[str]:
    """What the expressions of the module stand for, as far as its imports say."""
    found = wrapper.resolve(QualifiedNameProvider).values()
    return {name.name for names in found for name in (names() if callable(names) else names)}


def _definitions(module: cst.Module) -> set[str]:
    """Return the functions and classes at the top of the module."""
    return {
        each.name.value for each in module.body if isinstance(each, (cst.FunctionDef, cst.ClassDef))
    }


def _wanted(module: cst.Module, calls: CallRewriter) -> list[str]:
    """Return the modules that the new expressions name."""
    text = "".join(calls.written) + "".join(HELPERS[name][1] for name in needed(calls.helpers))
    modules = ("os", "torch", "torch.distributed.fsdp", "torch.distributed.fsdp.wrap", "ftm_lazy")
    return [name for name in modules if f"{name}." in text]
