"""``ftm completion``: prints the script that lets a shell complete commands and options."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from ftm_backend.cli import Parser, command, say

_EPILOG = """\
examples:
  source <(ftm completion bash)                 in ~/.bashrc
  source <(ftm completion zsh)                  in ~/.zshrc, after compinit
  ftm completion fish > ~/.config/fish/completions/ftm.fish
"""

_BASH = """\
_ftm() {{
  local word=${{COMP_WORDS[COMP_CWORD]}}
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{commands}' -- "$word"))
    return
  fi
  case "$word" in
    -*) case "${{COMP_WORDS[1]}}" in
{cases}
      esac ;;
    *) COMPREPLY=() ;;
  esac
}}
complete -o default -F _ftm ftm"""


def parser() -> Parser:
    """Return the command's parser."""
    parser = Parser("ftm completion", "Print the completion script of a shell.", _EPILOG)
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))
    return parser


@command("ftm completion")
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    given = parser().parse_args(arguments)
    options = _options()
    say(_fish(options) if given.shell == "fish" else _bash(options, given.shell))
    return 0


def _options() -> dict[str, list[str]]:
    """Return the long options of each command."""
    from ftm_backend.tools.ftm import COMMANDS

    return {
        name: sorted(
            option
            for action in importlib.import_module(module).parser()._actions
            for option in action.option_strings
            if option.startswith("--")
        )
        for name, (module, _) in COMMANDS.items()
    }


def _bash(options: dict[str, list[str]], shell: str) -> str:
    cases = "\n".join(
        f"""      {name}) COMPREPLY=($(compgen -W '{" ".join(words)}' -- "$word")) ;;"""
        for name, words in options.items()
    )
    script = _BASH.format(commands=" ".join(options), cases=cases)
    return f"autoload -U bashcompinit && bashcompinit\n{script}" if shell == "zsh" else script


def _fish(options: dict[str, list[str]]) -> str:
    lines = [f"complete -c ftm -n __fish_use_subcommand -f -a '{' '.join(options)}'"]
    for name, words in options.items():
        lines += [
            f"complete -c ftm -n '__fish_seen_subcommand_from {name}' -l {word[2:]}"
            for word in words
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
