"""The parser of the command line: it lists all commands, and imports only the one that is used.

A command has a line in `_COMMANDS`. The module named there holds ``add_COMMAND(part)``, which
declares the arguments of the command and says what it runs.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from privgmm import __version__
from privgmm.errors import InvalidInput, Wording

__all__ = ["CommandParser", "build_parser"]

_COMMANDS: Mapping[str, tuple[str, str]] = {
    "app": ("app", "Start the dashboard in a browser."),
    "plan": ("plan", "Compute what a release takes, without data."),
    "release": ("release", "Release a mixture from a table, or refuse (exit code 3)."),
    "ledger": ("ledger", "List data sets: what was spent on each, and what its cap leaves."),
    "bundle": ("bundle", "Put receipt, synthetic rows, figure and notebook into one ZIP."),
    "fit": ("looks", "Fit other components or covariances to a receipt; costs no privacy."),
    "picture": ("looks", "Draw the density of one or two columns; costs no privacy."),
    "sample": ("mixtures", "Draw rows from a release as CSV; costs no privacy."),
    "tv": ("mixtures", "Compute the total variation distance of two Gaussians or mixtures."),
    "verify": ("checks", "Check a receipt without the data (exit code 1 if a claim fails)."),
    "audit": ("checks", "Attack every mechanism (exit code 1 if a claim fails)."),
    "completion": ("completion", "Print a script for a shell to complete what is typed."),
}
"""Per command its module and the line about it in the list of commands."""

_OPTIONS = {"n_components": "k", "n_features": "d", "n_rows": "rows", "n_blocks": "blocks"}
"""Arguments of the library that are options under another name."""


class _Once(argparse.Action):
    """Store the value of an option; reject an option that is given twice."""

    _given: object = None

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        if option_string is not None:
            if self._given is not None:
                parser.error(f"{option_string} is given twice: {self._given} and {values}")
            self._given = values
        setattr(namespace, self.dest, values)


class CommandParser(argparse.ArgumentParser):
    """A parser that raises `InvalidInput`, and may declare its arguments when it is first used.

    Parameters
    ----------
    command : str, optional
        Which command of `_COMMANDS` it is for; none for the parser of all commands.
    **options
        As for `argparse.ArgumentParser`.
    """

    def __init__(self, *, command: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.arguments: list[argparse.Action] = []
        self._pending = command
        self.register("action", None, _Once)
        self.register("action", "store", _Once)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Declare an argument, as any parser does, and list it in `arguments`."""
        action = super().add_argument(*names, **options)
        # -h is declared before there is a list
        if hasattr(self, "arguments"):
            self.arguments.append(action)
        return action

    def runs(self, command: Callable[[argparse.Namespace], int]) -> None:
        """Say which function the command is; its docstring becomes the help."""
        self.description = inspect.cleandoc(command.__doc__ or "")
        self.set_defaults(command=command)

    def load(self) -> None:
        """Import the module of the command, and declare its arguments; once."""
        command, self._pending = self._pending, None
        if command is not None:
            module = importlib.import_module(f"privgmm.cli.{_COMMANDS[command][0]}")
            getattr(module, f"add_{command}")(self)
            self.set_defaults(wording=self._wording())

    def _wording(self) -> Wording:
        """Name arguments of the library by the options of this command, in its errors."""
        options = {
            action.dest: next((long for long in names if long.startswith("--")), names[0])
            for action in self.arguments
            if (names := action.option_strings)
        }
        others = {name: options[other] for name, other in _OPTIONS.items() if other in options}
        return Wording(options | others)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse what is known, as any parser does, after the arguments were declared."""
        self.load()
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Raise `InvalidInput`; any other parser would end the process."""
        raise InvalidInput(f"{message} (see {self.prog} --help)")


def build_parser(description: str | None = None) -> tuple[CommandParser, dict[str, CommandParser]]:
    """Return the parser of the command line, and the parser of each command by its name.

    The latter know their arguments after `CommandParser.load`.
    """
    parser = CommandParser(prog="privgmm", description=description)
    parser.add_argument("--version", action="version", version=f"privgmm {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    parts = {}
    for name, (_, sentence) in _COMMANDS.items():
        part = commands.add_parser(
            name,
            command=name,
            help=sentence,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        part.add_argument("--json", action="store_true", help="print JSON")
        parts[name] = part
    return parser, parts
