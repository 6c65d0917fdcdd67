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
from typing import NoReturn

from privgmm.cli.app import add_app
from privgmm.cli.arguments import BAD_INPUT, DONE, INTERRUPTED, Command
from privgmm.cli.bundle import add_bundle
from privgmm.cli.checks import add_checks
from privgmm.cli.files import silence
from privgmm.cli.ledger import add_ledger_command
from privgmm.cli.mixtures import add_mixtures
from privgmm.cli.plan import add_plan
from privgmm.cli.release import add_release
from privgmm.errors import InvalidInput, PrivGMMError

__all__ = ["main"]


class _Parser(argparse.ArgumentParser):
    """Complains like everything else here, instead of leaving the process."""

    def error(self, message: str) -> NoReturn:
        raise InvalidInput(f"{message} (see {self.prog} --help)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit code."""
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
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

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
        return part

    for adding in (
        add_app,
        add_plan,
        add_release,
        add_ledger_command,
        add_bundle,
        add_mixtures,
        add_checks,
    ):
        adding(add)
    return parser
