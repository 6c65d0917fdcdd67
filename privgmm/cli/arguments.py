"""What commands share: exit codes, kinds of arguments, and how numbers are written."""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from privgmm.cli.interruption import STOPPED
from privgmm.errors import InvalidInput
from privgmm.methods import registry
from privgmm.stages.sketch.choice import MOST_OFFERED

__all__ = [
    "BAD_INPUT",
    "DONE",
    "FAILED",
    "INTERRUPTED",
    "REFUSED",
    "Add",
    "Command",
    "a_count",
    "a_count_or_auto",
    "a_number",
    "a_seed",
    "a_width",
    "add_budget",
    "add_columns",
    "add_forgiving",
    "add_layout",
    "add_ledger",
    "add_max_components",
    "column_names",
    "some_rows",
    "whole",
]

DONE, FAILED, BAD_INPUT, REFUSED, INTERRUPTED = 0, 1, 2, 3, STOPPED

Command = Callable[[argparse.Namespace], int]

_MOST = 100


class Add(Protocol):
    """Adds a command by its name; its docstring is its help."""

    def __call__(self, name: str, command: Command, *, more: str = "") -> argparse.ArgumentParser:
        """Give the parser of its arguments; `more` is added to the help."""
        ...


def a_number(text: str) -> float:
    """Any number; what it stands for says which are allowed."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None


def whole(text: str) -> int:
    """Any whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None


def a_count(text: str) -> int:
    """A number of components or columns."""
    count = whole(text)
    if not 1 <= count <= _MOST:
        raise argparse.ArgumentTypeError(f"must lie in 1..{_MOST}, got {count}")
    return count


def a_count_or_auto(text: str) -> int | str:
    """A number of components, or the word that leaves it open."""
    return text if text == "auto" else a_count(text)


def some_rows(text: str) -> int:
    """A number of rows, 1e6 allowed."""
    count = a_number(text)
    if not (1 <= count <= 1e18 and count == int(count)):
        raise argparse.ArgumentTypeError(f"must be a whole number in 1..1e18, got {text}")
    return int(count)


def a_seed(text: str) -> int:
    """A seed of any generator here."""
    seed = whole(text)
    if not 0 <= seed < 2**128:
        raise argparse.ArgumentTypeError(f"must lie in 0..2^128 - 1, got {seed}")
    return seed


def a_width(text: str) -> tuple[str, float]:
    """A column and the step it was recorded in, as COLUMN=STEP."""
    name, sign, step = text.rpartition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"must look like COLUMN=STEP, got {text!r}")
    width = a_number(step)
    if not 0 < width < math.inf:
        raise argparse.ArgumentTypeError(f"must have a step above 0, got {text!r}")
    return name, width


def a_separator(text: str) -> str:
    """What stands between cells, as itself or in a word."""
    return {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|"}.get(text, text)


def add_max_components(part: argparse.ArgumentParser) -> None:
    """How many components may be chosen from."""
    part.add_argument(
        "--max-components",
        type=a_count,
        default=MOST_OFFERED,
        help=f"how many components auto offers (default {MOST_OFFERED})",
    )


def add_columns(part: argparse.ArgumentParser, words: str) -> None:
    """Names of columns, in one option or in several."""
    part.add_argument(
        "--columns", action="append", metavar="NAMES", help=f"{words}; may be repeated"
    )


def add_layout(part: argparse.ArgumentParser) -> None:
    """How a CSV file is written."""
    part.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether the first line of a CSV file holds names (default: it does, and names that "
        "are numbers are refused: they may be somebody's)",
    )
    part.add_argument(
        "--separator",
        type=a_separator,
        metavar="CHAR",
        help="what stands between cells: a character, or tab (default: what parts the line of "
        "names; a comma without names)",
    )
    part.add_argument(
        "--decimal",
        choices=(".", ","),
        help="the decimal sign (default: a point in files separated by commas, else either)",
    )


def add_budget(part: argparse.ArgumentParser) -> None:
    """Epsilon and delta."""
    part.add_argument("--epsilon", type=a_number, default=1.0, help="TOTAL epsilon (default 1)")
    part.add_argument("--delta", type=a_number, default=1e-6, help="TOTAL delta (default 1e-6)")


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


def column_names(columns: Sequence[str] | None) -> list[str] | None:
    """Column names from the arguments, one after the other; quotes keep a comma inside a name."""
    if columns is None:
        return None
    try:
        parts = [next(csv.reader([part], skipinitialspace=True), []) for part in columns]
    except csv.Error as problem:
        raise InvalidInput(f"--columns must be comma separated names: {problem}") from problem
    if not all(parts):
        raise InvalidInput("--columns must name at least one column each time")
    return [name for part in parts for name in part]
