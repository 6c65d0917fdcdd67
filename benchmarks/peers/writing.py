"""Write numbers and tables as the page has them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

__all__ = ["SUPERSCRIPTS", "Measure", "number", "numbers_in_cell", "table"]

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclasses.dataclass(frozen=True)
class Measure:
    """One number of a cell.

    Parameters
    ----------
    name : str
        In the results.
    words : str
    less : bool
        Whether less of it is better.
    decimals : int or None
        How many are shown; None for two digits, whatever the size.
    """

    name: str
    words: str
    less: bool = True
    decimals: int | None = None

    def shown(self, value: float) -> str:
        """Write the number as in a cell."""
        return number(value) if self.decimals is None else f"{value:.{self.decimals}f}"


def number(value: float) -> str:
    """Write two digits: runs are too few for more."""
    rounded = float(f"{value:.1e}")
    if abs(rounded) >= 1e5:
        digits, power = f"{rounded:.1e}".split("e")
        return f"{digits} × 10{str(int(power)).translate(SUPERSCRIPTS)}"
    if abs(rounded) >= 10 or not rounded:
        return f"{rounded:,.0f}"
    return f"{rounded:.{1 - int(np.floor(np.log10(abs(rounded))))}f}"


def numbers_in_cell(shown: Iterable[str]) -> str:
    """Join the numbers of a cell, without line breaks between them."""
    return "\N{NO-BREAK SPACE}/\N{NO-BREAK SPACE}".join(shown).replace("-", "−")


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Write a table in Markdown."""
    rule = "|" + "---|" * len(head)
    return "\n".join([f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(x)} |" for x in lines)])
