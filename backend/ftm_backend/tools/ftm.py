"""The command ``ftm``: finds the module of a subcommand and runs it.

A subcommand is a module with ``parser()`` and ``main(arguments)``. Modules are named as text and
imported when they are used, because some need PyTorch, whose import takes a second.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence

from ftm_backend.cli_common import UserError, command, say, version

COMMANDS = {
    "compile": ("ftm_lazy.tools.ftm_compile", "compile an exported or scripted model"),
    "run": ("ftm_backend.tools.ftm_run", "run a compiled model or an assembly program"),
    "profile": ("ftm_backend.tools.ftm_profile", "show the modelled cost of a program"),
    "opt": ("ftm_backend.tools.ftm_opt", "run passes on a program"),
    "translate": ("ftm_backend.tools.ftm_translate", "compile a program from stage to stage"),
    "conformance": ("ftm_backend.tools.ftm_conformance", "check a machine library"),
    "migrate": ("ftm_lazy.tools.ftm_migrate", "rewrite torch_xla programs"),
    "cache": ("ftm_lazy.tools.ftm_cache", "list, verify, prune, export the cache of programs"),
    "info": ("ftm_backend.tools.ftm_info", "print what a bug report needs"),
    "completion": ("ftm_backend.tools.ftm_completion", "print a shell's completion script"),
}
"""Name -> (module, what it does)."""

_HELP = """\
usage: ftm COMMAND [OPTIONS]

{commands}

`ftm COMMAND --help` describes a command. `python -m ftm_lazy` is the same as `ftm`.
"""


@command("ftm")
def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand.

    Args:
        arguments: Command line without the program's name; None for `sys.argv`.

    Returns:
        The subcommand's exit status.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        if len(words) > 1:
            return main([words[1], "--help"])
        width = max(map(len, COMMANDS))
        listed = "\n".join(f"  {name:{width}}  {text}" for name, (_, text) in COMMANDS.items())
        say(_HELP.format(commands=listed).rstrip())
        return 0 if words else 2
    if words[0] == "--version":
        say(f"ftm {version()}")
        return 0
    name = words[0]
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the commands are {', '.join(COMMANDS)}"
        raise UserError(f"there is no command {name!r}; {hint}")
    status = importlib.import_module(COMMANDS[name][0]).main(words[1:])
    assert isinstance(status, int)
    return status


if __name__ == "__main__":
    sys.exit(main())
