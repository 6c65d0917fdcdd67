"""The frame every page shares: title, links to the other pages, and the look.

A page calls `frame` first and then draws its own content.
"""

from __future__ import annotations

import functools
import threading
from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from privgmm.compile_kernels import compile_all
from privgmm.dashboard.shared.glossary import show_glossary
from privgmm.dashboard.shared.lessons import LINKED, current_lesson, pin_question, show_lessons
from privgmm.dashboard.shared.look import LOOK, PROJECTOR
from privgmm.dashboard.shared.refresh import place_timer
from privgmm.dashboard.shared.spent import show_budget

__all__ = ["PAGES", "Page", "frame", "slider_ends"]


class Page(NamedTuple):
    """A page of the app: its file next to app.py, its name and icon in the links."""

    path: str
    label: str
    icon: str


PAGES: tuple[Page, ...] = (
    Page("app.py", "Explore", ":material/explore:"),
    Page("pages/Look_again.py", "Look again", ":material/replay:"),
    Page("pages/How_it_works.py", "How it works", ":material/movie:"),
    Page("pages/Theorem_1_8.py", "Theorem 1.8", ":material/compare:"),
    Page("pages/Planner.py", "Planner", ":material/calculate:"),
    Page("pages/Compare.py", "Compare", ":material/leaderboard:"),
    Page("pages/Audit.py", "Audit", ":material/verified_user:"),
    Page("pages/Ledger.py", "Ledger", ":material/receipt_long:"),
)

_SECONDS_FIRST = 2.0
"""Seconds until kernels are compiled. By convention: the first page renders before."""

_TAB = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24">'
    '<path fill="#D55E00" d="M12 1 3 5v6c0 5.5 3.8 10.7 9 12 5.2-1.3 9-6.5 9-12V5z"/>'
    '<path fill="none" stroke="#fff" stroke-width="2" d="M5 17c3 0 3-8 5-8s2 6 4 6 2-3 5-3"/>'
    "</svg>"
)
"""The browser tab's icon, as a picture of our own: one named from a font is fetched from its host,
which would learn of every visit."""


def frame(title: str, lead: str) -> DeltaGenerator:
    """Set up a page; return a place next to the title, for the link to its state.

    Parameters
    ----------
    title : str
        The page's one idea, as a heading.
    lead : str
        One sentence below it.
    """
    st.set_page_config(page_title=f"{title} · privgmm", page_icon=_TAB, layout="wide")
    st.html(LOOK)
    with st.sidebar:
        place_timer()
        st.markdown("### :material/shield_lock: privgmm")
        # Streamlit knows no pages, not even the first, until there is a second.
        for page in PAGES if len(PAGES) > 1 else ():
            st.page_link(page.path, label=page.label, icon=page.icon)
        show_lessons()
        show_glossary()
        projector = st.toggle(
            "Projector: large type",
            key="projector",
            **LINKED,
            help="For a class: larger type and no sidebar. A button on the page brings it back.",
        )
        st.caption(
            "Gaussian mixtures under differential privacy, with no bounds on the data. After "
            "Arbas, Ashtiani and Liaw, *Polynomial Time and Private Learning of Unbounded "
            "Gaussian Mixture Models* (2023). Everything runs on this machine; no data leaves it."
        )
    if projector:
        st.html(PROJECTOR)
    _start_compiling()
    row = st.container(horizontal=True, vertical_alignment="center", key="top")
    row.title(title, anchor=False)
    place = row.container(width="content", horizontal=True)
    if projector:
        place.button(
            "Leave large type", key="leave_projector", icon=":material/close:", on_click=_leave
        )
    with st.container(
        horizontal=True, horizontal_alignment="right", vertical_alignment="center", key="lead"
    ):
        if current_lesson() is None:
            st.markdown(lead, width="stretch")
        with st.container(width="content", key="spent"):
            show_budget()
    pin_question(teacher=projector)
    return place


def _leave() -> None:
    st.session_state["projector"] = False


@functools.cache
def _start_compiling() -> threading.Timer:
    """Compile kernels once per server, before the first release needs them."""
    timer = threading.Timer(_SECONDS_FIRST, compile_all)
    timer.daemon = True
    timer.start()
    return timer


def slider_ends(left: str, right: str) -> None:
    """Label the two ends of the slider above."""
    st.html(f'<div class="privgmm-ends"><span>← {left}</span><span>{right} →</span></div>')
