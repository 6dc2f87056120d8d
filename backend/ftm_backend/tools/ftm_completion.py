"""``ftm completion``: prints the script that lets a shell complete commands and their words."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from ftm_backend.cli_common import Parser, command, say

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
  local hidden='-*' # options are offered behind a "-" only
  case "$word" in -*) hidden= ;; esac
  case "${{COMP_WORDS[1]}}" in
{cases}
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
    words = _words()
    say(_fish(words) if given.shell == "fish" else _bash(words, given.shell))
    return 0


def _words() -> dict[str, list[str]]:
    """Return the long options of each command, and the words that may follow it."""
    from ftm_backend.tools.ftm import COMMANDS

    return {
        name: sorted(
            str(word)
            for action in importlib.import_module(module).parser()._actions
            for word in action.option_strings or action.choices or ()
            if len(str(word)) > 2
        )
        for name, (module, _) in COMMANDS.items()
    }


def _bash(commands: dict[str, list[str]], shell: str) -> str:
    cases = "\n".join(
        f"""    {name}) COMPREPLY=($(compgen -W '{" ".join(words)}' -X "$hidden" -- "$word")) ;;"""
        for name, words in commands.items()
    )
    script = _BASH.format(commands=" ".join(commands), cases=cases)
    return f"autoload -U bashcompinit && bashcompinit\n{script}" if shell == "zsh" else script


def _fish(commands: dict[str, list[str]]) -> str:
    lines = [f"complete -c ftm -n __fish_use_subcommand -f -a '{' '.join(commands)}'"]
    for name, words in commands.items():
        lines += [
            f"complete -c ftm -n '__fish_seen_subcommand_from {name}' "
            + (f"-l {word[2:]}" if word.startswith("--") else f"-a {word}")
            for word in words
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
