"""Play the frames of a picture in the browser, by a button that a keyboard reaches.

See `player.js`. Nothing runs on the server while a picture plays.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from privgmm.figures.motion import PLAY, STOP

__all__ = ["show_player"]

_HTML = '<div class="player"><button type="button" disabled></button></div>'

_CSS = """
button { font: inherit; font-weight: 600; color: var(--st-text-color); cursor: pointer;
  background: var(--st-secondary-background-color); border: 1px solid var(--st-border-color);
  border-radius: 0.5rem; padding: 0.35rem 0.9rem; }
button:hover, button:focus-visible { border-color: var(--st-primary-color);
  outline: 2px solid var(--st-primary-color); }
button:disabled { opacity: 0.5; cursor: default; }
"""

_JS = Path(__file__).with_name("player.js").read_text(encoding="utf-8")

_COMPONENT = st.components.v2.component("privgmm_player", html=_HTML, css=_CSS, js=_JS)


def show_player(container: str, turn: int, *, key: str) -> None:
    """Draw the button that plays a picture.

    Parameters
    ----------
    container : str
        The key of the container that holds the picture.
    turn : int
        How many steps the visitor has gone; 0 when the page is opened. The picture starts by
        itself when this is new, unless the visitor prefers less motion.
    key : str
        Of the button itself.
    """
    _COMPONENT(
        key=key,
        data={"place": f"st-key-{container}", "labels": [PLAY, STOP], "turn": turn},
    )
