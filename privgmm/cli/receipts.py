"""Receipts that a command starts from: read, verified, and called what they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from privgmm.cli.files import file_content
from privgmm.cli.terminal import print_note
from privgmm.records.receipt import verify_receipt

__all__ = ["SEEDED_NOTE", "intact_receipt"]

SEEDED_NOTE = "made with a seed: a demonstration, NOT differentially private"
"""What is said of a release whose noise can be repeated."""


def intact_receipt(path: Path) -> dict[str, Any] | None:
    """Read a receipt and verify it; if it was changed, say so and return None."""
    content = file_content(path)
    found = verify_receipt(content)
    if not found.intact:
        print_note(f"the receipt does not verify: {found.problems[0]}")
        return None
    if found.seeded:
        print_note(SEEDED_NOTE)
    receipt: dict[str, Any] = json.loads(content)
    return receipt
