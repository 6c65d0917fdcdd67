"""What commands share: exit codes, kinds of arguments, and how numbers are written."""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from privgmm.errors import InvalidInput
from privgmm.methods import registry

__all__ = [
    "BAD_INPUT",
    "DONE",
    "FAILED",
    "INTERRUPTED",
    "REFUSED",
    "Add",
    "Command",
    "a_count",
    "a_seed",
    "a_width",
    "add_budget",
    "add_forgiving",
    "add_ledger",
    "column_names",
    "number",
    "some_rows",
]

DONE, FAILED, BAD_INPUT, REFUSED, INTERRUPTED = 0, 1, 2, 3, 130

Command = Callable[[argparse.Namespace], int]

_MOST = 100


class Add(Protocol):
    """Adds a command by its name; its docstring is its help."""

    def __call__(self, name: str, command: Command, *, more: str = "") -> argparse.ArgumentParser:
        """Give the parser of its arguments; `more` is added to the help."""
        ...


def a_count(text: str) -> int:
    """A number of components or columns."""
    count = int(text)
    if not 1 <= count <= _MOST:
        raise argparse.ArgumentTypeError(f"must lie in 1..{_MOST}, got {count}")
    return count


def some_rows(text: str) -> int:
    """A number of rows, 1e6 allowed."""
    count = float(text)
    if not (1 <= count <= 1e18 and count == int(count)):
        raise argparse.ArgumentTypeError(f"must be a whole number in 1..1e18, got {text}")
    return int(count)


def a_seed(text: str) -> int:
    """A seed of any generator here."""
    seed = int(text)
    if not 0 <= seed < 2**128:
        raise argparse.ArgumentTypeError(f"must lie in 0..2^128 - 1, got {seed}")
    return seed


def a_width(text: str) -> tuple[str, float]:
    """A column and the step it was recorded in, as COLUMN=STEP."""
    name, sign, step = text.rpartition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"must look like COLUMN=STEP, got {text!r}")
    width = float(step)
    if not 0 < width < math.inf:
        raise argparse.ArgumentTypeError(f"must have a step above 0, got {text!r}")
    return name, width


def add_budget(part: argparse.ArgumentParser) -> None:
    """Epsilon and delta."""
    part.add_argument("--epsilon", type=float, default=1.0, help="TOTAL epsilon (default 1)")
    part.add_argument("--delta", type=float, default=1e-6, help="TOTAL delta (default 1e-6)")


def add_forgiving(part: argparse.ArgumentParser) -> None:
    """Whether to plan for real data."""
    able = ", ".join(method.name for method in registry.all_methods() if method.takes_forgiving)
    part.add_argument(
        "--forgiving",
        action="store_true",
        help=f"plan for real data (methods: {able}): components near each other, fits that scatter "
        "more than those of Gaussian rows; costs some accuracy and rows, no privacy",
    )


def add_ledger(part: argparse.ArgumentParser) -> None:
    """Which ledger, and under which name the data set stands in it."""
    part.add_argument(
        "--ledger",
        type=Path,
        metavar="PATH",
        help="the ledger's file (default: $PRIVGMM_LEDGER, else one in your folder for data)",
    )
    part.add_argument(
        "--dataset",
        metavar="NAME",
        help="a name of your own for the data set, to add up releases from files that change or "
        "overlap; by default each file stands for itself, whichever columns are used",
    )


def column_names(columns: str | None) -> list[str] | None:
    """Column names from one argument; quotes keep a comma inside a name."""
    if columns is None:
        return None
    try:
        return next(csv.reader([columns], skipinitialspace=True), [])
    except csv.Error as problem:
        raise InvalidInput(f"--columns must be comma separated names: {problem}") from problem


def number(value: float) -> str:
    """A number for people."""
    if not math.isfinite(value):
        return "none"
    return f"{value:,.0f}" if 100 <= value < 1e7 else f"{value:.3g}"
