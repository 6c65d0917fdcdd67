"""`privgmm verify` and `privgmm audit`: hold receipts and mechanisms to what they claim."""

from __future__ import annotations

import argparse
from pathlib import Path

from privgmm.audit import run_audit
from privgmm.cli.arguments import DONE, FAILED, Add, a_seed
from privgmm.cli.files import as_json, file_content, progress_bar, say
from privgmm.records.receipt import verify_receipt

__all__ = ["add_checks"]


def add_checks(add: Add) -> None:
    """Add the commands."""
    part = add("verify", _verify)
    part.add_argument("file", type=Path, help="a receipt that release wrote")
    part.add_argument(
        "--key",
        type=Path,
        metavar="PUBLIC",
        help="a file with the public key (Ed25519) that it must be signed with",
    )

    part = add("audit", _audit)
    part.add_argument("--quick", action="store_true", help="some seconds instead of minutes")
    part.add_argument("--seed", type=a_seed, default=0, help="other random attacks")


def _verify(chosen: argparse.Namespace) -> int:
    """Check a receipt without the data (exit code 1 if it is not what it claims, or not private).

    Checked are its hash and the price of its plan, and with --key who signed it. A receipt made
    with a seed is a demonstration and does not pass. What no receipt can show is that its mixture
    was made as it says: for that you have to trust whoever wrote it.
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
    return DONE if found.ok else FAILED


def _audit(chosen: argparse.Namespace) -> int:
    """Attack every mechanism and print what was found (exit code 1 if a claim fails)."""
    report = run_audit(thorough=not chosen.quick, rng=chosen.seed, progress=progress_bar("stages"))
    say(as_json(report.to_dict()) if chosen.json else str(report))
    return DONE if report.passed else FAILED
