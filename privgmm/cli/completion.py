"""`privgmm completion`: what a shell needs to complete commands, options and choices.

shtab writes the script from the parsers. It holds everything: pressing Tab starts no Python.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import shtab

from privgmm.cli.exit_code import ExitCode
from privgmm.cli.parser import CommandParser, build_parser
from privgmm.cli.terminal import as_json, say

__all__ = ["add_completion", "completion_script"]

_HOW = {
    "bash": 'eval "$(privgmm completion bash)"  # in ~/.bashrc',
    "zsh": 'eval "$(privgmm completion zsh)"  # in ~/.zshrc, after compinit',
}
"""The shells, and how each loads its script."""


def add_completion(part: CommandParser) -> None:
    """Declare the arguments of `privgmm completion`."""
    part.runs(_completion)
    part.epilog = "\n".join(["how to use it:", *_HOW.values()])
    part.add_argument("shell", choices=tuple(_HOW), help="for which shell")


def _completion(chosen: argparse.Namespace) -> int:
    """Print a script that makes a shell complete commands, options, choices and file names."""
    script = completion_script(chosen.shell)
    say(as_json({"script": script}) if chosen.json else script)
    return ExitCode.DONE


def completion_script(shell: str) -> str:
    """Write the script for one shell."""
    parser, parts = build_parser()
    for part in parts.values():
        part.load()
        for action in part.arguments:
            # tables are given as text: a shipped sample has a name too
            if action.type is Path or action.dest == "data":
                vars(action)["complete"] = shtab.FILE
    return str(shtab.complete(parser, shell=shell)).rstrip("\n")
