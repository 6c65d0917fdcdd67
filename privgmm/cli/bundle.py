"""`privgmm bundle`: receipt, synthetic rows, figure and notebook in one file to pass on."""

from __future__ import annotations

import argparse
from pathlib import Path

from privgmm.cli.arguments import a_row_count, a_seed, add_columns, split_columns
from privgmm.cli.exit_code import ExitCode
from privgmm.cli.files import NewFile
from privgmm.cli.parser import CommandParser
from privgmm.cli.receipts import intact_receipt
from privgmm.cli.terminal import as_json, say
from privgmm.records.bundle import BUNDLE_ROOM, bundle_bytes

__all__ = ["add_bundle"]


def add_bundle(part: CommandParser) -> None:
    """Declare the arguments of `privgmm bundle`."""
    part.runs(_bundle)
    part.add_argument("file", type=Path, help="a receipt that release wrote")
    part.add_argument("-o", "--out", type=Path, required=True, metavar="ZIP", help="a new file")
    add_columns(part, "names for the columns, comma separated (default: those in the receipt)")
    part.add_argument(
        "-n", type=a_row_count, default=10_000, help="synthetic rows (default 10,000)"
    )
    part.add_argument("--seed", type=a_seed, default=0, help="draws them (default 0)")


def _bundle(chosen: argparse.Namespace) -> int:
    """Put a receipt, synthetic rows, a figure and a notebook into one ZIP; costs no privacy.

    The receipt is verified first (exit code 1 if it was changed). A seeded one makes a bundle that
    says that it is a demonstration.
    """
    receipt = intact_receipt(chosen.file)
    if receipt is None:
        return ExitCode.FAILED
    with NewFile(chosen.out, "--out", room=BUNDLE_ROOM) as file:
        made = bundle_bytes(
            receipt, n_rows=chosen.n, seed=chosen.seed, columns=split_columns(chosen.columns)
        )
        file.stream.write(made)
        file.keep()
    if chosen.json:
        say(as_json({"bundle": str(chosen.out), "bytes": len(made), "rows": chosen.n}))
    else:
        say(f"wrote {str(chosen.out)!r}")
    return ExitCode.DONE
