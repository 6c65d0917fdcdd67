"""Arguments that commands share: how their values are read, and the options themselves."""

from __future__ import annotations

import argparse
import csv
import math
import re
from collections.abc import Sequence
from pathlib import Path

from privgmm.errors import InvalidInput

__all__ = [
    "a_count",
    "a_count_or_auto",
    "a_number",
    "a_row_count",
    "a_seed",
    "a_whole_number",
    "a_width",
    "add_budget",
    "add_columns",
    "add_covariance_type",
    "add_layout",
    "add_ledger_options",
    "add_max_components",
    "split_columns",
]

_MOST = 100
"""Components or columns that a command takes; by convention, far beyond what a plan can resolve."""


def a_number(text: str) -> float:
    """Read a number; which numbers are allowed is for the command to say."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None


def a_whole_number(text: str) -> int:
    """Read a whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}") from None


def a_count(text: str) -> int:
    """Read a number of components or columns."""
    count = a_whole_number(text)
    if not 1 <= count <= _MOST:
        raise argparse.ArgumentTypeError(f"must lie in 1..{_MOST}, got {count}")
    return count


def a_count_or_auto(text: str) -> int | str:
    """Read a number of components, or the word "auto" that leaves it open."""
    return text if text == "auto" else a_count(text)


def a_row_count(text: str) -> int:
    """Read a number of rows; 1e6 and 1,000,000 are allowed."""
    grouped = re.fullmatch(r"\d{1,3}(,\d{3})+", text)
    count = a_number(text.replace(",", "") if grouped else text)
    if not (1 <= count <= 1e18 and count == int(count)):
        raise argparse.ArgumentTypeError(f"must be a whole number in 1..1e18, got {text}")
    return int(count)


def a_seed(text: str) -> int:
    """Read a seed for a random generator: 128 bits, as NumPy's generators take."""
    seed = a_whole_number(text)
    if not 0 <= seed < 2**128:
        raise argparse.ArgumentTypeError(f"must lie in 0..2^128 - 1, got {seed}")
    return seed


def a_width(text: str) -> tuple[str, float]:
    """Read a column and the step it was recorded in, as COLUMN=STEP."""
    name, sign, step = text.rpartition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"must look like COLUMN=STEP, got {text!r}")
    width = a_number(step)
    if not 0 < width < math.inf:
        raise argparse.ArgumentTypeError(f"must have a step above 0, got {text!r}")
    return name, width


def a_separator(text: str) -> str:
    """Read what stands between cells: the character itself, or its name."""
    return {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|"}.get(text, text)


def add_max_components(part: argparse.ArgumentParser) -> None:
    """Declare how many components may be chosen from."""
    # takes long to import, and few commands have this option
    from privgmm.stages.sketch.choice import MOST_OFFERED

    part.add_argument(
        "--max-components",
        type=a_count,
        default=MOST_OFFERED,
        help=f"how many components auto offers (default {MOST_OFFERED})",
    )


def add_columns(part: argparse.ArgumentParser, words: str) -> None:
    """Declare the option that names columns; `split_columns` reads it."""
    part.add_argument(
        "--columns", action="append", metavar="NAMES", help=f"{words}; may be repeated"
    )


def add_covariance_type(part: argparse.ArgumentParser) -> None:
    """Declare which structure the covariances have."""
    from privgmm.covariance_structures import DEFAULT, structure_names

    part.add_argument(
        "--covariance-type",
        choices=structure_names(),
        default=DEFAULT,
        help=f"what components may differ in, as in scikit-learn (default {DEFAULT})",
    )


def add_layout(part: argparse.ArgumentParser) -> None:
    """Declare how a CSV file is written."""
    part.add_argument(
        "--header",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="whether the first line of a CSV file holds names (default: it does, and names that "
        "are numbers are refused: they may be data of a person)",
    )
    part.add_argument(
        "--separator",
        type=a_separator,
        metavar="CHAR",
        help="what stands between cells: a character, or tab (default: what separates the names "
        "in the first line; a comma without names)",
    )
    part.add_argument(
        "--decimal",
        choices=(".", ","),
        help="the decimal sign (default: a point in files separated by commas, else either)",
    )


def add_budget(part: argparse.ArgumentParser) -> None:
    """Declare epsilon and delta."""
    part.add_argument("--epsilon", type=a_number, default=1.0, help="TOTAL epsilon (default 1)")
    part.add_argument("--delta", type=a_number, default=1e-6, help="TOTAL delta (default 1e-6)")


def add_ledger_options(part: argparse.ArgumentParser) -> None:
    """Declare which ledger is used, and under which name it keeps the data set."""
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
        "overlap; by default each file has its own account, for all its columns together",
    )


def split_columns(columns: Sequence[str] | None) -> list[str] | None:
    """Split what was given as --columns into names; quotes keep a comma inside a name."""
    if columns is None:
        return None
    try:
        parts = [next(csv.reader([part], skipinitialspace=True), []) for part in columns]
    except csv.Error as problem:
        raise InvalidInput(f"--columns must be comma separated names: {problem}") from problem
    if not all(parts):
        raise InvalidInput("--columns must name at least one column each time")
    return [name for part in parts for name in part]
