"""Two Gaussians to drag and stretch in the browser.

The component draws what it gets and reports drags, a few times a second and once more at the end.
It keeps no state: the page's number inputs do, so that a pair can be typed, linked to and restored.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import streamlit as st

from privgmm.figures.theory import FIRST, SECOND
from privgmm.teaching.pairs import NARROWEST_SPREAD, REACH, WIDEST_SPREAD, PlaneGaussian

__all__ = [
    "drag_pair",
    "dragged_pair",
    "is_held",
    "read_pair",
]


def read_pair(reported: Any) -> tuple[PlaneGaussian, PlaneGaussian] | None:
    """Read the pair that the browser reported; None unless it is ten finite numbers."""
    if not isinstance(reported, Mapping):
        return None
    numbers = reported.get("pair")
    if not isinstance(numbers, list) or len(numbers) != 10:
        return None
    if not all(isinstance(x, int | float) and math.isfinite(x) for x in numbers):
        return None
    first, second = (_gaussian(part) for part in (numbers[:5], numbers[5:]))
    return first.within_limits(), second.within_limits()


def _gaussian(numbers: list[float]) -> PlaneGaussian:
    x, y, along, across, turn = map(float, numbers)
    return PlaneGaussian(x, y, along, across, turn)


def drag_pair(
    first: PlaneGaussian,
    second: PlaneGaussian,
    *,
    line: tuple[float, float, float, float],
    note: str,
    key: str,
    on_move: Callable[[], None],
) -> None:
    """Show the pair and call `on_move` when it was dragged; see `dragged_pair`.

    `line` is drawn dotted through two points (x, y, x, y), and `note` is written below.
    """
    _COMPONENT(
        key=key,
        data={
            "pair": [*dataclasses.astuple(first), *dataclasses.astuple(second)],
            "line": list(line),
            "note": note,
            "sequence": _report(key).get("sequence", 0),
            "limits": {"reach": REACH, "least": NARROWEST_SPREAD, "most": WIDEST_SPREAD},
        },
        on_moved_change=on_move,
    )


def _report(key: str) -> Mapping[str, Any]:
    state = st.session_state.get(key)
    report = state.get("moved") if isinstance(state, Mapping) else None
    return report if isinstance(report, Mapping) else {}


def dragged_pair(key: str) -> tuple[PlaneGaussian, PlaneGaussian] | None:
    """Return where the pair was last dragged to, if it was."""
    return read_pair(_report(key))


def is_held(key: str) -> bool:
    """Whether the pair was still being dragged when the browser last reported."""
    return _report(key).get("held") is True


_HTML = '<div class="stage"></div>'

_CSS = f"""
.stage {{ width: 100%; max-width: 460px; margin: 0 auto; }}
svg {{ display: block; width: 100%; height: auto; border-radius: 8px; user-select: none;
  background: var(--st-secondary-background-color); }}
.grid {{ stroke: rgba(128, 128, 136, 0.25); stroke-width: 0.02; }}
.first {{ --hue: {FIRST}; }}
.second {{ --hue: {SECOND}; }}
.body {{ fill: var(--hue); fill-opacity: 0.14; stroke: var(--hue); stroke-width: 0.07; }}
.outer {{ fill: none; stroke: var(--hue); stroke-width: 0.045; opacity: 0.6; }}
.second .body {{ stroke-dasharray: 0.22 0.13; }}
.second .outer {{ stroke-dasharray: 0.22 0.13; }}
.arm {{ stroke: var(--hue); stroke-width: 0.05; }}
.handle {{ fill: var(--hue); stroke: var(--st-background-color); stroke-width: 0.06;
  cursor: grab; touch-action: none; outline: none; }}
.handle:hover, .handle:focus {{ stroke: var(--st-text-color); stroke-width: 0.09; }}
.handle:active {{ cursor: grabbing; }}
text {{ font: 600 0.33px var(--st-font, sans-serif); fill: #fff; text-anchor: middle;
  dominant-baseline: central; pointer-events: none; }}
.note {{ font-size: 0.36px; fill: var(--st-text-color); }}
.line {{ stroke: var(--st-text-color); stroke-width: 0.04; stroke-dasharray: 0.02 0.14;
  stroke-linecap: round; }}
"""

_JS = Path(__file__).with_name("drag.js").read_text(encoding="utf-8")

_COMPONENT = st.components.v2.component("privgmm_pair", html=_HTML, css=_CSS, js=_JS)
