"""The page Compare: what the same rows give under the same promise, learner by learner.

Runs are computed in the background and drawn as they arrive. All noise is seeded and all rows are
generated: nothing is spent, and nothing is confidential.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from privgmm.baselines.comparison import Absent, Contender, Errors, Result, contenders
from privgmm.dashboard.compare.asking import (
    CHANGE_PRESETS,
    COMPARISON_WRITERS,
    MOST_ROWS,
    ComparisonQuestion,
    apply_preset,
    ask_comparison,
    change_in_words,
    comparison_in_words,
)
from privgmm.dashboard.compare.runs import (
    FEWEST_SEEDS,
    SEEDS,
    Comparison,
    Place,
    Trial,
    TrialResults,
    compare_so_far,
    place_asked,
    places_along_epsilon,
    places_along_rows,
)
from privgmm.dashboard.shared.layout import frame
from privgmm.dashboard.shared.lessons import (
    LINKED,
    controls_panel,
    current_lesson,
    scene_line,
    show_link,
    written,
)
from privgmm.dashboard.shared.refresh import refresh_part, refreshing_page, rerun, wait_briefly
from privgmm.errors import InvalidInput
from privgmm.figures.compare import ErrorCurve, ErrorPoint, comparison_alt_text, comparison_figure
from privgmm.teaching.format import count_in_words, number_in_words, problem_in_words

__all__ = ["MEASURES", "ErrorMeasure", "error_curve_of", "errors_of", "page", "verdict"]

_KNOWN = "compare_known"
_STOPPED = "compare_stopped"
_TICK = 0.7
"""Seconds between two ticks, by convention: the figures are large."""
_FIRST = 1.5
"""Seconds that the page waits for its first runs before it says that they are computed."""


class ErrorMeasure(NamedTuple):
    """An error that can be shown: its field in `Errors`, its axis, and its meaning."""

    field: str
    axis: str
    meaning: str


MEASURES: dict[str, ErrorMeasure] = {
    "Distance": ErrorMeasure(
        "distance",
        "error (dist_GMM to the truth)",
        "dist_GMM of Definition 1.4: the worst component's total variation distance or weight "
        "error. 0 is perfect, 1 has nothing in common with the truth",
    ),
    "Means": ErrorMeasure(
        "mean",
        "error of the worst mean",
        "How far the worst mean is off, in standard deviations of its component",
    ),
    "Covariances": ErrorMeasure(
        "covariance",
        "error of the worst covariance",
        "How far the worst covariance is off, relative to itself (Frobenius norm)",
    ),
}


@refreshing_page
def page() -> None:
    """Render the page."""
    link = frame(
        "Who learns it best?",
        "The same rows, the same promise, every learner: our methods, other methods, and no "
        "privacy. Ours get no bounds; see what happens to the others when theirs are wrong.",
    )
    if current_lesson() is None:
        controls, results = st.container(key="rail").columns([1, 2.4], gap="medium")
    else:
        controls, results = st.container(), st.container()
    with controls, controls_panel("comparison"):
        asked = ask_comparison()
    with results:
        scene_line(comparison_in_words(asked))
        st.caption(
            ":material/science: **Rehearsal: nothing spent.** Rows are generated and all noise is "
            "seeded, so nothing on this page is confidential."
        )
        _presets()
        try:
            asked.problem()
        except InvalidInput as problem:
            st.error(problem_in_words(problem), icon=":material/error:")
            return
        shown = _choose_measure()
        running = not compare_so_far(asked, _known(asked), more=False).complete and not _stopped(
            asked
        )
        paint = functools.partial(_paint, asked, shown, running, st.empty())
        if running:
            refresh_part(paint, every=_TICK)
        else:
            paint()
        _details(asked)
    with link:
        # Last, when every widget of the page has its value.
        show_link(written(COMPARISON_WRITERS))


def _presets() -> None:
    with st.container(horizontal=True, key="presets"):
        for number, name in enumerate(CHANGE_PRESETS):
            st.button(name, key=f"preset_{number}", on_click=apply_preset, args=(name,))


def _choose_measure() -> str:
    return str(
        st.segmented_control(
            "Error shown",
            list(MEASURES),
            default=next(iter(MEASURES)),
            required=True,
            key="error_shown",
            **LINKED,
            help=". ".join(f"{name}: {one.meaning}" for name, one in MEASURES.items()) + ".",
        )
    )


# --------------------------------------------------------------------------- what is pending


def _known(asked: ComparisonQuestion) -> dict[Trial, TrialResults]:
    """Return the results of this question that the session has seen; none for a new one."""
    kept = st.session_state.get(_KNOWN)
    if not (isinstance(kept, tuple) and kept[0] == asked):
        kept = (asked, {})
        st.session_state[_KNOWN] = kept
    known: dict[Trial, TrialResults] = kept[1]
    return known


def _stopped(asked: ComparisonQuestion) -> bool:
    return bool(st.session_state.get(_STOPPED) == asked)


def _stop(asked: ComparisonQuestion | None) -> None:
    st.session_state[_STOPPED] = asked


def _paint(asked: ComparisonQuestion, shown: str, running: bool, place: DeltaGenerator) -> None:
    """Render everything that grows with the runs, again at every tick while there are more."""
    stopped = _stopped(asked)
    found = compare_so_far(asked, _known(asked), more=not stopped)
    if not found.done and found.pending:
        wait_briefly(found.pending[:1], _FIRST)
        found = compare_so_far(asked, _known(asked))
    if running and (found.complete or stopped):
        # only a run of the page stops the timer
        rerun()
    with place.container():
        _progress(asked, found, stopped=stopped)
        _headline(asked, found, MEASURES[shown])
        _figures(asked, found, MEASURES[shown])
        _table(asked, found, MEASURES[shown])


def _progress(asked: ComparisonQuestion, found: Comparison, *, stopped: bool) -> None:
    # In a container of its own what comes and goes does not push the rest about.
    with st.container(horizontal=True, vertical_alignment="center", key="progress"):
        if found.complete:
            st.caption(
                f":material/done_all: All {found.total} places and seeds are in. Lines go through "
                f"the medians of {SEEDS} runs, bars from the best to the worst."
            )
            return
        so_far = f"{found.done} of {found.total} places and seeds"
        if stopped:
            st.caption(f":material/pause: Stopped at {so_far}.")
            st.button("Go on", key="compare_on", on_click=_stop, args=(None,))
            return
        st.progress(found.done / found.total, text=f"{so_far}; more runs are filled in")
        st.button(
            "Stop", key="compare_stop", icon=":material/cancel:", on_click=_stop, args=(asked,)
        )


# ----------------------------------------------------------------------------------- results


@dataclasses.dataclass(frozen=True)
class ContenderErrors:
    """How one contender did at one place.

    Parameters
    ----------
    contender : Contender
    results : tuple of Result
    measure : Measure
    """

    contender: Contender
    results: tuple[Result, ...]
    measure: ErrorMeasure

    @property
    def errors(self) -> tuple[float, ...]:
        """Errors of the runs that gave a mixture."""
        return tuple(
            float(getattr(one, self.measure.field))
            for one in self.results
            if isinstance(one, Errors)
        )

    @property
    def refused(self) -> int:
        """Number of runs that were tried and refused."""
        return sum(isinstance(one, Absent) and one.refused for one in self.results)

    @property
    def rows_needed(self) -> float | None:
        """Rows that would be enough, if it was not tried."""
        needed = [one.rows_needed for one in self.results if isinstance(one, Absent)]
        return next((rows for rows in needed if rows is not None), None)

    @property
    def median(self) -> float:
        """Median of the errors; infinite if there are none."""
        return float(np.median(self.errors)) if self.errors else math.inf

    @property
    def in_words(self) -> str:
        """The result, for a cell of a table."""
        if not self.results:
            return "…"
        if not self.errors:
            if self.refused:
                return f"refused ({self.refused} of {len(self.results)} runs)"
            if self.rows_needed is None or not math.isfinite(self.rows_needed):
                return "cannot release"
            return f"cannot: takes {count_in_words(self.rows_needed)} rows"
        words = number_in_words(self.median, 3)
        if len(self.errors) > 1:
            low, high = (number_in_words(f(self.errors), 2) for f in (min, max))
            words += f" ({low} to {high})" if low != high else ""
        return f"{words}; {self.refused} refused" if self.refused else words


def errors_of(
    found: Comparison, place: Place, one: Contender, measure: ErrorMeasure
) -> ContenderErrors:
    """Collect the results of a contender at a place."""
    return ContenderErrors(one, found.at(place, one.key), measure)


def verdict(standings: Sequence[ContenderErrors]) -> str:
    """Say who is nearest to the truth, with bounds and without, in a sentence or two."""
    private = [one for one in standings if one.contender.private and one.errors]
    ours = [one for one in private if one.contender.told == "nothing"]
    others = [one for one in private if one.contender.told != "nothing"]
    if not others:
        return ""
    best = min(others, key=lambda one: one.median)
    given = f"{best.contender.title}, given {best.contender.told}"
    if not ours:
        return (
            "None of our methods releases here: with so few rows, or with components so near each "
            f"other, one row could matter too much. The best of the others is {given}, with an "
            f"error of **{number_in_words(best.median, 2)}**."
        )
    first = min(ours, key=lambda one: one.median)
    lead = (
        f"**{first.contender.title}, given nothing,** has an error of "
        f"**{number_in_words(first.median, 2)}**"
    )
    if first.median <= best.median:
        times = best.median / first.median
        than = f": **{number_in_words(times, 2)} times as much**" if times >= 1.05 else ""
        return (
            f"{lead}. The best of the others, {given}, has {number_in_words(best.median, 2)}{than}."
        )
    return (
        f"{lead}. **{best.contender.title} is nearer**, with {number_in_words(best.median, 2)}: it "
        f"was given {best.contender.told}."
    )


def _headline(asked: ComparisonQuestion, found: Comparison, measure: ErrorMeasure) -> None:
    place = place_asked(asked)
    runs = len(found.results.get(place, ()))
    with st.container(key="verdict"):
        if runs < FEWEST_SEEDS:
            st.info(
                f"{runs} of the first {FEWEST_SEEDS} runs are in. A headline needs {FEWEST_SEEDS}.",
                icon=":material/hourglass_top:",
            )
            return
        words = verdict([errors_of(found, place, one, measure) for one in contenders()])
        if words:
            change = change_in_words(asked)
            setting = f"At ε = {place.epsilon:g} and {place.n_rows:,} rows"
            st.markdown(
                f"{setting}{f', {change}' if change else ''}: {words} "
                f"(Medians of {runs} runs each.)"
            )


def error_curve_of(
    found: Comparison, places: Sequence[Place], one: Contender, measure: ErrorMeasure, *, rows: bool
) -> ErrorCurve:
    """Collect a contender's errors along places; `rows` says which of the two changes."""
    points = []
    for place in places:
        standing = errors_of(found, place, one, measure)
        if standing.results:
            points.append(
                ErrorPoint(
                    float(place.n_rows if rows else place.epsilon),
                    standing.errors,
                    standing.refused,
                    standing.rows_needed,
                )
            )
    return ErrorCurve(one.title, one.look, tuple(points))


