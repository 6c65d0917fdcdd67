"""Write the part of the page on synthetic rows of real tables.

Every number, every bold one and every sentence that names a winner is made from the results.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from benchmarks.peers.campaign import Campaign, Run
from benchmarks.peers.makers import MAKERS, Maker
from benchmarks.peers.reading import median_of, name_of, runs_of
from benchmarks.peers.synthetic_cases import (
    DEVIATIONS,
    IN_OUR_FRAME,
    MOST_ROWS,
    MOST_STEPS,
    SHEETS,
    SYNTHETIC_CASES,
    Sheet,
    SyntheticCase,
)
from benchmarks.peers.tools import TIMEOUT
from benchmarks.peers.workers.job import COMPONENTS
from benchmarks.peers.writing import Measure, numbers_in_cell, table
from benchmarks.peers.yardsticks import QUANTILES

__all__ = [
    "DISTANCES",
    "LESSONS",
    "OURS",
    "ROWS_RUNS",
    "Line",
    "best",
    "counted",
    "lines",
    "made",
    "part",
    "runs_in_words",
    "verdict",
]

OURS = "privgmm"
ROWS_RUNS = 5
"""Choice: how often synthetic rows are to be made; the page says where it was less often."""

DISTANCES = (Measure("one_way", "1-way"), Measure("two_way", "2-way"))
LESSONS = (
    Measure("r2", "R²", less=False, decimals=2),
    Measure("rank", "rank correlation", less=False, decimals=2),
)


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the tables: a maker, as it comes or with our frame as bounds."""

    maker: Maker
    in_our_frame: bool

    def case(self, sheet: Sheet) -> SyntheticCase:
        """Return the case of a table."""
        return next(
            case
            for case in SYNTHETIC_CASES
            if case.sheet == sheet and (case.situation == IN_OUR_FRAME) == self.in_our_frame
        )

    def runs(self, campaign: Campaign, sheet: Sheet) -> list[Run]:
        """Select the runs on a table."""
        return runs_of(campaign, self.maker, self.case(sheet))

    def median(self, campaign: Campaign, sheet: Sheet, measure: Measure) -> float | None:
        """Compute the median over the runs that made rows; None if none did."""
        return median_of(campaign, self.maker, self.case(sheet), measure.name)

    def name(self, campaign: Campaign) -> str:
        """Name the tool, and what it was given."""
        name = name_of(campaign, self.maker)
        return f"{name}, {IN_OUR_FRAME.title}" if self.in_our_frame else name


def lines() -> list[Line]:
    """List all lines: each maker as it comes, if it can, then with our frame, if it takes it."""
    return [
        line
        for maker, framed in itertools.product(MAKERS, (False, True))
        if maker.plays((line := Line(maker, framed)).case(SHEETS[0]))
    ]


def made(campaign: Campaign) -> list[Run]:
    """Select all runs of synthetic rows."""
    keys = {case.key for case in SYNTHETIC_CASES}
    return [one for one in campaign.runs if one.case in keys]


def best(campaign: Campaign, sheet: Sheet, measure: Measure, *, framed: bool = True) -> list[Line]:
    """List differentially private lines with the best median on a table, as it is shown.

    Without `framed`, lines that were given our frame do not count.
    """
    found = [
        (value, line)
        for line in lines()
        if line.maker.private
        and (framed or not line.in_our_frame)
        and (value := line.median(campaign, sheet, measure)) is not None
    ]
    if not found:
        return []
    values = [value for value, _ in found]
    shown = measure.shown(min(values) if measure.less else max(values))
    return [line for value, line in found if measure.shown(value) == shown]


def _cell(campaign: Campaign, line: Line, sheet: Sheet, measures: Sequence[Measure]) -> str:
    runs = line.runs(campaign, sheet)
    if not runs:
        return "not run"
    if not any(one.numbers for one in runs):
        return f"failed: {runs[0].reason}"
    shown = []
    for measure in measures:
        value = line.median(campaign, sheet, measure)
        text = "" if value is None else measure.shown(value)
        shown.append(f"**{text}**" if line in best(campaign, sheet, measure) else text)
    return numbers_in_cell(shown)


def counted(runs: Sequence[Run]) -> str:
    """Say how many of the runs were made, how many failed, and how long they took."""
    failed = sum(not one.numbers for one in runs)
    words = f"{len(runs)} of {ROWS_RUNS}" + (f" ({failed} failed)" if failed else "")
    if not runs:
        return words
    return f"{words}, {np.median([one.seconds for one in runs]):,.0f} s"


def _table(campaign: Campaign, measures: Sequence[Measure]) -> str:
    return table(
        ["tool", *(sheet.name for sheet in SHEETS)],
        [
            [line.name(campaign), *(_cell(campaign, line, sheet, measures) for sheet in SHEETS)]
            for line in lines()
        ],
    )


def _runs_table(campaign: Campaign) -> str:
    return table(
        ["tool", *(sheet.name for sheet in SHEETS)],
        [
            [line.name(campaign), *(counted(line.runs(campaign, sheet)) for sheet in SHEETS)]
            for line in lines()
        ],
    )


