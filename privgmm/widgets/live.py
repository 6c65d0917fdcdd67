"""Keep what a notebook shows up to date: figures that change in place, and answers that come late.

A figure is drawn by the functions of `privgmm.figures`. Where one is on screen already, only what
differs is sent to the browser. An answer is computed in a background thread, and shown in the
thread of the kernel's event loop, where widgets may be changed.
"""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import ipywidgets
import plotly.graph_objects as go

__all__ = [
    "Board",
    "LiveFigure",
    "button",
    "dropdown",
    "panels",
    "show_where",
    "slider",
    "when_known",
    "words",
    "words_html",
]

_T = TypeVar("_T")

_BOLD = re.compile(r"\*\*(.+?)\*\*")
_ESCAPED = re.compile(r"\\([\\`*_\[\]<$:~])")

_INK = "var(--jp-ui-font-color1, var(--vscode-foreground, currentColor))"
_ACROSS = 500
"""Pixels of a figure: it fits beside the controls in a window of 1280, and below them in less."""
_STYLE = f"""<style>
.privgmm .xtick text, .privgmm .ytick text, .privgmm .xtitle, .privgmm .ytitle,
.privgmm .legendtext, .privgmm .gtitle, .privgmm .colorbar text {{ fill: {_INK} !important; }}
.privgmm .main-svg {{ background: transparent !important; }}
.privgmm .widget-html-content, .privgmm .widget-label {{ color: {_INK}; line-height: 1.45; }}
.privgmm .widget-html-content table {{ border-collapse: collapse; }}
.privgmm-band {{ display: flex; flex-wrap: wrap; gap: 0.3rem 1.6rem; align-items: center;
  padding: 0.5rem 0.9rem; border-left: 5px solid #85858d; border-radius: 4px;
  background: rgba(128, 128, 136, 0.12); }}
.privgmm-band.yes {{ border-left-color: #009E73; background: rgba(0, 158, 115, 0.14); }}
.privgmm-band.fair {{ border-left-color: #E69F00; background: rgba(230, 159, 0, 0.14); }}
.privgmm-band.no {{ border-left-color: #9A5A5A; background: rgba(154, 90, 90, 0.16); }}
.privgmm-band .what {{ font-size: 1.15em; font-weight: 700; }}
.privgmm-band .number {{ font-size: 1.1em; font-weight: 600; }}
.privgmm-band .note, .privgmm-band .mark, .privgmm-band .why {{ font-size: 0.9em; }}
</style>"""
"""Text of figures takes the colour of the notebook's own text, in light and in dark themes."""


class Board(ipywidgets.VBox):
    """Controls and figures together, with what stands for them where no kernel runs.

    Parameters
    ----------
    children : sequence of widgets
    still : callable
        Returns HTML that is saved with the notebook: a page without a kernel shows it instead.
    """

    def __init__(self, children: Sequence[ipywidgets.Widget], still: Callable[[], str]) -> None:
        super().__init__([ipywidgets.HTML(_STYLE), *children])
        self.add_class("privgmm")
        self._still = still

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        return bundle if bundle is None else bundle | {"text/html": self._still()}


# --------------------------------------------------------------------------------- figures


class LiveFigure(ipywidgets.VBox):
    """A figure on screen that `draw` changes.

    Parameters
    ----------
    figure : Figure
        What is shown first.
    """

    def __init__(self, figure: go.Figure) -> None:
        super().__init__()
        self._put(figure)

    @property
    def shown(self) -> go.FigureWidget:
        """The figure as it is on screen."""
        return self.children[0]

    def _put(self, figure: go.Figure) -> None:
        fresh = go.FigureWidget(figure)
        fresh.update_layout(width=_ACROSS, modebar={"orientation": "v", "bgcolor": "rgba(0,0,0,0)"})
        self.children = (fresh,)

    def draw(self, figure: go.Figure, *, hold: bool = False) -> None:
        """Change it into another one.

        Where only numbers and names differ, only these are sent. A figure with other traces is a
        new one: the browser may lose traces that are added to one which it is still loading.

        Parameters
        ----------
        figure : Figure
        hold : bool
            Keep the ranges of the axes: what moves can then be seen to move.
        """
        before = self.shown
        if hold:
            for new, old in _axes(figure, before):
                new.range = old.range
        if [_kind(trace) for trace in before.data] != [_kind(trace) for trace in figure.data]:
            self._put(figure)
            return
        with before.batch_update():
            for old, new in zip(before.data, figure.data, strict=True):
                old.update(new.to_plotly_json())
            for name in ("annotations", "shapes", "barmode", "height"):
                before.layout[name] = figure.layout[name]
            for old, new in _axes(before, figure):
                old.title.text = new.title.text
                for name in ("range", "tickvals", "ticktext"):
                    old[name] = new[name]


