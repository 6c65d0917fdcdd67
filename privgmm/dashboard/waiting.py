"""Answers under way: a moment's patience, a word on what is being done, and a redraw when it is.

Pages put slow questions to a `Board` and draw what is known. `beside` stands for a whole
part of a page; `watch` redraws the page once there is more to show; `redraw` does it politely.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future, wait
from typing import Any, NoReturn, TypeVar

import streamlit as st

from privgmm.dashboard.jobs import Board

__all__ = ["BOARD", "GRACE", "beside", "is_known", "patience", "redraw", "still_open", "watch"]

T = TypeVar("T")

BOARD = Board(workers=1, waiting=16)
"""For what is asked by `beside`."""

_NOTHING = "<span hidden></span>"

GRACE = 0.12
"""Seconds to wait for an answer that is nearly there, rather than flicker."""


def patience(answers: Iterable[Future[Any]], seconds: float = GRACE) -> None:
    """Wait a moment for all of them."""
    wait(list(answers), seconds)


def is_known(answer: Future[Any]) -> bool:
    """Whether there is a result or an error; one that was dropped has to be asked for again."""
    return answer.done() and not answer.cancelled()


def still_open(answers: Iterable[Future[Any]]) -> list[Future[Any]]:
    """Those to wait for."""
    return [answer for answer in answers if not is_known(answer)]


def redraw() -> NoReturn:
    """Run the whole page again, unless somebody has clicked a link meanwhile: that comes first.

    Streamlit keeps one request at a time, and `st.rerun` writes this page over another that was
    asked for. Drawing something, if only nothing, takes up what is asked already.
    """
    st.html(_NOTHING)
    st.rerun()


@st.fragment(run_every=0.5)
def watch(pending: Sequence[Future[Any]]) -> None:
    """Redraw the page as soon as one of the answers is there."""
    if any(answer.done() for answer in pending):
        redraw()
    st.html(_NOTHING)


def beside(key: Hashable, work: Callable[[], T], saying: str) -> T | None:
    """The answer to a question if it is there within a moment, else None and a word on it.

    Parameters
    ----------
    key : hashable
        Names the question; everything the answer depends on is in it.
    work : callable
        Finds the answer, beside the page. It must not draw on the page.
    saying : str
        What to say meanwhile.
    """
    answer = BOARD.ask(key, work)
    patience([answer])
    if is_known(answer):
        return answer.result()
    st.info(saying, icon=":material/hourglass_top:")
    watch([answer])
    return None