def verdict(campaign: Campaign) -> str:
    """Say in how many places privgmm is first, and who is ahead in the rest."""
    return (
        f"As they come, {_verdict(campaign, framed=False)} With our frame handed to the others as "
        f"bounds, {_verdict(campaign, framed=True)}"
    )


def _verdict(campaign: Campaign, *, framed: bool) -> str:
    places, losses = 0, 0
    contested = [sheet for sheet in SHEETS if _is_contested(campaign, sheet, framed=framed)]
    if not contested:
        return "nothing can be said yet: no table has runs of privgmm and of another tool."
    lost: dict[str, dict[str, list[str]]] = {}
    for measure, sheet in itertools.product((*DISTANCES, *LESSONS), contested):
        first = best(campaign, sheet, measure, framed=framed)
        places += 1
        if all(line.maker.key != OURS for line in first):
            losses += 1
            ahead = lost.setdefault(first[0].name(campaign), {})
            ahead.setdefault(measure.words, []).append(sheet.name)
    if not losses:
        return f"**privgmm is first in all {places} places**, or level with the first."
    words = "; ".join(
        f"{name} in " + ", ".join(f"{what} ({', '.join(names)})" for what, names in ahead.items())
        for name, ahead in lost.items()
    )
    return (
        f"**privgmm is first in {places - losses} of {places} places**, or level with the first. "
        f"Ahead in the rest: {words}."
    )


def _is_contested(campaign: Campaign, sheet: Sheet, *, framed: bool) -> bool:
    """Check whether both privgmm and another tool with privacy made rows of a table."""
    keys = {
        line.maker.key
        for line in lines()
        if line.maker.private
        and (framed or not line.in_our_frame)
        and any(one.numbers for one in line.runs(campaign, sheet))
    }
    return OURS in keys and len(keys) > 1


def runs_in_words(campaign: Campaign) -> str:
    """Say how many runs were made, of how many, and on how many tables."""
    tables = sum(
        any(line.runs(campaign, sheet) for line in lines() if line.maker.key != OURS)
        for sheet in SHEETS
    )
    whole = ROWS_RUNS * len(lines()) * len(SHEETS)
    return f"{len(made(campaign))} of {whole} runs, on {tables} of {len(SHEETS)} tables"


def _size(campaign: Campaign, sheet: Sheet) -> int:
    return campaign.sizes.get(Line(MAKERS[0], False).case(sheet).key, 0)


def part(campaign: Campaign) -> str:
    """Write the part between its heading and the next."""
    tables = "\n".join(
        f"- **{sheet.name}** ({_size(campaign, sheet):,} rows to learn from, "
        f"{len(sheet.table.columns)} columns, from the package {sheet.table.package}). "
        f"{sheet.words}. To predict: {sheet.target}."
        for sheet in SHEETS
    )
    widths = [len(sheet.table.columns) for sheet in SHEETS]
    return f"""\
What are synthetic rows worth? Two yardsticks of the field, on {len(SHEETS)} real tables of
{min(widths)} to {max(widths)} columns as they are:

{tables}

How it is done:

- **Rows.** A fifth of each table is held out, and at most {MOST_ROWS:,} of the rest are learned
  from. Each tool makes as many rows as it learned from.
- **privgmm** is asked for `n_components="auto"` with its default of at most eight, and its rows are
  `Release.sample(n)` as they come: values that many rows share are drawn, others rounded to the
  grids that were found. Nothing is clipped to what a column can mean.
- **Other tools** take the rows as they come, or with *our frame as bounds*: the centre of the
  public frame of our release, {DEVIATIONS:g} deviations to either side. They get it free of charge
  and spend their whole ε on the rest. Rows beyond it are left to each tool. OpenDP and pycle
  cannot do without bounds. Columns of at most {MOST_STEPS:,} different whole numbers are rounded in
  their rows, as a table's types are public. SmartNoise gives the middle of a bin as the value, the
  others spread values over it: that costs it where the field's bins are narrower than its own.
  pycle fits {COMPONENTS} components with diagonal covariances to its private sketch, with the
  settings of its own demo.
- **1-way and 2-way** are the total variation between the synthetic rows and those held out, the
  mean over all columns and over all pairs. Columns are cut into {QUANTILES} quantile bins of the
  rows held out; cuts that coincide are one. 0 is best. Real rows are not at 0: two samples differ.
- **Train on synthetic, test on real.** scikit-learn's `HistGradientBoostingRegressor`, as it
  comes, learns to predict one column from the others on synthetic rows. Shown are R² and
  Spearman's rank correlation of its predictions for the real rows held out. 1 is best; R² is
  negative where the mean would predict better.
- **Limit.** A run may take {TIMEOUT} seconds of processor time.

**Measured so far: {runs_in_words(campaign)}.** Each line is to have {ROWS_RUNS} runs on each table.
The last table counts those that were made, and medians are over these.

{verdict(campaign)}

### Total variation of marginals

Medians, 1-way / 2-way; less is better.

{_table(campaign, DISTANCES)}

### Train on synthetic, test on real

Medians, R² / rank correlation; more is better.

{_table(campaign, LESSONS)}

### Runs and processor time

Runs made, and the median of their processor seconds, the start of a tool included:

{_runs_table(campaign)}"""
