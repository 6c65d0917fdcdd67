"""The error against epsilon, as a control: its point is dragged along the curve.

The browser gets all stops at once, with the ellipses of each release. So the picture follows the
hand there, without a question to the server, and the page catches up when the hand rests. It keeps
no state: the slider of the same page does. See `epsilon_curve.js`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from privgmm.figures.mixtures import BAND, NONPRIVATE, PRIVATE
from privgmm.mixture import Mixture
from privgmm.teaching.format import error_in_words
from privgmm.teaching.rehearsal import EPSILON_STOPS, Rehearsal
from privgmm.teaching.verdict import Tone, tone_of

__all__ = ["follow_hand", "hand_followed", "show_epsilon_curve", "stop_of"]

_KEY = "epsilon_curve"
_SLIDER = "epsilon"
"""Key of the slider that holds the value."""
_TAKEN = "epsilon_curve_taken"
"""Number of the last move that the slider has taken."""
_FOLLOWING = "epsilon_curve_following"
"""Number of the move that the slider takes when it is rendered."""
_GHOSTS = "possible release"
"""What the traces of possible releases are called, but for an s."""


def show_epsilon_curve(
    here: float,
    known: Mapping[float, Rehearsal],
    ghosts: Mapping[float, Sequence[Rehearsal]],
    *,
    alpha: float,
    axes: tuple[int, int] | None,
    reference: str,
    stands_in: bool = False,
) -> None:
    """Show the curve with its handle, and let it move the slider.

    Parameters
    ----------
    here : float
        The epsilon on screen.
    known : mapping
        Rehearsals by epsilon, as far as they are known.
    ghosts : mapping
        The same with other noise.
    alpha : float
        Accuracy asked for: errors below it are shaded.
    axes : tuple of int or None
        The two columns of the picture; None where the picture is not to follow the hand.
    reference : str
        What errors are measured from.
    stands_in : bool
        Whether it was rehearsed on stand-ins for the visitor's own rows.
    """
    if here not in EPSILON_STOPS:
        return
    without = next((one.nonprivate_error for one in known.values()), None)
    _COMPONENT(
        key=_KEY,
        data={
            "stops": [
                stop_of(epsilon, known.get(epsilon), ghosts.get(epsilon, ()), alpha, axes)
                for epsilon in EPSILON_STOPS
            ],
            "here": EPSILON_STOPS.index(here),
            "sequence": st.session_state.get(_TAKEN, 0),
            "alpha": alpha,
            "without": without,
            "place": "st-key-picture",
            "slider": f"st-key-{_SLIDER}",
            "drawn": axes is not None,
            "names": [PRIVATE.label, BAND, _GHOSTS, f"{_GHOSTS}s"],
            "colour": PRIVATE.colour,
            "words": {
                "across": "privacy budget ε: drag the point"
                + (" · on stand-ins, not your rows" if stands_in else ""),
                "within": f"within α = {alpha:g}",
                "without": "without privacy",
                "handle": "ε on the curve",
                "group": f"Error against ε, from {reference}. " + _in_words(known, without),
            },
        },
    )


def _in_words(known: Mapping[float, Rehearsal], without: float | None) -> str:
    """Describe the curve for those who do not see it."""
    words = [
        f"ε = {epsilon:g}: "
        + ("refused" if not one.released else "error not known" if one.error is None else "error ")
        + ("" if one.error is None else error_in_words(one.error))
        for epsilon, one in sorted(known.items())
    ]
    if without is not None:
        words.append(f"without privacy: error {error_in_words(without)}")
    return "; ".join(words) + "."


def stop_of(
    epsilon: float,
    rehearsal: Rehearsal | None,
    ghosts: Sequence[Rehearsal],
    alpha: float,
    axes: tuple[int, int] | None,
) -> dict[str, Any]:
    """Return what the browser draws at one stop: words, error and ellipses."""
    stop: dict[str, Any] = {
        "epsilon": epsilon,
        "known": rehearsal is not None,
        "refused": rehearsal is not None and not rehearsal.released,
        "error": None if rehearsal is None else rehearsal.error,
        "tone": _tone(rehearsal, alpha),
        "words": _label(epsilon, rehearsal),
        "shapes": [],
        "ghosts": [],
    }
    if axes is not None and rehearsal is not None:
        stop["shapes"] = _shapes(rehearsal.private, axes)
        stop["ghosts"] = [_shapes(ghost.private, axes) for ghost in ghosts]
    return stop


def _tone(rehearsal: Rehearsal | None, alpha: float) -> Tone:
    if rehearsal is None:
        return "open"
    return "no" if rehearsal.result is None else tone_of(rehearsal.result.usefulness(alpha))


def _label(epsilon: float, rehearsal: Rehearsal | None) -> str:
    words = f"ε = {epsilon:g}"
    if rehearsal is None:
        return f"{words}: …"
    if not rehearsal.released:
        return f"{words}: refused"
    if rehearsal.error is None:
        return f"{words}: released"
    return f"{words}: error {error_in_words(rehearsal.error)}"


def _shapes(mixture: Mixture | None, axes: tuple[int, int]) -> list[list[float]]:
    """Return centre and factor (m1, m2, l11, l21, l22) of each component, in few digits."""
    if mixture is None:
        return []
    flat = mixture.marginal(list(axes))
    numbers = np.column_stack([flat.means, flat.cholesky[:, *np.tril_indices(2)]])
    return [[float(f"{number:.5g}") for number in line] for line in numbers]


def follow_hand() -> None:
    """Move the slider to where the point was dragged; called before the slider is rendered.

    Not a callback: Streamlit forgets the callback of a widget that a stopped run did not reach.
    It forgets the new value of the slider too if the run stops before the slider, so a move is
    taken only when `hand_followed` says that the slider is there.
    """
    state = st.session_state.get(_KEY)
    report = state.get("moved") if isinstance(state, Mapping) else None
    if not isinstance(report, Mapping):
        return
    epsilon, sequence = report.get("epsilon"), report.get("sequence")
    # the browser repeats its last move with every message
    if epsilon not in EPSILON_STOPS or not isinstance(sequence, int):
        return
    if sequence > st.session_state.get(_TAKEN, 0):
        st.session_state[_FOLLOWING] = sequence
        st.session_state[_SLIDER] = float(epsilon)


def hand_followed() -> None:
    """Note that the slider has taken the move of `follow_hand`; called after it is rendered."""
    if _FOLLOWING in st.session_state:
        st.session_state[_TAKEN] = st.session_state.pop(_FOLLOWING)


_CSS = """
.stage { width: 100%; min-height: 170px; }
svg { display: block; width: 100%; height: 170px; user-select: none; touch-action: pan-y;
  cursor: ew-resize; font-family: var(--st-font, sans-serif); }
