"""Rewriting of expressions and statements; `imports` rewrites the imports afterwards."""

from __future__ import annotations

import re

import libcst as cst
from libcst.metadata import ParentNodeProvider, PositionProvider, QualifiedNameProvider

from ftm_lazy.migrate.remove_empty_statements import (
    GONE,
    EmptyLineRemover,
    lines_above,
    without_empty,
)
from ftm_lazy.migrate.sharding import POLICIES, WRAPPERS, sharded
from ftm_lazy.migrate.torch_xla_rewrites import (
    CALLS,
    DEVICE,
    REFERENCES,
    REMOVED,
    TOGETHER,
    UNWRAPPED,
    XM,
    RenameRule,
)

_DEVICE_KEYWORDS = ("device", "device_type", "map_location", "backend")
_DEVICE_FUNCTIONS = (
    "torch.device",
    "torch.autocast",
    "torch.amp.autocast",
    "torch.amp.GradScaler",
    "torch.set_default_device",
)
_GROUP = "torch.distributed.init_process_group"
_LAUNCH = ("torch_xla.launch", "torch_xla.distributed.xla_multiprocessing.launch")
_START = (*_LAUNCH, "torch_xla.distributed.xla_multiprocessing.spawn")
_RANK = 'int(os.environ.get("LOCAL_RANK", 0))'


_PLACEHOLDER = re.compile(r"(?P<comma>, )?\{(?P<key>\w+)\}")
"""A parameter in a template; it is removed with its comma if the argument is missing."""


class _UnsupportedCallError(Exception):
    """A rule does not cover a call; the message has the reason."""


