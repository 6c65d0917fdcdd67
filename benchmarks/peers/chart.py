"""Draw the results at 100,000 rows as one picture: a line per tool, a mark per kind of bounds."""

from __future__ import annotations

import html
import math

from benchmarks.peers.campaign import Campaign
from benchmarks.peers.cases import CASES, ProblemCase
from benchmarks.peers.reading import median_of, name_of
from benchmarks.peers.tools import TOOLS

__all__ = ["N_ROWS", "place", "svg"]

N_ROWS = 100_000
_LEFT, _RIGHT, _TOP, _LINE = 300.0, 880.0, 96.0, 34.0
_LEAST, _MOST = 2e-3, 1.0
_TICKS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_MARKS = {
    "right": ("#00805B", "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0 -12 0z"),
    "wide": ("#B87700", "M0 -7L7 0L0 7L-7 0z"),
    "tight": ("#A3508A", "M-7 6L0 -7L7 6z"),
    "none": ("#0072B2", "M-5.5 -5.5h11v11h-11z"),
    "shifted": ("#C44E00", "M-7 -6L0 7L7 -6z"),
}
"""Colour and shape of each situation: either alone is enough to distinguish them."""


def place(variation: float) -> float:
    """Place a total variation from left to right; logarithmic, kept within the ends."""
    kept = min(max(variation, _LEAST), _MOST)
    return _LEFT + (_RIGHT - _LEFT) * math.log(kept / _LEAST) / math.log(_MOST / _LEAST)


def svg(campaign: Campaign) -> str:
    """Draw the picture on a white background, so that it is legible on any page."""
    cases = [case for case in CASES if isinstance(case, ProblemCase) and case.n_rows == N_ROWS]
    bottom = _TOP + _LINE * len(TOOLS)
    parts = [
        '<rect width="920" height="100%" fill="#ffffff"/>',
        _text(20, 30, f"Total variation to the truth, {N_ROWS:,} rows (left is better)", "title"),
    ]
    x = 20.0
    for case in cases:
        parts.append(_mark(case.situation.key, x + 8, 56))
        parts.append(_text(x + 22, 61, case.situation.title))
        x += 50 + 6.9 * len(case.situation.title)
    for tick in _TICKS:
        at = place(tick)
        parts.append(f'<path d="M{at:.1f} {_TOP - 14:.0f}V{bottom:.0f}" stroke="#dddddd"/>')
        parts.append(_text(at, bottom + 20, f"{tick:g}", "tick"))
    for line, tool in enumerate(TOOLS):
        y = _TOP + _LINE * (line + 0.35)
        kind = "ours" if tool.key == "privgmm" else ""
        parts.append(_text(20, y + 5, name_of(campaign, tool), kind))
        for case in cases:
            value = median_of(campaign, tool, case, "variation")
            if value is not None:
                parts.append(_mark(case.situation.key, place(value), y))
    said = f"Total variation between the truth and what each tool learned from {N_ROWS:,} rows"
    style = (
        "text{font:14px system-ui,sans-serif;fill:#222222}"
        ".title{font-weight:700;font-size:17px}.ours{font-weight:700}.tick{text-anchor:middle}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 920 {bottom + 34:.0f}" role="img" '
        f'aria-label="{said}"><style>{style}</style>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _mark(situation: str, x: float, y: float) -> str:
    colour, shape = _MARKS[situation]
    return (
        f'<path transform="translate({x:.1f} {y:.1f})" d="{shape}" fill="{colour}" '
        f'fill-opacity="0.85" class="{situation}"/>'
    )


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{attribute}>{html.escape(words)}</text>'
