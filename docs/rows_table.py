"""Write the tables of rows that a release takes, by every method: for an answer, and within alpha.

``python docs/rows_table.py`` computes the rows and puts the tables between two markers, into the
README and the pages that show them; with ``--check`` it only says whether they are up to date.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from privgmm.methods import registry
from privgmm.methods.request import PlanRequest
from privgmm.methods.what_if import rows_for

__all__ = ["ALPHAS", "SHOWN_IN", "main", "rows_table", "with_table"]

ROOT = Path(__file__).resolve().parent.parent
SHOWN_IN = (ROOT / "README.md", ROOT / "docs" / "how-to" / "rows-needed.md")
BEGIN, END = "<!-- rows table: begin -->", "<!-- rows table: end -->"
ALPHAS = (0.2, 0.1, 0.05)
"""Accuracies of the columns; the first is the one that answers are measured by."""
PLANE = PlanRequest(n_components=2, n_features=2)


def rows_in_words(rows: float) -> str:
    """Write a number of rows: ``23,800``, ``565 million`` or ``1.98 × 10¹⁸``."""
    if not math.isfinite(rows):
        return "none"
    if rows < 1e6:
        return f"{rows:,.0f}"
    if rows < 1e9:
        return f"{rows / 1e6:.3g} million"
    lead, power = f"{rows:.2e}".split("e")
    digits = str(int(power)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{float(lead):g} × 10{digits}"


def rows_table() -> str:
    """Compute the table for two well separated components in two columns at epsilon 1."""
    within = " | ".join(f"within {alpha:g}" for alpha in ALPHAS)
    lines = [f"| method | what it does | {within} | any answer |", "|---" * (3 + len(ALPHAS)) + "|"]
    for method in reversed(registry.all_methods()):
        request = PLANE.but(method=method.name)
        asked = [request.but(alpha=alpha) for alpha in ALPHAS] + [request]
        rows = " | ".join(rows_in_words(rows_for(one)) for one in asked)
        lines.append(f"| `{method.name}` | {method.sentence} | {rows} |")
    return "\n".join(lines)


def with_table(page: str, table: str) -> str:
    """Return the text of a page with the table between the markers."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}"


def main(arguments: list[str] | None = None) -> int:
    """Write the tables, or check them; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing")
    chosen = parser.parse_args(arguments)
    table, stale = rows_table(), []
    for path in SHOWN_IN:
        text = path.read_text(encoding="utf-8")
        fresh = with_table(text, table)
        if fresh != text:
            stale.append(path)
        if not chosen.check:
            path.write_text(fresh, encoding="utf-8")
    if chosen.check and stale:
        print(f"out of date: {', '.join(map(str, stale))}; run python docs/rows_table.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
