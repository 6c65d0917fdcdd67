"""The section Flip one row: one block changes, and the release hardly moves."""

from __future__ import annotations

import numpy as np
import streamlit as st

from privgmm.audit.endtoend import changed_fits
from privgmm.dashboard.shared.lessons import Writer, controls_panel, scene_line
from privgmm.dashboard.shared.refresh import result_or_notice
from privgmm.distances.parameters import dist_gmm
from privgmm.errors import PrivGMMError
from privgmm.figures.guessing import flip_figure, flip_votes_figure
from privgmm.mixture import Mixture
from privgmm.releases import Outcome
from privgmm.results import Release
from privgmm.stages.agreement.stage import Agreement, AgreementView
from privgmm.teaching import neighbours

__all__ = ["FLIP_WRITERS", "flip_row"]

_DISTANCES = (0.0, 1.0, 3.0, 10.0, 100.0, 1e3, 1e6, 1e9)
"""Choices, in units of the data: from inside its component to beyond any bound on the data."""


def _far(distance: float) -> str:
    return "stay" if distance == 0 else f"{distance:,.0f}"


FLIP_WRITERS: dict[str, Writer] = {"row": str, "far": _far}


def flip_row(epsilon: float) -> None:
    """Draw the section Flip one row."""
    rows = neighbours.data().rows
    with st.container(key="split"):
        side, picture = st.columns([1, 1.6], gap="medium")
    with side, controls_panel("flip", border=False):
        row = int(
            st.number_input(
                "Row to move",
                1,
                len(rows),
                6,
                key="row",
                bind="query-params",
                help="Any one of the generated rows",
            )
        )
        distance = float(
            st.select_slider(
                "Send it this far",
                _DISTANCES,
                1e6,
                format_func=_far,
                key="far",
                bind="query-params",
                help="A component's spread is about 1. No bound on the data is assumed.",
            )
        )
    with side:
        scene_line(f"Row {row:,}, sent {distance:,.0f} away.")
    with picture:
        flipped = result_or_notice(
            ("flip", epsilon, row, distance),
            lambda: _flipped(epsilon, row - 1, distance),
            f"Fitting all blocks again, with row {row:,} moved…",
        )
    if flipped is None:
        return
    before, after, move = flipped
    changed = changed_fits(before.curator.fits, after.curator.fits)
    with side:
        _numbers(before, after, changed)
    with picture:
        _picture(before, after, changed, row - 1, distance, move)
    with side:
        _votes(before, after, changed)


def _released(outcome: Outcome) -> Mixture | None:
    return outcome.result.mixture if isinstance(outcome.result, Release) else None


def _flipped(epsilon: float, row: int, distance: float) -> tuple[Outcome, Outcome, float | None]:
    """Release before and after, and measure how far the fit to all rows moves."""
    before, after = neighbours.outcome(epsilon), neighbours.outcome(epsilon, row, distance)
    return before, after, _nonprivate_move(before, after)


def _nonprivate_move(before: Outcome, after: Outcome) -> float | None:
    """Measure in dist_GMM how far the fit to all rows moves; None where there is no fit."""
    try:
        return float(dist_gmm(before.curator.nonprivate(), after.curator.nonprivate()))
    except PrivGMMError:
        return None


def _numbers(before: Outcome, after: Outcome, changed: list[int]) -> None:
    t = len(before.curator.fits)
    test = before.result.plan.stage(Agreement).test.words
    one, two = (side.curator.view(AgreementView).verdict.statistic for side in (before, after))
    others = np.delete(after.curator.votes - before.curator.votes, changed)
    pair = _released(before), _released(after)
    st.markdown(
        "**No block changed.** The row is in no block, or it stayed where it was."
        if not changed
        else f"**{len(changed)} of {t} blocks changed**: block "
        f"{', '.join(str(i + 1) for i in changed)}. All other fits are the same to the last bit."
    )
    with st.container(horizontal=True):
        st.metric(
            "Blocks changed",
            f"{len(changed)} of {t}",
            help="All blocks were fitted again and compared bit by bit",
            width="content",
        )
        st.metric(
            test.letter,
            f"{one:.4g} → {two:.4g}",
            help=f"The test's statistic: {test.change}",
            width="content",
        )
        st.metric(
            "Votes of others",
            f"{others.min():d} to {others.max():d}" if others.any() else "unchanged",
            help="By how much the votes of all other blocks changed: by at most one",
            width="content",
        )
        if pair[0] is not None and pair[1] is not None:
            st.metric(
                "Release moved",
                f"{dist_gmm(pair[0], pair[1]):.5f}",
                help="dist_GMM between the two releases, made with the same noise: 0 means equal, "
                "1 means as far apart as possible",
                width="content",
            )
    if pair[0] is None or pair[1] is None:
        st.info(
            "With this noise the test refused "
            + ("both times." if pair == (None, None) else "one of the two times.")
            + " A refusal is differentially private, too.",
            icon=":material/shield:",
        )


def _picture(
    before: Outcome,
    after: Outcome,
    changed: list[int],
    row: int,
    distance: float,
    move: float | None,
) -> None:
    rows = neighbours.data().rows
    blocks: list[Mixture | None] = [None, None]
    for side, outcome in enumerate((before, after)):
        fits = outcome.curator.fits
        if len(changed) == 1 and fits.ok[changed[0]]:
            blocks[side] = fits[changed[0]]
    st.plotly_chart(
        flip_figure(
            rows,
            _released(before),
            _released(after),
            blocks[0],
            blocks[1],
            rows[row],
            neighbours.moved_row(row, distance),
        ),
        key="flip",
        config={"displaylogo": False, "scrollZoom": False},
        alt=f"Row {row + 1} sent {distance:,.0f} away. The fit of its block before and after, and "
        "the release before and after with the same noise: the two releases lie on each other.",
    )
    notes = [
        ":material/lock: For the curator's eyes only, except for the releases. Both were made "
        "with the same noise, so that the difference is due to the one row."
    ]
    if changed and not after.curator.fits.ok[changed[0]]:
        notes.append(
            "The block no longer has a fit: with a row so far away, its learner finds no mixture."
        )
    notes.append(
        "Without privacy, the learner no longer finds a mixture in all rows: one row is enough."
        if move is None
        else f"Without privacy, the fit to all rows moves by {move:.5f} (dist_GMM)."
    )
    st.caption(" ".join(notes))


def _votes(before: Outcome, after: Outcome, changed: list[int]) -> None:
    one = changed[0] if len(changed) == 1 else None
    counts = before.curator.votes, after.curator.votes
    st.plotly_chart(
        flip_votes_figure(*counts, one, before.result.plan.stage(Agreement).test),
        key="flip_votes",
        config={"displaylogo": False, "displayModeBar": False},
        alt="Votes of all blocks before and after. "
        + (
            "They are the same."
            if one is None
            else f"Block {one + 1} had {counts[0][one]} friends and has {counts[1][one]}; the "
            "others lose or gain at most one."
        ),
    )
