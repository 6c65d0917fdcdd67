"""`privgmm verify` and `privgmm audit`: hold receipts and mechanisms to what they claim."""

from __future__ import annotations

import argparse
from pathlib import Path

from privgmm.audit import run_audit
from privgmm.cli.arguments import a_seed
from privgmm.cli.exit_code import ExitCode
from privgmm.cli.files import file_content
from privgmm.cli.parser import CommandParser
from privgmm.cli.terminal import as_json, progress_bar, say
from privgmm.records.receipt import verify_receipt

__all__ = ["add_audit", "add_verify"]


def add_verify(part: CommandParser) -> None:
    """Declare the arguments of `privgmm verify`."""
    part.runs(_verify)
    part.add_argument("file", type=Path, help="a receipt that release wrote")
    part.add_argument(
        "--key",
        type=Path,
        metavar="PUBLIC",
        help="a file with the public key (Ed25519) that it must be signed with",
    )


def add_audit(part: CommandParser) -> None:
    """Declare the arguments of `privgmm audit`."""
    part.runs(_audit)
    part.add_argument("--quick", action="store_true", help="some seconds instead of minutes")
    part.add_argument("--seed", type=a_seed, default=0, help="other random attacks")


def _verify(chosen: argparse.Namespace) -> int:
    """Check a receipt without the data (exit code 1 if it is not what it claims).

    Checked are its hash and the price of its plan, and with --key who signed it. A receipt made
    with a seed is a demonstration, not differentially private, and does not pass. What no receipt
    can show is that its mixture was made as it says: for that you have to trust its author.
    """
    found = verify_receipt(file_content(chosen.file), key=chosen.key)
    if chosen.json:
        say(
            as_json(
                {
                    "ok": found.ok,
                    "problems": list(found.problems),
                    "intact": found.intact,
                    "seeded": found.seeded if found.intact else None,
                    "signer": found.signer,
                    "signature_checked": found.checked,
                    "words": list(found.words),
                }
            )
        )
    else:
        say("\n".join(found.words))
    return ExitCode.DONE if found.ok else ExitCode.FAILED


def _audit(chosen: argparse.Namespace) -> int:
    """Attack every mechanism and print what was found (exit code 1 if a claim fails)."""
    report = run_audit(thorough=not chosen.quick, rng=chosen.seed, progress=progress_bar("stages"))
    say(as_json(report.to_dict()) if chosen.json else str(report))
    return ExitCode.DONE if report.passed else ExitCode.FAILED
