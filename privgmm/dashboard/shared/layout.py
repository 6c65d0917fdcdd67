"""The frame every page shares: title, links to the other pages, and the look.

A page calls `frame` first and then draws its own content.
"""

from __future__ import annotations

import functools
import threading
from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from privgmm.compile_kernels import warm
from privgmm.dashboard.shared.lessons import pin_question

__all__ = ["PAGES", "Page", "frame", "slider_ends"]


class Page(NamedTuple):
    """A page of the app: its file beside app.py, its name and icon in the links."""

    path: str
    label: str
    icon: str


PAGES: tuple[Page, ...] = (
    Page("app.py", "Explore", ":material/explore:"),
    Page("pages/Look_again.py", "Look again", ":material/replay:"),
    Page("pages/How_it_works.py", "How it works", ":material/movie:"),
    Page("pages/Theorem_1_8.py", "Theorem 1.8", ":material/compare:"),
    Page("pages/Planner.py", "Planner", ":material/calculate:"),
    Page("pages/Audit.py", "Audit", ":material/verified_user:"),
    Page("pages/Ledger.py", "Ledger", ":material/receipt_long:"),
)

_SECONDS_FIRST = 2.0
"""Seconds until kernels are compiled: the first page goes first."""

_LOOK = """
<style>
.block-container { padding-top: 3.9rem; padding-bottom: 4rem; max-width: 1500px; }
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
.privgmm-lesson { border-left: 0.3rem solid #D55E00; background: rgba(213, 94, 0, 0.10);
  border-radius: 0.5rem; padding: 0.9rem 1.2rem; margin-top: 0.4rem;
  font-size: 1.15rem; line-height: 1.45; overflow-wrap: anywhere; }
.st-key-remedies button { white-space: normal; }
@media (max-width: 640px) { .block-container { padding-left: 0.8rem; padding-right: 0.8rem; } }
</style>
"""


_TAB = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24">'
    '<path fill="#D55E00" d="M12 1 3 5v6c0 5.5 3.8 10.7 9 12 5.2-1.3 9-6.5 9-12V5z"/>'
    '<path fill="none" stroke="#fff" stroke-width="2" d="M5 17c3 0 3-8 5-8s2 6 4 6 2-3 5-3"/>'
    "</svg>"
)
"""The browser tab's icon, as a picture of our own: one named from a font is fetched from its host,
which would learn of every visit."""


def frame(title: str, lead: str) -> DeltaGenerator:
    """Set up a page; gives back a place beside the title, for the link to its state.

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
        st.markdown("### :material/shield_lock: privgmm")
        st.caption("Gaussian mixtures under differential privacy, with no bounds on the data.")
        # Streamlit knows no pages, not even the first, until there is a second.
        for page in PAGES if len(PAGES) > 1 else ():
            st.page_link(page.path, label=page.label, icon=page.icon)
        st.divider()
        st.caption(
            "After Arbas, Ashtiani and Liaw, *Polynomial Time and Private Learning of Unbounded "
            "Gaussian Mixture Models* (2023). Everything runs on this machine; no data leaves it."
        )
    _start_compiling()
    pin_question()
    row = st.container(horizontal=True, vertical_alignment="center", key="top")
    row.title(title, anchor=False)
    place = row.container(width="content")
    st.markdown(lead)
    return place


@functools.cache
def _start_compiling() -> threading.Timer:
    """Compile kernels soon, once in the life of the server, so that no release waits for it."""
    timer = threading.Timer(_SECONDS_FIRST, warm)
    timer.daemon = True
    timer.start()
    return timer


def slider_ends(left: str, right: str) -> None:
    """Say what the two ends of the slider above mean."""
    st.html(f'<div class="privgmm-ends"><span>← {left}</span><span>{right} →</span></div>')
