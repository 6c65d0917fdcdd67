"""The command line: plan, release, sample, compare, audit, account, and start the dashboard.

Exit codes: 0 done or released, 1 an audit or a receipt failed, or a release could not be written
where it was asked for and was printed instead, 2 bad input (nothing was spent), 3 the release was
refused, 130 stopped. What went wrong is one line on standard error.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from privgmm import __version__
from privgmm.cli.app import add_app
from privgmm.cli.arguments import BAD_INPUT, DONE, INTERRUPTED, Command
from privgmm.cli.bundle import add_bundle
from privgmm.cli.checks import add_checks
from privgmm.cli.completion import add_completion
from privgmm.cli.files import silence
from privgmm.cli.interruption import loaded
from privgmm.cli.ledger import add_ledger_command
from privgmm.cli.looks import add_looks
from privgmm.cli.mixtures import add_mixtures
from privgmm.cli.plan import add_plan
from privgmm.cli.release import add_release
from privgmm.errors import InvalidInput, PrivGMMError

__all__ = ["main"]


class _Once(argparse.Action):
    """Keeps the value of an option, which may be given once: of two, none is surely meant."""

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


class _Parser(argparse.ArgumentParser):
    """Complains like everything else here, instead of leaving the process."""

    def __init__(self, **options: Any) -> None:
        self.actions: list[argparse.Action] = []
        super().__init__(**options)
        self.register("action", None, _Once)
        self.register("action", "store", _Once)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """As ever, and what was added is kept."""
        self.actions.append(super().add_argument(*names, **options))
        return self.actions[-1]

    def error(self, message: str) -> NoReturn:
        raise InvalidInput(f"{message} (see {self.prog} --help)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code."""
    loaded()
    try:
        chosen = _parser().parse_args(arguments)
        command: Command = chosen.command
        return command(chosen)
    except PrivGMMError as problem:
        # an argument may hold bytes that are not text
        words = str(problem).encode("utf-8", "backslashreplace").decode()
        sys.stderr.write(f"privgmm: {words}\n")
        return BAD_INPUT
    except BrokenPipeError:
        # whoever read the output has seen enough; nothing may be flushed into the closed pipe
        silence()
        return DONE
    except OSError as problem:
        silence()
        sys.stderr.write(f"privgmm: cannot write: {problem}\n")
        return BAD_INPUT
    except KeyboardInterrupt:
        sys.stderr.write("privgmm: stopped\n")
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="privgmm", description=__doc__)
    parser.add_argument("--version", action="version", version=f"privgmm {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    options: dict[str, list[argparse.Action]] = {}

    def add(name: str, command: Command, *, more: str = "") -> argparse.ArgumentParser:
        text = inspect.cleandoc(command.__doc__ or "")
        part = commands.add_parser(
            name,
            help=text.splitlines()[0],
            description=text,
            epilog=more or None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        part.add_argument("--json", action="store_true", help="print JSON")
        part.set_defaults(command=command)
        options[name] = part.actions
        return part

    for adding in (
        add_app,
        add_plan,
        add_release,
        add_ledger_command,
        add_bundle,
        add_looks,
        add_mixtures,
        add_checks,
    ):
        adding(add)
    add_completion(add, options)
    return parser
