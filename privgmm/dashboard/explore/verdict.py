"""The band above the picture: the outcome, how much it hides, and how good it is, in one line."""

from __future__ import annotations

import dataclasses
import functools
import html
from collections.abc import Sequence
from typing import Literal

import streamlit as st

from privgmm.dashboard.explore.rehearsal import Rehearsal
from privgmm.dashboard.explore.result import error_of, nonprivate_of
from privgmm.dashboard.shared.format import number_in_words
from privgmm.dashboard.shared.state import Shown
from privgmm.methods.plan import Plan
from privgmm.releases import Release

__all__ = ["Band", "Cell", "of_rehearsal", "of_release", "show_band", "waiting"]

REHEARSED = "Rehearsal: nothing spent"


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    """A number with what it means.

    Parameters
    ----------
    name : str
    value : str
    note : str
    confidential : bool
        Whether only the curator may see it.
    """

    name: str
    value: str
    note: str = ""
    confidential: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Band:
    """The verdict in one line.

    Parameters
    ----------
    tone : {"yes", "no", "open"}
    what : str
        In a word or two.
    mark : str
        Whether this is a rehearsal, and what it cost.
    cells : sequence of Cell
    """

    tone: Literal["yes", "no", "open"]
    what: str
    mark: str
    cells: Sequence[Cell] = ()


def show_band(band: Band) -> None:
    """Show the band; screen readers announce changes."""
    cells = "".join(_cell(cell) for cell in band.cells)
    st.html(
        f'<div class="privgmm-band {band.tone}" role="status" aria-live="polite">'
        f'<div><div class="what">{html.escape(band.what)}</div>'
        f'<div class="mark">{html.escape(band.mark)}</div></div>{cells}</div>'
    )


def _cell(cell: Cell) -> str:
    lock = " 🔒" if cell.confidential else ""
    return (
        f'<div class="cell"><div class="note">{html.escape(cell.name)}{lock}</div>'
        f'<div class="number">{html.escape(cell.value)}</div>'
        f'<div class="note">{html.escape(cell.note)}</div></div>'
    )


def waiting(what: str, mark: str = "") -> Band:
    """Return the band to show before there is a verdict."""
    return Band("open", what, mark)


def of_rehearsal(rehearsal: Rehearsal, *, real: bool) -> Band:
    """Judge a rehearsal; `real` rows were measured, and their truth is not known."""
    if rehearsal.plan is None:
        cells = _errors(None, rehearsal.nonprivate_error, truth=not real)
        return Band("no", "No release", REHEARSED, cells)
    cells = [_guess(rehearsal.plan)]
    cells += _errors(rehearsal.error, rehearsal.nonprivate_error, truth=not real)
    if rehearsal.released:
        return Band("yes", "Would be released", REHEARSED, cells)
    return Band("no", "Would be refused", REHEARSED, cells)


def of_release(shown: Shown) -> Band:
    """Judge a release."""
    outcome, truth = shown.outcome, shown.chosen.dataset.truth
    result = outcome.result
    private = result.mixture if isinstance(result, Release) else None
    fit = nonprivate_of(outcome)
    reference = fit if truth is None else truth
    error = None if private is None or reference is None else error_of(private, reference)
    without = None if fit is None or truth is None else error_of(fit, truth)
    cells = [_guess(result.plan), *_errors(error, without, truth=truth is not None)]
    spent = f"ε = {number_in_words(result.budget.epsilon, 3)} spent"
    mark = f"Seeded noise, {spent}" if result.seeded else f"Fresh noise, drawn once, {spent}"
    if private is None:
        return Band("no", "Refused", mark, cells)
    return Band("yes", "Released", mark, cells)


def _guess(plan: Plan) -> Cell:
    """Say how well an attacker can guess, given the noise that this plan draws."""
    return Cell("Attacker's best guess", f"{_ceiling(plan):.0%} right", "chance level: 50%")


@functools.lru_cache(maxsize=256)
def _ceiling(plan: Plan) -> float:
    """Price the plan once: a page that reruns must not do it again."""
    return plan.ceiling


def _errors(error: float | None, without: float | None, *, truth: bool) -> list[Cell]:
    if not truth:
        # real rows: the truth is not known, so errors are measured from the fit without privacy
        if error is None:
            return []
        return [
            Cell("Distance to the fit without privacy", f"{error:.3f}", "0 same, 1 apart", True)
        ]
    cells = []
    if error is not None:
        cells.append(Cell("Error with privacy", f"{error:.3f}", "0 perfect, 1 wrong"))
    if without is not None:
        cells.append(Cell("Error without privacy", f"{without:.3f}", "same rows"))
    return cells
