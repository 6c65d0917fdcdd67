"""`privgmm bundle`: receipt, synthetic rows, figure and notebook in one file to hand on."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from privgmm.cli.arguments import DONE, FAILED, Add, a_seed, add_columns, column_names, some_rows
from privgmm.cli.files import NewFile, as_json, file_content, say
from privgmm.records.bundle import BUNDLE_ROOM, bundle_bytes
from privgmm.records.receipt import verify_receipt

__all__ = ["add_bundle"]


def add_bundle(add: Add) -> None:
    """Add the command."""
    part = add("bundle", _bundle)
    part.add_argument("file", type=Path, help="a receipt that release wrote")
    part.add_argument("-o", "--out", type=Path, required=True, metavar="ZIP", help="a new file")
    add_columns(part, "names for the columns, comma separated (default: those in the receipt)")
    part.add_argument("-n", type=some_rows, default=10_000, help="synthetic rows (default 10,000)")
    part.add_argument("--seed", type=a_seed, default=0, help="draws them (default 0)")


def _bundle(chosen: argparse.Namespace) -> int:
    """Put a receipt, synthetic rows, a figure and a notebook into one ZIP; costs no privacy.

    The receipt is verified first (exit code 1 if it was changed). A seeded one makes a bundle that
    says that it is a demonstration.
    """
    content = file_content(chosen.file)
    found = verify_receipt(content)
    if not found.intact:
        sys.stderr.write(f"privgmm: the receipt does not verify: {found.problems[0]}\n")
        return FAILED
    with NewFile(chosen.out, "--out", room=BUNDLE_ROOM) as file:
        made = bundle_bytes(
            json.loads(content),
            n_rows=chosen.n,
            seed=chosen.seed,
            columns=column_names(chosen.columns),
        )
        file.stream.write(made)
        file.keep()
    if found.seeded:
        sys.stderr.write("privgmm: made with a seed: a demonstration, NOT a private release\n")
    if chosen.json:
        say(as_json({"bundle": str(chosen.out), "bytes": len(made), "rows": chosen.n}))
    else:
        say(f"wrote {str(chosen.out)!r}")
    return DONE
