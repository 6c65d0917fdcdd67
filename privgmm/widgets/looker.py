"""Look again: every fit to one released sketch, and what it says where some columns are known.

All of it is computed from the release alone, so nothing is spent and all of it may be shared.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

import ipywidgets
import plotly.graph_objects as go

from privgmm import covariance_structures
from privgmm.errors import InvalidInput
from privgmm.figures.mixtures import PRIVATE, dressed, ghosts_label, mixtures_figure
from privgmm.figures.picture import curve_figure, image_figure
from privgmm.mixture import Mixture
from privgmm.records.receipt import read_receipt
from privgmm.results import Refusal, Release
from privgmm.showing.html import mixture_html
from privgmm.stages.sketch.choice import MOST_OFFERED
from privgmm.stages.sketch.private_sketch import PrivateSketch, SketchFit
from privgmm.stages.standard_errors import StandardErrors
from privgmm.teaching.background import WorkerPool
from privgmm.teaching.format import number_in_words
from privgmm.widgets.live import (
    Board,
    LiveFigure,
    dropdown,
    panels,
    show_where,
    slider,
    when_known,
    words,
    words_html,
)

__all__ = ["look_again"]

_NONE = -1
_REACH, _STEPS = 2.5, 41
"""Known values offered: standard deviations to either side of the mean, and how many of them."""

_ON_SCREEN = WorkerPool(workers=1, waiting=2)
_AHEAD = WorkerPool(workers=1, waiting=32, behind=(_ON_SCREEN,), cache=_ON_SCREEN)
"""Fits the other numbers of components before they are asked for."""


def look_again(
    release: Release | PrivateSketch | Mapping[str, Any] | str | os.PathLike[str] | bytes,
) -> Board:
    """Let k, the covariance type and a known value be moved over a released sketch.

    Parameters
    ----------
    release : Release, PrivateSketch, or a receipt
        A receipt as `read_receipt` takes it: a path, its text or its dictionary.
    """
    if isinstance(release, Release | PrivateSketch):
        return _Looker(release).board
    found = read_receipt(release)
    if isinstance(found, Refusal):
        raise InvalidInput(f"this is the receipt of a refusal: {found.reason}")
    return _Looker(found).board


class _Look:
    """A fit, whether it is the release's own or another one."""

    def __init__(
        self,
        mixture: Mixture,
        errors: StandardErrors | None,
        words: str,
        fit: SketchFit | None = None,
    ) -> None:
        self.mixture, self.errors, self.words, self.fit = mixture, errors, words, fit


