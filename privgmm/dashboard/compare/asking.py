"""The question of the page Compare: which mixture, which promise, and which wrong bounds.

The controls of the mixture have the same names as on Explore, so a session that comes from there
finds its own mixture here.
"""

from __future__ import annotations

import dataclasses
import functools

import streamlit as st

from privgmm.baselines.comparison import LearningProblem
from privgmm.budget import Budget
from privgmm.dashboard.explore.data_panel import MIXTURE_KINDS
from privgmm.dashboard.shared.layout import slider_ends
from privgmm.dashboard.shared.lessons import LINKED, Writer, plainly
from privgmm.dashboard.shared.sliders import choose_delta, choose_epsilon
from privgmm.data.generators import GENERATORS
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.records.notebook import GeneratedRows
from privgmm.teaching.format import number_in_words
from privgmm.teaching.rehearsal import ROW_COUNTS

__all__ = [
    "CHANGE_PRESETS",
    "COMPARISON_WRITERS",
    "MOST_ROWS",
    "WIDTHS",
    "ComparisonQuestion",
    "apply_preset",
    "ask_comparison",
    "change_in_words",
    "comparison_in_words",
    "width_in_words",
]

MOST_ROWS = 1_000_000
"""More rows would make a run too long to wait for."""
WIDTHS = (0.1, 0.2, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Widths of the bounds that are offered, as multiples of the right ones."""
_SHIFTS = (0.0, 1.0, 10.0, 100.0, 1_000.0, 10_000.0)
_SCALES = (0.01, 0.1, 1.0, 10.0, 100.0)
_SHEARS = (0.0, 1.0, 10.0, 100.0)
"""Changes of the rows that are offered, about evenly on a log scale."""

CHANGE_PRESETS: dict[str, dict[str, float]] = {
    "Bounds right": {},
    "10 times too wide": {"told_width": 10.0},
    "5 times too tight": {"told_width": 0.2},
    "Shifted by 10,000": {"shift": 10_000.0},
    "Multiplied by 100": {"scale": 100.0},
}
"""Changes of the rows or the bounds, each by its name."""

_UNCHANGED = {"told_width": 1.0, "shift": 0.0, "scale": 1.0, "shear": 0.0}
"""Values of the sliders at which nothing is changed."""


@dataclasses.dataclass(frozen=True, slots=True)
class ComparisonQuestion:
    """What is compared; everything in it is public.

    Parameters
    ----------
    rows : GeneratedRows
        At most `MOST_ROWS` of them.
    budget : Budget
    width, shift, scale, shear : float
        See `LearningProblem.changed`.
    """

    rows: GeneratedRows
    budget: Budget
    width: float = 1.0
    shift: float = 0.0
    scale: float = 1.0
    shear: float = 0.0

    def problem(self) -> LearningProblem:
        """The question as a problem to learn."""
        return LearningProblem.changed(
            _truth(dataclasses.replace(self.rows, n_rows=1)),
            width=self.width,
            shift=self.shift,
            scale=self.scale,
            shear=self.shear,
        )


@functools.lru_cache(maxsize=64)
def _truth(rows: GeneratedRows) -> Mixture:
    truth = rows.load().truth
    if truth is None:
        raise InvalidInput("generated rows must have a known mixture")
    return truth


COMPARISON_WRITERS: dict[str, Writer] = {
    **plainly("true_k", "d", "separation", "data_seed", "epsilon"),
    **plainly("scale", "shear", "error_shown"),
    "kind": lambda kind: MIXTURE_KINDS[kind],
    "n": lambda n: f"{n:,}",
    "delta": number_in_words,
    "told_width": lambda value: width_in_words(value),
    "shift": lambda value: f"{value:,g}",
}


def ask_comparison() -> ComparisonQuestion:
    """Show the controls; return the question."""
    st.markdown("**1 · The mixture behind the rows**")
    rows = _choose_rows()
    st.markdown("**2 · The promise to all rows**")
    epsilon = choose_epsilon("epsilon")
    delta = choose_delta("delta")
    st.markdown("**3 · What the others do not know**")
    width, shift, scale, shear = _choose_change(rows.n_features)
    return ComparisonQuestion(rows, Budget(epsilon, delta), width, shift, scale, shear)


def _choose_rows() -> GeneratedRows:
    kind = str(
        st.selectbox(
            "Kind of mixture",
            list(MIXTURE_KINDS),
            format_func=lambda name: MIXTURE_KINDS.get(name, name),
            key="kind",
            **LINKED,
        )
    )
    left, right = st.columns(2)
    k = left.number_input("Components", 1, 8, 2, key="true_k", **LINKED)
    d = right.number_input("Columns", 1, 10, 2, key="d", **LINKED)
    named = kind in GENERATORS
    separation = 4.0
    if not named:
        separation = st.slider(
            "Separation",
            0.0,
            12.0,
            4.0,
            0.5,
            key="separation",
            **LINKED,
            help="Smallest distance between two means, in units of their spread",
        )
    n = st.select_slider(
        "Rows", ROW_COUNTS, 100_000, format_func=lambda n: f"{n:,}", key="n", **LINKED
    )
    seed = st.number_input(
        "Seed of the data",
        0,
        10**9,
        1,
        key="data_seed",
        **LINKED,
        help="Another seed, another mixture",
    )
    return GeneratedRows(
        kind if named else None,
        int(k),
        int(d),
        min(int(n), MOST_ROWS),
        int(seed),
        float(separation),
    )


def _choose_change(n_features: int) -> tuple[float, float, float, float]:
    width = st.select_slider(
        "Bounds that they get",
        WIDTHS,
        1.0,
        format_func=width_in_words,
        key="told_width",
        **LINKED,
        help="Right bounds hold every component by five standard deviations. Rows outside are "
        "pulled to the nearest side. Our methods get no bounds.",
    )
    slider_ends("too tight", "too wide")
    shift = st.select_slider(
        "Rows shifted by",
        _SHIFTS,
        0.0,
        format_func=lambda value: f"{value:,g}",
        key="shift",
        **LINKED,
        help="Added to every column; the other learners are not informed",
    )
    scale = st.select_slider(
        "Rows multiplied by",
        _SCALES,
        1.0,
        format_func=lambda value: f"{value:g}",
        key="scale",
        **LINKED,
        help="Centimetres instead of metres; the other learners are not informed",
    )
    shear = 0.0
    if n_features > 1:
        shear = st.select_slider(
            "Rows sheared by",
            _SHEARS,
            0.0,
            format_func=lambda value: f"{value:g}",
            key="shear",
            **LINKED,
            help="Adds this multiple of column 1 to the last column; the other learners are not "
            "informed",
        )
    return float(width), float(shift), float(scale), float(shear)


def apply_preset(name: str) -> None:
    """Set the sliders of part 3; for the callback of a button."""
    for key, value in (_UNCHANGED | CHANGE_PRESETS[name]).items():
        st.session_state[key] = value


def width_in_words(width: float) -> str:
    """Say how wide bounds are.

    Examples
    --------
    >>> width_in_words(1.0), width_in_words(10.0), width_in_words(0.2)
    ('right', '10 times too wide', '5 times too tight')
    """
    if width == 1:
        return "right"
    if width > 1:
        return f"{width:g} times too wide"
    return f"{1 / width:g} times too tight"


def change_in_words(asked: ComparisonQuestion) -> str:
    """Say what the others do not know, in a clause; empty if nothing was changed.

    Examples
    --------
    >>> rows = GeneratedRows("overlapping", 2, 2, 1000, 1)
    >>> change_in_words(ComparisonQuestion(rows, Budget(1.0, 1e-6), width=0.2, shift=100.0))
    'bounds 5 times too tight, rows shifted by 100'
    """
    parts = []
    if asked.width != 1:
        parts.append(f"bounds {width_in_words(asked.width)}")
    if asked.shift:
        parts.append(f"rows shifted by {number_in_words(asked.shift)}")
    if asked.scale != 1:
        parts.append(f"rows multiplied by {asked.scale:g}")
    if asked.shear:
        parts.append(f"rows sheared by {asked.shear:g}")
    return ", ".join(parts)


def comparison_in_words(asked: ComparisonQuestion) -> str:
    """Write the question in a line."""
    rows = asked.rows
    kind = f"Separation {rows.separation:g}" if rows.kind is None else MIXTURE_KINDS[rows.kind]
    change = change_in_words(asked) or "bounds right"
    return (
        f"{kind}, {rows.n_components} components, {rows.n_features} columns, {rows.n_rows:,} rows, "
        f"ε = {asked.budget.epsilon:g}, δ = {number_in_words(asked.budget.delta)}; {change}."
    )
