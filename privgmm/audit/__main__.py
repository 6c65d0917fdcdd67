"""Run the thorough audit and print a table: ``python -m privgmm.audit``.

The exit code is 1 if anything failed. ``--quick`` takes up to a minute instead of some minutes,
``--json`` prints the findings as JSON, and ``--seed`` chooses other random attacks.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from privgmm.audit.suite import run_audit

__all__ = ["print_audit"]


def print_audit(arguments: Sequence[str] | None = None) -> int:
    """Run the audit and print it; return 0 if everything passed."""
    parser = argparse.ArgumentParser(prog="python -m privgmm.audit", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="up to a minute instead of some minutes"
    )
    parser.add_argument("--json", action="store_true", help="findings as JSON")
    parser.add_argument("--seed", type=int, default=0, help="other random attacks")
    chosen = parser.parse_args(arguments)

    def progress(done: int, total: int) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{done} of {total} attacks" + ("\n" if done == total else ""))

    report = run_audit(thorough=not chosen.quick, rng=chosen.seed, progress=progress)
    text = json.dumps(report.to_dict(), indent=2) if chosen.json else str(report)
    sys.stdout.write(text + "\n")
    return 0 if report.passed else 1


if __name__ == "__main__":
    raise SystemExit(print_audit())
