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
from privgmm.dashboard.shared.lessons import LINKED, pin_question, show_lessons
from privgmm.dashboard.shared.refresh import place_timer

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

_LOOK = """
<style>
.block-container { padding: 3.7rem 2.5rem 4rem 2.5rem; max-width: 1500px; }
@media (max-width: 1200px) { .block-container { padding-top: 4.1rem; } }
.privgmm-ends { display: flex; justify-content: space-between; font-size: 0.8rem;
  opacity: 0.75; margin: -0.9rem 0 0.4rem 0; }
[data-testid="stMetricValue"] { font-size: 1.45rem; }
.st-key-split > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"],
.st-key-rail > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"],
.st-key-sharing > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"],
.st-key-beside > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"],
.st-key-answers > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"]
  { flex-wrap: wrap; }
.st-key-answers > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]
  { min-width: max(8rem, 40%); }
.st-key-split > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]
  { min-width: min(100%, 15rem); }
.st-key-beside > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"],
.st-key-sharing > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]
  { min-width: min(100%, 14rem); }
.st-key-rail > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:first-child
  { flex: 1 1 12.5rem; min-width: 12.5rem; }
.st-key-rail > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:last-child
  { flex: 3 1 20rem; min-width: min(100%, 20rem); }
@media (max-width: 1200px) { .block-container:has(.st-key-rail)
  { padding-left: 2rem; padding-right: 2rem; } }
[class*="st-key-hidden-"] { display: none; }
h1 { font-size: 1.75rem !important; line-height: 1.25 !important; padding: 0.2rem 0 !important; }
@media (max-width: 1200px) { h1 { font-size: 1.4rem !important; } }
[data-testid="stSidebarHeader"] { height: 2.6rem; min-height: 2.6rem; }
.st-key-explore > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"]
  { flex-wrap: nowrap; gap: 1.2rem; }
.st-key-explore > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:first-child
  { flex: 0 0 18.5rem; min-width: 0; width: 18.5rem; }
.st-key-explore > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:last-child
  { flex: 1 1 0; min-width: 0; }
@media (max-width: 1200px) {
  .st-key-explore > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:first-child
    { flex-basis: 15.5rem; width: 15.5rem; }
  .block-container:has(.st-key-explore) { padding-left: 1.2rem; padding-right: 1.2rem; }
  .privgmm-band .cell .note:last-child { display: none; }
}
@media (max-width: 640px) {
  .st-key-explore > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"]
    { flex-wrap: wrap; flex-direction: column-reverse; }
  .st-key-explore > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:first-child,
  .st-key-explore > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:last-child
    { flex: 1 1 auto; width: 100%; }
}
[class*="st-key-shut-"], [data-testid="stLayoutWrapper"]:has(> [class*="st-key-shut-"])
  { display: none; }
.st-key-settings_rail [data-testid="stSlider"] { margin-bottom: -0.5rem; }
.privgmm-band { display: flex; flex-wrap: wrap; gap: 0.4rem 1.6rem; align-items: center;
  border-radius: 0.5rem; border-left: 0.35rem solid #8a8a94; padding: 0.55rem 0.9rem;
  background: rgba(128, 128, 136, 0.12); line-height: 1.3; }
.privgmm-band.yes { border-left-color: #009E73; background: rgba(0, 158, 115, 0.13); }
.privgmm-band.no { border-left-color: #2583C4; background: rgba(37, 131, 196, 0.14); }
.privgmm-band .what { font-size: 1.3rem; font-weight: 700; }
.privgmm-band .number { font-size: 1.25rem; font-weight: 600; }
.privgmm-band .note { font-size: 0.85rem; opacity: 0.82; }
.privgmm-band .mark { font-size: 0.85rem; font-weight: 600; }
.privgmm-answer { border-radius: 0.5rem; padding: 0.6rem 1.2rem; margin-top: 0.2rem;
  background: rgba(0, 158, 115, 0.13); font-size: 1.05rem; line-height: 1.45;
  overflow-wrap: anywhere; }
.privgmm-answer i { opacity: 0.8; }
.privgmm-links { margin: 0; padding-left: 1.1rem; }
.privgmm-links li { margin: 0.15rem 0; }
.privgmm-lesson { border-left: 0.3rem solid #D55E00; background: rgba(213, 94, 0, 0.10);
  border-radius: 0.5rem; padding: 0.9rem 1.2rem; margin-top: 0.4rem;
  font-size: 1.15rem; line-height: 1.45; overflow-wrap: anywhere; }
.st-key-remedies button { white-space: normal; }
@media (max-width: 640px) { .block-container { padding-left: 0.8rem; padding-right: 0.8rem; } }
</style>
"""

_PROJECTOR = """
<style>
html { font-size: 20px; }
[data-testid="stSidebar"], [data-testid="stExpandSidebarButton"] { display: none !important; }
</style>
"""
"""For a projector: larger type, and no sidebar."""

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
    st.html(_LOOK)
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
        st.html(_PROJECTOR)
    _start_compiling()
    pin_question()
    row = st.container(horizontal=True, vertical_alignment="center", key="top")
    row.title(title, anchor=False)
    place = row.container(width="content", horizontal=True)
    if projector:
        place.button(
            "Leave large type", key="leave_projector", icon=":material/close:", on_click=_leave
        )
    st.markdown(lead)
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
