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

    part = add("audit", _audit)
    part.add_argument("--quick", action="store_true", help="some seconds instead of minutes")
    part.add_argument("--seed", type=a_seed, default=0, help="other random attacks")


def _verify(chosen: argparse.Namespace) -> int:
    """Check a receipt without the data (exit code 1 if it is not what it claims)."""
    found = verify_receipt(file_content(chosen.file))
    if chosen.json:
        say(as_json({"ok": found.ok, "problems": list(found.problems)}))
    else:
        say("\n".join(found.problems) if found.problems else "the receipt is in order")
    return DONE if found.ok else FAILED


def _audit(chosen: argparse.Namespace) -> int:
    """Attack every mechanism and print what was found (exit code 1 if a claim fails)."""
    report = run_audit(thorough=not chosen.quick, rng=chosen.seed, progress=progress_bar("stages"))
    say(as_json(report.to_dict()) if chosen.json else str(report))
    return DONE if report.passed else FAILED
