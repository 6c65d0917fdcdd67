"""Warn the curator before noise is drawn, where a promise means less than it seems.

That is so with seeds, budgets that promise little, rows that were used before without a ledger, and
rows scaled by their own statistics. `releases` calls `caution` once per draw. Warnings are for
callers outside the package; its own rooms (command line, dashboard, audit) show them in other ways.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

from privgmm.arrays import Array
from privgmm.budget import Unit, budget_warnings
from privgmm.data.source import RowSource
from privgmm.errors import (
    PrivacyWarning,
    RepeatedSpend,
    ScaledRows,
    SeededRelease,
    WeakBudget,
)
from privgmm.ledger.history import Entry, History, new_mark, now
from privgmm.ledger.process import ProcessAccount
from privgmm.methods.plan import Plan

__all__ = ["PROCESS", "caution", "level_outside", "scaling"]

PROCESS = ProcessAccount()
"""What was spent without a ledger since the interpreter started."""

_DOORS = frozenset({"privgmm.ledger.cautions", "privgmm.releases", "privgmm.estimator"})
"""Modules through which others call for a release."""

_ALWAYS = 64
"""Repeated spends that each get a warning; beyond, only the 128th, 256th, … do. Adding up the
account takes longer with every spend, and one more warning of that kind says nothing new."""
_EXACTLY = 1e-9
"""How close to 0 or 1 a statistic of scaled rows is: rounding leaves it below this."""
_FEWEST_ROWS = 10
"""With fewer rows such statistics may happen by chance."""
_ENDS = 0.01
"""Share of values at 0 or 1 up to which a column was scaled to them. With more it holds such
values by its nature: answers of yes and no, or shares."""

_SEEDED = (
    "the noise is drawn from a seed or a generator of yours, which can be repeated: anyone who "
    "knows or guesses it can remove the noise. This is a demonstration, NOT differentially "
    "private; for data of real people leave random_state (or rng) out"
)


def caution(
    table: RowSource, plan: Plan, *, n_units: int, unit: Unit, seeded: bool, in_ledger: bool
) -> None:
    """Warn of what a release that is about to be drawn does not promise.

    Parameters
    ----------
    table : RowSource
        Confidential. What is said about it is for the curator. One that is not in memory is
        recognised by its first rows.
    plan : Plan
    n_units : int
        Rows, or persons; public.
    unit : {"row", "person"}
        What the guarantee protects.
    seeded : bool
        Whether the noise can be repeated.
    in_ledger : bool
        Whether the spend is written into a ledger. If not, it is counted in `PROCESS`.

    Notes
    -----
    Where warnings are errors, nothing is drawn and nothing counted.
    """
    level = level_outside()
    if level is None:
        return
    found: list[PrivacyWarning] = []
    if seeded:
        found.append(SeededRelease(_SEEDED))
    found += [WeakBudget(words) for words in budget_warnings(plan.budget, n_units, unit)]
    if table.in_memory and (how := scaling(table.rows())) is not None:
        found.append(ScaledRows(_of_scaling(how)))
    for warning in found:
        warnings.warn(warning, stacklevel=level)
    if not in_ledger:
        _count(table.glance(), plan, unit, seeded=seeded, level=level)


def scaling(rows: Array) -> str | None:
    """Say how rows (n, d) look scaled by statistics of their own; None if they do not.

    Means of zero and deviations of one, or ends at zero and one, to the last digit and in every
    column, come from a scaler. CONFIDENTIAL: for the curator.
    """
    if len(rows) < _FEWEST_ROWS:
        return None
    with np.errstate(all="ignore"):
        # the first column is enough to rule out most tables
        first = rows[:, 0]
        if abs(first.mean()) > _EXACTLY and abs(first.min()) > _EXACTLY:
            return None
        if np.all(np.abs(rows.mean(axis=0)) <= _EXACTLY):
            deviations = [rows.std(axis=0, ddof=ddof) for ddof in (0, 1)]
            if any(np.all(np.abs(found - 1) <= _EXACTLY) for found in deviations):
                return "means of 0 and variances of 1"
        ends = np.stack([rows.min(axis=0), rows.max(axis=0) - 1])
        if np.all(np.abs(ends) <= _EXACTLY):
            # a column of yes and no, or of shares, has ends of its own
            at_ends = np.minimum(np.abs(rows), np.abs(rows - 1)) <= _EXACTLY
            if np.all(at_ends.mean(axis=0) <= _ENDS):
                return "a smallest value of 0 and a largest of 1"
    return None


def _count(rows: Array, plan: Plan, unit: Unit, *, seeded: bool, level: int) -> None:
    entry = Entry(
        number=1,
        mark=new_mark(),
        method=plan.method,
        spend=plan.price(),
        seeded=seeded,
        unit=unit,
        intended=now(),
    )
    trace = PROCESS.trace(rows)
    before = PROCESS.history(trace).entries
    times = len(before) + 1
    if 1 < times <= _ALWAYS or times.bit_count() == 1 < times:
        standing = History(entries=(*before, entry)).standing()
        warnings.warn(
            RepeatedSpend(
                f"these rows, or some of them, are released from for the {ordinal(times)} time in "
                f"this process: {standing.total_in_words}. Every fit spends again, those of a grid "
                "search or a cross-validation too. Fit once, or keep the account in a ledger "
                "(ledger=SQLiteLedger(...)), which can also cap it"
            ),
            stacklevel=level + 1,
        )
    PROCESS.charge(trace, entry)


def _of_scaling(how: str) -> str:
    return (
        f"every column has {how}, as a scaler leaves them. The scaler has read the data without "
        "privacy: to undo its work with the true means and scales publishes those. Units do not "
        "matter here, so fit the columns as they are. (For the curator only: this was read off "
        "the rows.)"
    )


def ordinal(number: int) -> str:
    """Write an ordinal number.

    >>> ordinal(2), ordinal(13), ordinal(1_021)
    ('2nd', '13th', '1,021st')
    """
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{'th' if number % 100 in (11, 12, 13) else ending}"


def level_outside() -> int | None:
    """Find how far up the stack the caller's line is; None if it lies in the package itself.

    Counted as the ``stacklevel`` of a warning that the caller of this function gives.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__") in _DOORS:
        level, frame = level + 1, frame.f_back
    name = frame.f_globals.get("__name__")
    ours = isinstance(name, str) and name.partition(".")[0] == "privgmm"
    return None if ours else level