class _Looker:
    """The controls, and what they say."""

    def __init__(self, given: Release | PrivateSketch) -> None:
        self._release = given if isinstance(given, Release) else None
        sketch = given.sketch if isinstance(given, Release) else given
        if sketch is None:
            raise InvalidInput(
                "this release has no sketch to look at again: release with method 'sketch'"
            )
        self._sketch = sketch
        self.columns = sketch.columns
        start = self._release.mixture.n_components if self._release is not None else 2
        kind = self._release.covariance_type if self._release is not None else "full"
        self.k = slider("Groups k", range(1, max(MOST_OFFERED, start) + 1), start)
        self.kind = dropdown(
            "Covariances",
            [(one.title, one.name) for one in covariance_structures.all_structures()],
            kind,
        )
        names = [(name, place) for place, name in enumerate(self.columns)]
        self.across = dropdown("Across", names, 0)
        self.up = dropdown("Up", names, min(1, len(names) - 1))
        self.known = dropdown("Known column", [("none", _NONE), *names], _NONE)
        self.value = slider("is", [0.0], 0.0, say=_number)
        self.value.disabled = True
        self._say, self._table, self._then = words(), words(), words()
        self._image: Any = None
        look = self._release_look() or self._fitted()
        self._shown = look
        self._figure = LiveFigure(self._picture(look))
        self._conditional = LiveFigure(dressed(go.Figure()))
        self._place = ipywidgets.VBox()
        for one in (self.k, self.kind):
            one.observe(lambda _: self._ask(), "value")
        for one in (self.across, self.up):
            one.observe(lambda _: self._turn(), "value")
        self.known.observe(lambda _: self._know(), "value")
        self.value.observe(lambda _: self._condition(), "value")
        controls = [self.k, self.kind]
        controls += [self.across, self.up] if len(names) > 2 else []
        controls += [self.known, self.value] if len(names) > 1 else []
        self.board = Board(
            [
                self._say,
                panels((*controls, self._then), (self._figure, self._place)),
                self._table,
            ],
            self._still,
        )
        self._show(look, hold=True)
        self._ahead()

    # ------------------------------------------------------------------------------ fits

    def _release_look(self) -> _Look | None:
        """Return the released mixture, where the controls say its own k and kind.

        The rest of its budget may have made it better than a fit to the sketch alone.
        """
        made = self._release
        asked = (self.k.value, self.kind.value)
        if made is None or asked != (made.mixture.n_components, made.covariance_type):
            return None
        return _Look(
            made.mixture,
            made.standard_errors,
            f"**As it was released.** {made.misfit_in_words or ''}",
        )

    def _fitted(self, k: int | None = None, kind: str | None = None) -> _Look:
        fit = self._sketch.fit(k or self.k.value, kind or self.kind.value)
        return _Look(
            fit.mixture,
            fit.standard_errors,
            f"**Another fit to the same sketch, for free.** {fit.verdict} "
            f"(Misfit {fit.misfit:.3g}.)",
            fit,
        )

    def _ask(self) -> None:
        look = self._release_look()
        if look is not None:
            self._show(look, hold=True)
            return
        asked = (self._sketch, self.k.value, self.kind.value)

        def show(found: _Look) -> None:
            if asked == (self._sketch, self.k.value, self.kind.value):
                self._show(found, hold=True)

        answer = _ON_SCREEN.ask(asked, lambda: self._fitted(*asked[1:]))
        if not when_known(answer, show):
            self._say.value = words_html("Fitting…")
        self._ahead()

    def _ahead(self) -> None:
        """Fit the other numbers of components, the nearest first."""
        kind = self.kind.value
        counts = [one for _, one in self.k.options]
        for k in sorted(counts, key=lambda one: -abs(one - self.k.value)):
            _AHEAD.ask((self._sketch, k, kind), functools.partial(self._fitted, k, kind))

    # -------------------------------------------------------------------------- pictures

    def _show(self, look: _Look, *, hold: bool) -> None:
        self._shown = look
        self._say.value = words_html(
            f"{look.words} **Free**: computed from the release alone, and may be shared like it."
        )
        self._table.value = mixture_html(look.mixture, look.errors)
        self._figure.draw(self._picture(look), hold=hold)
        self._condition()

    def _turn(self) -> None:
        """Show two other columns."""
        if self.across.value != self.up.value:
            self._image = None
            self._figure.draw(self._picture(self._shown))
            self._condition()

    def _picture(self, look: _Look) -> go.Figure:
        """Draw the density that the sketch shows, with the ellipses of a fit."""
        if len(self.columns) == 1:
            return curve_figure(self._sketch.curve(0), mixture=look.mixture)
        axes = (self.across.value, self.up.value)
        if self._image is None:
            self._image = self._sketch.image(axes)
        figure = image_figure(
            self._image, mixture=look.mixture, errors=look.errors, axes=axes, height=430
        )
        return figure.update_traces(showscale=False, selector={"type": "heatmap"})

    # ---------------------------------------------------------------------- known values

    def _know(self) -> None:
        """Offer values of the known column."""
        column = self.known.value
        self.value.disabled = column == _NONE
        # other columns have other axes
        self._conditional.draw(dressed(go.Figure()))
        if column != _NONE:
            mixture = self._shown.mixture.marginal([column])
            mean = float(mixture.weights @ mixture.means[:, 0])
            spread = mixture.covariances[:, 0, 0] + (mixture.means[:, 0] - mean) ** 2
            reach = _REACH * float(mixture.weights @ spread) ** 0.5
            places = [mean + reach * (2 * i / (_STEPS - 1) - 1) for i in range(_STEPS)]
            self.value.options = [(_number(one), one) for one in places]
            self.value.index = _STEPS // 2
        self._condition()

    def _condition(self) -> None:
        """Show the mixture of the other columns, where one is known."""
        column = self.known.value
        show_where(self._place, self._conditional, wanted=column != _NONE)
        if column == _NONE:
            self._then.value = ""
            return
        rest = [j for j in range(len(self.columns)) if j != column]
        said = f"{self.columns[column]} = {_number(self.value.value)}"
        try:
            then = self._shown.mixture.condition({column: self.value.value})
        except InvalidInput:
            self._then.value = words_html(f"**No group reaches that far**: {said}.")
            return
        shares = ", ".join(f"{weight:.0%}" for weight in then.weights)
        self._then.value = words_html(f"Where **{said}**, the groups' shares are {shares}.")
        before = self._shown.mixture.marginal(rest)
        figure = mixtures_figure(private=then, ghosts=[before], columns=then.columns, height=280)
        for trace in figure.data:
            if trace.name == PRIVATE.label:
                trace.name = f"where {said}"
            elif trace.name == ghosts_label(1):
                trace.name = "over all rows"
                trace.line.update(color="rgba(128, 128, 136, 0.5)", width=6)
        hold = len(self._conditional.shown.data) > 0
        self._conditional.draw(figure, hold=hold)

    def _still(self) -> str:
        return f"{self._say.value}{self._table.value}"


def _number(value: float) -> str:
    return number_in_words(value, 3)