class CallRewriter(EmptyLineRemover):
    """Rewrites calls and names by the rules of `torch_xla_rewrites`.

    Args:
        several: Whether the program runs in several processes, so gradients must be reduced.
        shards: Whether the FSDP wrapper becomes `fully_shard`.

    Attributes:
        left: (line, reason) of places that need manual work or attention.
        helpers: Names of the helpers that the new code uses.
        written: The new expressions.
    """

    METADATA_DEPENDENCIES = (QualifiedNameProvider, PositionProvider, ParentNodeProvider)

    def __init__(self, several: bool, shards: bool) -> None:
        super().__init__()
        self._wrappers = WRAPPERS if shards else ()
        self._references = REFERENCES | (POLICIES if shards else {})
        self._rules = CALLS | ({f"{XM}.optimizer_step": TOGETHER} if several else {})
        self.left: list[tuple[int, str]] = []
        self.helpers: set[str] = set()
        self.written: list[str] = []

    # --- expressions

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:  # noqa: N802
        """Rewrite a call by its rule."""
        name = self._name(original_node.func)
        if name in _START:
            return self._start(original_node, updated_node)
        if name == _GROUP:
            return self._group(updated_node)
        if name in UNWRAPPED and self._is_value(original_node):
            return self._compiled(original_node, updated_node)
        if name in REMOVED and self._waits(original_node):
            return self._write(f"torch.{DEVICE}.synchronize()")
        if name in self._wrappers:
            return self._write(sharded(updated_node), RenameRule("", helper="shard_parameters"))
        called = updated_node.func
        if (
            self._wrappers
            and isinstance(called, cst.Attribute)
            and _is_method(called, "clip_grad_norm_")
        ):
            owner = _text(called.value)
            return self._write(
                f"torch.nn.utils.clip_grad_norm_({owner}.parameters(), {_listed(updated_node)})"
            )
        rule = self._rules.get(name)
        if rule is None:
            return self._device_strings(name, updated_node)
        try:
            text = self._filled(rule, updated_node)
        except _UnsupportedCallError as error:
            self._leave(original_node, f"{name}: {error}")
            return updated_node
        if rule.note:
            self._leave(original_node, f"{name}: {rule.note}")
        return self._write(text, rule)

    def _filled(self, rule: RenameRule, call: cst.Call) -> str:
        """Fill a rule's template with the call's arguments."""
        if "{*}" in rule.template:
            arguments = _listed(call)
            return rule.template.replace(", {*}", f", {arguments}" if arguments else "").replace(
                "{*}", arguments
            )
        given: dict[str, str] = {}
        for position, argument in enumerate(call.args):
            if argument.star or (argument.keyword is None and position >= len(rule.parameters)):
                raise _UnsupportedCallError("its arguments cannot be matched to parameters")
            key = argument.keyword.value if argument.keyword else rule.parameters[position]
            is_called = f"{{{key}}}(" in rule.template
            given[key] = _operand(argument.value) if is_called else _text(argument.value)
            if key in ("args", "optimizer_args"):
                given[key] = _unpacked(argument.value)
        for key in given:
            is_used = f"{{{key}}}" in rule.template
            is_dropped = key in rule.dropped or (rule.open_ended and key not in rule.parameters)
            if not (is_used or is_dropped):
                raise _UnsupportedCallError(f"there is no equivalent of the argument {key}")
        defaults = dict(rule.optional)

        def fill(placeholder: re.Match[str]) -> str:
            text = given.get(placeholder["key"], defaults.get(placeholder["key"]))
            if text is None:
                raise _UnsupportedCallError(f"the argument {placeholder['key']} is missing")
            return (placeholder["comma"] or "") + text if text else ""

        return _PLACEHOLDER.sub(fill, rule.template)

    def _write(self, text: str, rule: RenameRule | None = None) -> cst.BaseExpression:
        self.written.append(text)
        if rule is not None and rule.helper:
            self.helpers.add(rule.helper)
        return cst.parse_expression(text)

    def _compiled(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """Rewrite ``torch_xla.compile(f)`` as `f`."""
        functions = [
            each.value for each in updated.args if each.keyword is None or each.keyword.value == "f"
        ]
        if len(functions) != 1:
            self._leave(original, "torch_xla.compile: used as a value without a function")
            return updated
        return functions[0]

    def _start(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """Rewrite `launch` and `spawn`: as a call for one process, else as `spawn_processes`."""
        given = {each.keyword.value: each.value for each in updated.args if each.keyword}
        positional = [each.value for each in updated.args if not each.keyword and not each.star]
        given |= dict(zip(("fn", "args", "nprocs"), positional, strict=False))
        if "fn" not in given or any(each.star for each in updated.args):
            self._leave(
                original,
                f"{self._name(original.func)}: its arguments cannot be matched to parameters",
            )
            return updated
        function, known = _text(given["fn"]), self._name(original.func) not in _LAUNCH
        number = _text(given["nprocs"]) if known and "nprocs" in given else "None"
        if number in ("1", "None"):
            rank = "0" if number == "1" else _RANK
            arguments = _unpacked(given["args"]) if "args" in given else ""
            if number == "None":
                self._leave(original, "one process, or those that torchrun starts")
            return self._write(
                f"{function}({rank}, {arguments})" if arguments else f"{function}({rank})"
            )
        self.helpers.add("spawn_processes")
        arguments = _text(given["args"]) if "args" in given else "()"
        return self._write(f"spawn_processes({function}, {arguments}, {number})")

    def _group(self, call: cst.Call) -> cst.Call:
        """Rewrite `init_process_group`: ``ftm`` reads torchrun's environment variables."""
        kept = []
        for argument in call.args:
            if (
                argument.keyword
                and argument.keyword.value == "init_method"
                and _string(argument.value) == "xla://"
            ):
                continue
            kept.append(argument.with_changes(value=_device_string(argument.value)))
        if kept and len(kept) < len(call.args):
            kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return call.with_changes(args=kept)

    def _device_strings(self, name: str, call: cst.Call) -> cst.Call:
        """Rename the device in arguments such as ``.to("xla")`` and ``device="xla"``."""
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        takes = method in ("to", "type_as") or name in _DEVICE_FUNCTIONS
        arguments = []
        for argument in call.args:
            wanted = argument.keyword.value in _DEVICE_KEYWORDS if argument.keyword else takes
            arguments.append(
                argument.with_changes(value=_device_string(argument.value)) if wanted else argument
            )
        same = all(a is b or a.value is b.value for a, b in zip(arguments, call.args, strict=True))
        return call if same else call.with_changes(args=arguments)

    def leave_Comparison(  # noqa: N802
        self, original_node: cst.Comparison, updated_node: cst.Comparison
    ) -> cst.BaseExpression:
        """Rename the device in ``x.device.type == "xla"``."""
        if not (
            isinstance(updated_node.left, cst.Attribute)
            and updated_node.left.attr.value in ("type", "device_type")
        ):
            return updated_node
        targets = [
            each.with_changes(comparator=_device_string(each.comparator))
            for each in updated_node.comparisons
        ]
        return updated_node.with_changes(comparisons=targets)

    def leave_Attribute(  # noqa: N802
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        """Rewrite a qualified name that is not called."""
        return self._reference(original_node, updated_node)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:  # noqa: N802
        """Rewrite an imported name that is not called."""
        if isinstance(
            self.get_metadata(ParentNodeProvider, original_node, None),
            (cst.ImportAlias, cst.AsName),
        ):
            return updated_node
        return self._reference(original_node, updated_node)

    def _reference(
        self, original: cst.BaseExpression, updated: cst.BaseExpression
    ) -> cst.BaseExpression:
        parent = self.get_metadata(ParentNodeProvider, original, None)
        if isinstance(parent, (cst.Attribute, cst.ImportFrom, cst.ImportAlias, cst.Param)) or (
            isinstance(parent, cst.Arg) and parent.keyword is original
        ):
            return updated
        name = self._name(original)
        if name in self._references:
            return self._write(self._references[name])
        called = isinstance(parent, (cst.Call, cst.Decorator)) and name in {
            *CALLS,
            *REMOVED,
            *UNWRAPPED,
            *_START,
            *self._wrappers,
        }
        if name.startswith("torch_xla.") and not called:
            self._leave(original, f"{name}: stays, from ftm_lazy.torch_xla")
        return updated

    # --- statements

    def leave_SimpleStatementLine(  # noqa: N802
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        """Remove ``xm.mark_step()``; an empty line keeps its comments until its block is left."""
        body = [
            statement
            for statement, before in zip(updated_node.body, original_node.body, strict=True)
            if not self._is_removed(before)
        ]
        if len(body) == len(updated_node.body):
            return updated_node
        if body:
            body[-1] = body[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        return updated_node.with_changes(body=body or [GONE])

    def _is_removed(self, statement: cst.BaseSmallStatement) -> bool:
        call = statement.value if isinstance(statement, cst.Expr) else None
        return (
            isinstance(call, cst.Call)
            and self._name(call.func) in REMOVED
            and not self._waits(call)
        )

    def _waits(self, call: cst.Call) -> bool:
        """Return whether the call has ``wait=True``, as in ``xm.mark_step(wait=True)``."""
        name = REMOVED[self._name(call.func)]
        given = [
            each.value
            for each in call.args
            if name and (each.keyword is None or each.keyword.value == name)
        ]
        return bool(given) and _text(given[0]) != "False"

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:  # noqa: N802
        """Remove empty lines from the module."""
        body, footer = without_empty(updated_node.body)
        if len(body) == len(updated_node.body):
            return updated_node
        return updated_node.with_changes(body=body, footer=[*footer, *updated_node.footer])

    def leave_With(  # noqa: N802
        self, original_node: cst.With, updated_node: cst.With
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        """Replace ``with torch_xla.step():`` by its body."""
        items = [
            item
            for item, before in zip(updated_node.items, original_node.items, strict=True)
            if not (
                isinstance(before.item, cst.Call)
                and self._name(before.item.func) in UNWRAPPED
                and before.asname is None
            )
        ]
        if len(items) == len(updated_node.items):
            return updated_node
        if items:
            return updated_node.with_changes(
                items=[*items[:-1], items[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)]
            )
        block = updated_node.body
        if not isinstance(block, cst.IndentedBlock):
            self._leave(original_node, "a step in one line")
            return original_node
        first, *others = block.body
        first = first.with_changes(leading_lines=[*updated_node.leading_lines, *lines_above(first)])
        # the statement that follows gets the block's last comments
        below = cst.SimpleStatementLine([GONE], leading_lines=block.footer)
        return cst.FlattenSentinel([first, *others, below])

    def leave_Decorator(  # noqa: N802
        self, original_node: cst.Decorator, updated_node: cst.Decorator
    ) -> cst.Decorator | cst.RemovalSentinel:
        """Remove ``@torch_xla.compile`` and ``@torch_xla.step``."""
        decorator = original_node.decorator
        name = self._name(decorator.func if isinstance(decorator, cst.Call) else decorator)
        return cst.RemoveFromParent() if name in UNWRAPPED else updated_node

    # --- queries

    def _is_value(self, node: cst.Call) -> bool:
        """Return whether a call is neither a context manager nor a decorator."""
        parent = self.get_metadata(ParentNodeProvider, node)
        return not isinstance(parent, (cst.WithItem, cst.Decorator))

    def _name(self, node: cst.CSTNode) -> str:
        found = self.get_metadata(QualifiedNameProvider, node, None)
        names = sorted(each.name for each in (found() if callable(found) else found or ()))
        return names[0] if names else ""

    def _leave(self, node: cst.CSTNode, reason: str) -> None:
        self.left.append((self.get_metadata(PositionProvider, node).start.line, reason))


def _text(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


def _listed(call: cst.Call) -> str:
    """Return the text of a call's arguments."""
    return ", ".join(
        _text(argument.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for argument in call.args
    )


def _is_method(function: cst.BaseExpression, name: str) -> bool:
    """Return whether a called function is a method of this name, not ``torch.nn.utils``'s."""
    return (
        isinstance(function, cst.Attribute)
        and function.attr.value == name
        and not _text(function.value).endswith("utils")
    )


def _operand(node: cst.BaseExpression) -> str:
    """Return the text of an expression that is called, in parentheses if it needs them."""
    plain = isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or node.lpar
    return _text(node) if plain else f"({_text(node)})"


def _unpacked(node: cst.BaseExpression) -> str:
    """Return a tuple or a dict as the text of a call's arguments."""
    if isinstance(node, cst.Tuple):
        return ", ".join(_text(each.value) for each in node.elements)
    return f"**{_text(node)}" if isinstance(node, cst.Dict) else f"*{_text(node)}"


def _string(node: cst.BaseExpression) -> str | None:
    value = node.evaluated_value if isinstance(node, cst.SimpleString) else None
    return value if isinstance(value, str) else None


def _device_string(node: cst.BaseExpression) -> cst.BaseExpression:
    """Rename the literals ``"xla"`` and ``"xla:0"``; leave other expressions."""
    value = _string(node)
    if not isinstance(node, cst.SimpleString) or value is None:
        return node
    if not (value == "xla" or (value.startswith("xla:") and value[4:].isdecimal())):
        return node
    return node.with_changes(value=node.value.replace("xla", DEVICE, 1))
