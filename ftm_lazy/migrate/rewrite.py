"""Migration of a program's source text: calls first, then unused imports."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import MetadataWrapper, QualifiedNameProvider

from ftm_lazy.migrate.call_rewriter import CallRewriter
from ftm_lazy.migrate.imports import ImportRewriter, NameUses
from ftm_lazy.migrate.inserted_helpers import HELPERS, needed
from ftm_lazy.migrate.sharding import Sharding
from ftm_lazy.migrate.torch_xla_rewrites import SEVERAL


class MigrateError(ValueError):
    """A source cannot be migrated; the message has the reason."""


@dataclass(frozen=True)
class Migrated:
    """The result of a migration.

    Args:
        code: The new source, in the encoding of the old one.
        left: (line of the old source, reason) of the places that need manual work.
    """

    code: bytes
    left: list[tuple[int, str]] = field(default_factory=list)


def migrate(source: bytes) -> Migrated:
    """Rewrite a torch_xla program as plain PyTorch on ftm.

    Args:
        source: The program's source file.

    Returns:
        The new source, and the places that need manual work.

    Raises:
        MigrateError: The source is not Python, or defines a name that a helper needs.
    """
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
    conflicts = sorted(calls.helpers & _definitions(module))
    if conflicts:
        raise MigrateError(
            f"it defines {', '.join(conflicts)}, which are names of helpers: rename them"
        )
    uses = NameUses()
    MetadataWrapper(rewritten).visit(uses)
    imports = ImportRewriter(uses.names, _required_modules(calls), needed(calls.helpers))
    finished = rewritten.visit(imports)
    return Migrated(
        finished.bytes, sorted(calls.left + (sharding.against if sharding.calls else []))
    )


def _names(wrapper: MetadataWrapper) -> set[str]:
    """Return the qualified names of the module's expressions, resolved through its imports."""
    found = wrapper.resolve(QualifiedNameProvider).values()
    return {name.name for names in found for name in (names() if callable(names) else names)}


def _definitions(module: cst.Module) -> set[str]:
    """Return the names of the module's top-level functions and classes."""
    return {
        each.name.value for each in module.body if isinstance(each, (cst.FunctionDef, cst.ClassDef))
    }


def _required_modules(calls: CallRewriter) -> list[str]:
    """Return the modules that the new expressions use."""
    text = "".join(calls.written) + "".join(HELPERS[name][1] for name in needed(calls.helpers))
    modules = ("os", "torch", "torch.distributed.fsdp", "torch.distributed.fsdp.wrap", "ftm_lazy")
    return [name for name in modules if f"{name}." in text]
