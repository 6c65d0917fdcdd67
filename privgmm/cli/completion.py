"""`privgmm completion`: what a shell needs to complete commands, options and choices.

The script is written from the parsers themselves and holds everything: pressing Tab starts no
Python, which would take seconds.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from privgmm.cli.arguments import DONE, Add
from privgmm.cli.files import as_json, say

__all__ = ["add_completion", "completion_script"]

_HOW = {
    "bash": 'eval "$(privgmm completion bash)"  # in ~/.bashrc',
    "zsh": 'eval "$(privgmm completion zsh)"  # in ~/.zshrc, after compinit',
}
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def add_completion(add: Add, options: Mapping[str, Sequence[argparse.Action]]) -> None:
    """Add the command.

    Parameters
    ----------
    add : Add
    options : mapping of str to sequence of Action
        What each command takes, by its name; read when the script is written.
    """

    def completion(chosen: argparse.Namespace) -> int:
        """Print a script that makes a shell complete commands, options and choices."""
        script = completion_script(options, chosen.shell)
        say(as_json({"script": script}) if chosen.json else script)
        return DONE

    part = add("completion", completion, more="\n".join(["how to use it:", *_HOW.values()]))
    part.add_argument("shell", choices=tuple(_HOW), help="for which shell")


def completion_script(options: Mapping[str, Sequence[argparse.Action]], shell: str) -> str:
    """The script: files are completed where nothing else is known."""
    known, flags = [], []
    for command, actions in options.items():
        words = " ".join(name for action in actions for name in action.option_strings)
        flags.append(f'            {command}) words="{words}" ;;')
        for action in actions:
            if action.choices is None:
                continue
            places = [f'"{command} {name}"' for name in action.option_strings]
            choices = " ".join(str(choice) for choice in action.choices)
            known.append(f'        {" | ".join(places) or f"{command!r}*"}) words="{choices}" ;;')
    lines = [
        f"# {_HOW[shell]}",
        *([_ZSH] if shell == "zsh" else []),
        "_privgmm() {",
        '    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""',
        '    local command="${COMP_WORDS[1]}"',
        '    if [ "$COMP_CWORD" -eq 1 ]; then',
        f'        words="--help --version {" ".join(options)}"',
        '    elif [ "${word#-}" != "$word" ]; then',
        '        case "$command" in',
        *flags,
        "        esac",
        "    else",
        '        case "$command $before" in',
        *known,
        "        esac",
        "    fi",
        '    COMPREPLY=($(compgen -W "$words" -- "$word"))',
        "}",
        "complete -o default -F _privgmm privgmm",
    ]
    return "\n".join(lines)
