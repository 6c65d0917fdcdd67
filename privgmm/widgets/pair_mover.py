"""Theorem 1.8 with two ellipses that sliders move: the exact TV between its two bounds."""

from __future__ import annotations

import dataclasses
from typing import Any

import ipywidgets

from privgmm.distances.bounds import theorem_1_8
from privgmm.distances.total_variation import gaussian_tv
from privgmm.figures.theory import band_figure, overlap_figure, pair_figure
from privgmm.mixture import Mixture
from privgmm.showing.html import mixture_html
from privgmm.teaching.format import number_in_words
from privgmm.teaching.pairs import (
    NARROWEST_SPREAD,
    PAIR_PRESETS,
    REACH,
    START,
    WIDEST_SPREAD,
    ZOOMS,
    Pair,
    PlaneGaussian,
    chance_of_best_guess,
    clearest_shadow,
    theorem_in_words,
)
from privgmm.widgets.live import Board, LiveFigure, dropdown, panels, slider, words
from privgmm.widgets.live import words_html as as_html

__all__ = ["theorem"]

_PLACES: dict[str, tuple[str, float, float, float]] = {
    "x": ("across", -REACH, REACH, 0.1),
    "y": ("up", -REACH, REACH, 0.1),
    "along": ("spread along", NARROWEST_SPREAD, WIDEST_SPREAD, 0.05),
    "across": ("spread across", NARROWEST_SPREAD, WIDEST_SPREAD, 0.05),
    "turn": ("turn, degrees", -90.0, 90.0, 5.0),
}
"""Name, range and step of each number of a Gaussian."""
_TALL = 300


def theorem() -> Board:
    """Let two Gaussians be moved, and show their exact TV between the bounds of Theorem 1.8."""
    return _Theorem().board


class _Theorem:
    """The sliders of both Gaussians, and what follows from them."""

    def __init__(self) -> None:
        self.numbers = [_sliders(start) for start in START]
        self.zoom = slider("Microscope", ZOOMS, 1000, say=lambda zoom: f"{zoom:,}×")
        self.preset = dropdown("Pair", [(name, name) for name in PAIR_PRESETS], "Start again")
        self._loading = False
        self._say, self._about = words(), words()
        pair = self._pair()
        drawn = self._pair(zoom=1)
        self._board = LiveFigure(self._drawn(drawn))
        shadow = clearest_shadow(drawn)
        self._overlap = LiveFigure(overlap_figure(shadow.means, shadow.deviations, height=_TALL))
        self._band = LiveFigure(self._bounds(pair))
        for gaussian in self.numbers:
            for one in gaussian.values():
                one.observe(lambda _: self._show(), "value")
        self.zoom.observe(lambda _: self._show(), "value")
        self.preset.observe(lambda _: self._load(), "value")
        titles = ("First Gaussian", "Second Gaussian")
        controls: list[Any] = [self.preset, self.zoom]
        for title, gaussian in zip(titles, self.numbers, strict=True):
            controls += [words(f"**{title}**"), *gaussian.values()]
        self.board = Board(
            [
                self._say,
                panels((*controls, self._about), (self._board, self._overlap, self._band)),
            ],
            self._still,
        )
        self._show()

    def _gaussians(self) -> tuple[PlaneGaussian, PlaneGaussian]:
        first, second = (
            PlaneGaussian(**{name: float(one.value) for name, one in gaussian.items()})
            for gaussian in self.numbers
        )
        return first, second

    def _pair(self, zoom: int | None = None) -> Pair:
        return Pair.seen_through(*self._gaussians(), self.zoom.value if zoom is None else zoom)

    def _load(self) -> None:
        """Put a ready-made pair on the sliders."""
        *gaussians, _ = PAIR_PRESETS[self.preset.value]
        self._loading = True
        for sliders, gaussian in zip(self.numbers, gaussians, strict=True):
            for name, value in dataclasses.asdict(gaussian).items():
                sliders[name].value = value
        self._loading = False
        self._show()

    def _show(self) -> None:
        if self._loading:
            return
        drawn, pair = self._pair(zoom=1), self._pair()
        shadow, known = clearest_shadow(drawn), theorem_1_8(*pair)
        _, said = theorem_in_words(known, self.zoom.value)
        tv, delta = float(known.tv), float(known.delta)
        self._say.value = as_html(
            f"**TV = {number_in_words(tv)}** exactly, Δ = {number_in_words(delta)}"
            + (f", TV/Δ = {number_in_words(tv / delta)}. " if delta > 0 else ". ")
            + said
        )
        as_drawn = float(gaussian_tv(*drawn))
        self._about.value = as_html(
            "The pictures show the difference "
            f"**{self.zoom.value:,} times larger** than it is. A coin picks one of the two, and "
            "you see one point from it: the best guess of which it was is right "
            f"**{chance_of_best_guess(as_drawn)}** of the time as drawn, and "
            f"{chance_of_best_guess(tv)} for the real pair. {PAIR_PRESETS[self.preset.value][2]}."
        )
        self._board.draw(self._drawn(drawn), hold=True)
        self._overlap.draw(overlap_figure(shadow.means, shadow.deviations, height=_TALL))
        self._band.draw(self._bounds(pair), hold=True)

    def _drawn(self, pair: Pair) -> Any:
        figure = pair_figure(*pair, height=_TALL)
        reach = REACH + 2 * 1.5
        figure.update_xaxes(range=(-reach, reach))
        return figure.update_yaxes(range=(-reach, reach))

    def _bounds(self, pair: Pair) -> Any:
        return band_figure(
            pair=theorem_1_8(*pair),
            swapped_delta=float(theorem_1_8(*pair.swapped()).delta),
            height=420,
        )

    def _still(self) -> str:
        drawn = self._pair(zoom=1)
        both = Mixture([0.5, 0.5], [drawn.mean1, drawn.mean2], [drawn.cov1, drawn.cov2])
        return f"{self._say.value}{mixture_html(both)}"


def _sliders(start: PlaneGaussian) -> dict[str, ipywidgets.FloatSlider]:
    return {
        name: ipywidgets.FloatSlider(
            value=getattr(start, name),
            min=low,
            max=high,
            step=step,
            description=words,
            continuous_update=True,
            readout_format=".2f" if name != "turn" else ".0f",
            style={"description_width": "8.5em"},
            layout={"width": "24em"},
        )
        for name, (words, low, high, step) in _PLACES.items()
    }