def _figures(asked: ComparisonQuestion, found: Comparison, measure: ErrorMeasure) -> None:
    if not found.done:
        return
    config = {"displaylogo": False, "scrollZoom": False}
    for rows in (False, True):
        places = places_along_rows(asked) if rows else places_along_epsilon(asked)
        curves = [error_curve_of(found, places, one, measure, rows=rows) for one in contenders()]
        across = "rows" if rows else "privacy budget ε"
        at = place_asked(asked)
        fixed = f"ε = {at.epsilon:g}" if rows else f"{at.n_rows:,} rows"
        st.markdown(f"**Error against {'rows' if rows else 'ε'}**, at {fixed}")
        values = [float(place.n_rows if rows else place.epsilon) for place in places]
        figure = comparison_figure(
            curves,
            across=across,
            up=measure.axis,
            here=float(at.n_rows if rows else at.epsilon),
            ticks=[value for value in values if value >= 1000] if rows else values,
            legend=not rows,
        )
        st.plotly_chart(
            figure,
            key="against_rows" if rows else "against_epsilon",
            config=config,
            alt=comparison_alt_text(curves, across),
        )


def _table(asked: ComparisonQuestion, found: Comparison, measure: ErrorMeasure) -> None:
    if not found.done:
        return
    place = place_asked(asked)
    st.markdown(f"**What each has to know**, and its error at ε = {place.epsilon:g}")
    lines = []
    for one in contenders():
        standing = errors_of(found, place, one, measure)
        private = "yes" if one.private else "no"
        lines.append((one.title, one.told, private, standing.in_words))
    names = ["Learner", "Has to know", "Differentially private", f"Error, {place.n_rows:,} rows"]
    st.table(pd.DataFrame(lines, columns=names).set_index("Learner"), border="horizontal")


def _details(asked: ComparisonQuestion) -> None:
    with st.expander("How this was compared", icon=":material/info:"):
        st.markdown(
            "Every learner gets the same generated rows, ε and δ, for replacing one row, and the "
            "true number of components. Bounds that are *right* hold every component by five "
            "standard deviations: better than anyone knows without looking. When rows are "
            "shifted, multiplied or sheared, the others keep the bounds of the rows as they were. "
            "What lies outside is pulled to the nearest side, so their promise still holds, and "
            "only their result suffers."
        )
        st.markdown("\n".join(f"- **{one.title}** {one.sentence}." for one in contenders()))
        if asked.rows.n_rows == MOST_ROWS:
            st.markdown(f"At most {MOST_ROWS:,} rows are compared here, to keep runs short.")
