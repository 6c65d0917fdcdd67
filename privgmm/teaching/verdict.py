"""Say in one line how a release went: the outcome, what it hides, and how good it is."""

from __future__ import annotations

import dataclasses
import functools
import html
from collections.abc import Sequence
from typing import Literal, TypeAlias

from privgmm.methods.plan import Plan
from privgmm.methods.usefulness import LESS_ACCURATE, REFUSED, USEFUL, USUAL_ALPHA, Usefulness
from privgmm.teaching.format import error_in_words
from privgmm.teaching.rehearsal import Rehearsal

__all__ = [
    "ON_STAND_INS",
    "REHEARSED",
    "WOULD_BE_REFUSED",
    "Band",
    "Cell",
    "Tone",
    "band_html",
    "errors_in_cells",
    "guess_in_cell",
    "in_doubt",
    "of_rehearsal",
    "tone_of",
    "waiting",
]

REHEARSED = "Rehearsal: nothing spent"
ON_STAND_INS = "Rehearsal on stand-ins: nothing spent"
WOULD_BE_REFUSED = "Would be refused"

Tone: TypeAlias = Literal["yes", "fair", "no", "open"]
_TONES: dict[str, Tone] = {USEFUL: "yes", LESS_ACCURATE: "fair", REFUSED: "no"}


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
    tone : {"yes", "fair", "no", "open"}
        Useful, released but not as accurate as asked, refused, or not known yet.
    what : str
        In a word or two.
    mark : str
        Whether this is a rehearsal, and what it cost.
    cells : sequence of Cell
    why : str
        What is in doubt, as sentences.
    """

    tone: Tone
    what: str
    mark: str
    cells: Sequence[Cell] = ()
    why: str = ""


def tone_of(found: Usefulness) -> Tone:
    """Return the colour of an answer: only what is useful is green."""
    return _TONES[found.answer]


def in_doubt(found: Usefulness) -> str:
    """Say what keeps a release from being useful; empty if nothing does."""
    return "" if found.is_useful else found.sentence.partition(" (dist_GMM")[0].rstrip()


def band_html(band: Band) -> str:
    """Write the band as HTML, in the classes that pages and notebooks style."""
    cells = "".join(_cell_html(cell) for cell in band.cells)
    why = f'<div class="why">{html.escape(band.why)}</div>' if band.why else ""
    return (
        f'<div class="privgmm-band {band.tone}" role="status" aria-live="polite">'
        f'<div><div class="what">{html.escape(band.what)}</div>'
        f'<div class="mark">{html.escape(band.mark)}</div></div>{cells}{why}</div>'
    )


def _cell_html(cell: Cell) -> str:
    lock = " 🔒" if cell.confidential else ""
    return (
        f'<div class="cell"><div class="note">{html.escape(cell.name)}{lock}</div>'
        f'<div class="number">{html.escape(cell.value)}</div>'
        f'<div class="note">{html.escape(cell.note)}</div></div>'
    )


def waiting(what: str, mark: str = "") -> Band:
    """Return the band to show before there is a verdict."""
    return Band("open", what, mark)


def of_rehearsal(
    rehearsal: Rehearsal, *, real: bool, alpha: float = USUAL_ALPHA, mark: str = REHEARSED
) -> Band:
    """Judge a rehearsal by what its release would say of itself.

    Parameters
    ----------
    rehearsal : Rehearsal
    real : bool
        Whether the rows were measured, so that their truth is not known.
    alpha : float
        Accuracy asked for.
    mark : str
        What kind of rehearsal it is.
    """
    without = rehearsal.nonprivate_error
    if rehearsal.plan is None or rehearsal.result is None:
        return Band("no", WOULD_BE_REFUSED, mark, errors_in_cells(None, without, truth=not real))
    cells = [guess_in_cell(rehearsal.plan)]
    cells += errors_in_cells(rehearsal.error, without, truth=not real)
    found = rehearsal.result.usefulness(alpha)
    if not rehearsal.released:
        return Band("no", WOULD_BE_REFUSED, mark, cells)
    return Band(tone_of(found), found.title, mark, cells, in_doubt(found))


def guess_in_cell(plan: Plan) -> Cell:
    """Say how well an attacker can guess, given the noise that this plan draws."""
    return Cell("Attacker's best guess", f"{_ceiling(plan):.0%} right", "chance level: 50%")


@functools.lru_cache(maxsize=256)
def _ceiling(plan: Plan) -> float:
    """Price the plan once: a page that reruns must not do it again."""
    return plan.ceiling


def errors_in_cells(error: float | None, without: float | None, *, truth: bool) -> list[Cell]:
    """State the errors with and without privacy, where they are known."""
    if not truth:
        # real rows: the truth is not known, so errors are measured from the fit without privacy
        if error is None:
            return []
        return [
            Cell(
                "Distance to the fit without privacy",
                error_in_words(error),
                "0 same, 1 apart",
                True,
            )
        ]
    cells = []
    if error is not None:
        cells.append(Cell("Error with privacy", error_in_words(error), "0 perfect, 1 wrong"))
    if without is not None:
        cells.append(Cell("Error without privacy", error_in_words(without), "same rows"))
    return cells