def _axes(first: go.Figure, second: go.Figure) -> list[tuple[Any, Any]]:
    """Pair the axes of two figures."""
    return [
        *zip(first.select_xaxes(), second.select_xaxes(), strict=False),
        *zip(first.select_yaxes(), second.select_yaxes(), strict=False),
    ]


def _kind(trace: Any) -> tuple[object, ...]:
    """List what tells traces apart: between equal kinds only numbers and names differ."""
    stated = trace.to_plotly_json()
    return tuple(stated.get(name) for name in ("type", "mode", "fill"))


def show_where(place: ipywidgets.Box, figure: LiveFigure, *, wanted: bool) -> None:
    """Put a figure in its place, or leave the place empty."""
    children = (figure,) if wanted else ()
    if place.children != children:
        place.children = children


# --------------------------------------------------------------------------------- answers


def when_known(answer: Future[_T], show: Callable[[_T], None]) -> bool:
    """Show an answer now if it is known, else as soon as it is; return whether it was.

    Where no event loop runs, as in a script, it is waited for.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        show(answer.result())
        return True
    if answer.done() and not answer.cancelled():
        show(answer.result())
        return True

    def deliver(known: Future[_T]) -> None:
        if not known.cancelled():
            loop.call_soon_threadsafe(lambda: show(known.result()))

    answer.add_done_callback(deliver)
    return False


# -------------------------------------------------------------------------------- controls

_WIDE, _NAMES = "24em", "8.5em"
"""Widths of a control, and of its name."""


def slider(
    name: str, options: Sequence[Any], value: Any, *, say: Callable[[Any], str] = str
) -> ipywidgets.SelectionSlider:
    """Make a slider over a few values, each written by `say`."""
    return ipywidgets.SelectionSlider(
        options=[(say(one), one) for one in options],
        value=value,
        description=name,
        continuous_update=True,
        style={"description_width": _NAMES},
        layout={"width": _WIDE},
    )


def dropdown(name: str, options: Sequence[tuple[str, Any]], value: Any) -> ipywidgets.Dropdown:
    """Make a choice of a few values, each with its words."""
    return ipywidgets.Dropdown(
        options=list(options),
        value=value,
        description=name,
        style={"description_width": _NAMES},
        layout={"width": _WIDE},
    )


def button(text: str, do: Callable[[], None], *, main: bool = False) -> ipywidgets.Button:
    """Make a button that calls `do`."""
    made = ipywidgets.Button(
        description=text,
        button_style="primary" if main else "",
        layout={"width": "auto", "align_self": "flex-start"},
    )
    made.on_click(lambda _: do())
    return made


def panels(left: Sequence[ipywidgets.Widget], right: Sequence[ipywidgets.Widget]) -> Any:
    """Lay controls out beside figures; below them on a narrow screen."""
    sides = (
        ipywidgets.VBox(list(left), layout={"width": "25.5em", "flex": "0 0 auto"}),
        ipywidgets.VBox(
            list(right), layout={"flex": "1 1 30em", "min_width": "18em", "overflow": "auto"}
        ),
    )
    return ipywidgets.HBox(sides, layout={"flex_flow": "row wrap", "width": "100%"})


# ----------------------------------------------------------------------------------- words


def words(text: str = "") -> ipywidgets.HTML:
    """Show a text in which only ``**bold**`` is marked."""
    return ipywidgets.HTML(words_html(text))


def words_html(text: str) -> str:
    r"""Write such a text as HTML.

    >>> words_html("**A < B**, with a \\*")
    '<b>A &lt; B</b>, with a *'
    """
    bold = _BOLD.sub(r"<b>\1</b>", html.escape(text, quote=False))
    return _ESCAPED.sub(r"\1", bold)