text { font-size: 0.79rem; fill: var(--st-text-color); }
.tick { font-size: 0.75rem; opacity: 0.85; }
.middle { text-anchor: middle; }
.end { text-anchor: end; }
.label { font-size: 0.94rem; font-weight: 600; text-anchor: middle; }
.grid { stroke: rgba(128, 128, 136, 0.25); }
.within { fill: rgba(0, 158, 115, 0.13); }
.refused { fill: rgba(128, 128, 136, 0.25); }
.without { stroke: WITHOUT; stroke-width: 2.5; stroke-dasharray: 3 3; }
.errors { fill: none; stroke: PRIVATE; stroke-width: 2.5; }
.dot { fill: PRIVATE; }
.here { stroke: var(--st-text-color); stroke-dasharray: 2 4; opacity: 0.7; }
.handle { fill: PRIVATE; stroke: var(--st-background-color); stroke-width: 3; outline: none; }
.handle.yes { fill: #009E73; }
.handle.fair { fill: #E69F00; }
.handle.no, .handle.open { fill: #8a8a94; }
.handle:focus-visible { stroke: var(--st-text-color); }
""".replace("WITHOUT", NONPRIVATE.colour).replace("PRIVATE", PRIVATE.colour)

_JS = Path(__file__).with_name("epsilon_curve.js").read_text(encoding="utf-8")

_COMPONENT = st.components.v2.component(
    "privgmm_epsilon_curve", html='<div class="stage"></div>', css=_CSS, js=_JS
)
