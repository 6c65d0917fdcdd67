"""Links: the whole state of a page in one address, and lessons that pin a question on top.

Every widget's key is its name in the address. A link with ``lesson`` in it hides the controls
and shows ``question`` above the page: one address sets the scene for a class. Pages put their
controls in `controls_panel`, say with `scene_line` what a lesson has set, and call `show_link`
last, with the names they use and how each is written.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

__all__ = [
    "LESSONS",
    "Lesson",
    "Writer",
    "controls_panel",
    "current_lesson",
    "link_to",
    "pin_question",
    "scene_line",
    "show_lessons",
    "show_link",
    "written",
]

_LONGEST = 400

Writer = Callable[[Any], str]
"""How a widget's value is written in the address: as the widget shows it."""


class Lesson(NamedTuple):
    """A scene for a class: its words, what the controls hold, and on which page (its address)."""

    title: str
    question: str
    values: Mapping[str, str]
    page: str = ""


LESSONS: tuple[Lesson, ...] = (
    Lesson(
        "The price of a name on a list",
        "Guess first: how far does the noise move the two ellipses? Then press Release.",
        {"method": "Lifted", "epsilon": "1", "n": "100,000", "seeded": "true", "noise_seed": "7"},
    ),
    Lesson(
        "A proud refusal",
        "10,000 people, the paper's own constants. Press Release: what does the answer tell a "
        "stranger about these people, and what would it take to learn more?",
        {"method": "Paper", "epsilon": "1", "n": "10,000", "seeded": "true"},
    ),
    Lesson(
        "Ten times as many people",
        "The same promise as before, from ten times the rows. Which error shrinks, and why?",
        {"method": "Lifted", "epsilon": "1", "n": "1,000,000", "seeded": "true", "noise_seed": "7"},
    ),
    Lesson(
        "When bumps merge",
        "These two components overlap. Will blocks that never saw each other's rows agree?",
        {
            "source": "Sample",
            "sample": "Overlapping 2d",
            "method": "Lifted",
            "epsilon": "8",
            "auto": "false",
            "seeded": "true",
        },
    ),
    Lesson(
        "Could you tell?",
        "B holds one row that lies a million away. Guess ten times whether the release came from "
        "A or from B: how often are you right, and how often would a coin be?",
        {"audit": "Guess", "audit_epsilon": "1", "neighbours": "An outlier"},
        "Audit",
    ),
    Lesson(
        "Paid once, looked at often",
        "This picture of 30,000 people may be published. Everything else on the page comes from "
        "the same noisy numbers. Why does none of it cost more privacy?",
        {"look_from": "Example", "look_k": "3", "look_at": "Two columns"},
        "Look_again",
    ),
    Lesson(
        "Half the promise, how many more rows?",
        "These are the rows that ε = 1 takes. Guess what ε = 0.5 takes, for each method; then turn "
        "on What if.",
        {"solve": "Rows", "components": "2", "columns": "2", "budget": "1"},
        "Planner",
    ),
)


def current_lesson() -> Lesson | None:
    """The lesson in the address, if there is one."""
    title = st.query_params.get("lesson", "")
    question = st.query_params.get("question", "")
    if not title and not question:
        return None
    return Lesson(title[:_LONGEST], question[:_LONGEST], {})


def pin_question() -> None:
    """Show the lesson's question on top of the page. Its words come from outside: escaped."""
    lesson = current_lesson()
    if lesson is None:
        return
    with st.container(key="lesson"):
        st.html(
            '<div class="privgmm-lesson" role="note">'
            f"<b>{html.escape(lesson.title)}</b><div>{html.escape(lesson.question)}</div></div>"
        )


def controls_panel(name: str, *, border: bool = True) -> DeltaGenerator:
    """A container for controls, out of sight in a lesson.

    The widgets stay on the page, unseen: what they hold comes from the address, as always.

    Parameters
    ----------
    name : str
        Of the panel, different for each on a page.
    border : bool
    """
    hidden = current_lesson() is not None
    return st.container(border=border, key=f"{'hidden' if hidden else 'panel'}-{name}")


def leave_lesson() -> None:
    """Give the controls back."""
    for name in ("lesson", "question"):
        if name in st.query_params:
            del st.query_params[name]


def scene_line(words: str) -> None:
    """What the hidden controls hold, in a line; nothing while they are in sight."""
    if current_lesson() is not None:
        st.caption(f":material/tune: {words}")


def written(
    writers: Mapping[str, Writer], *, without: Sequence[str] = ()
) -> dict[str, str | list[str]]:
    """The state of a page's widgets, defaults included, as an address holds it.

    Parameters
    ----------
    writers : mapping of str to callable
        For each widget's key, how its value is written; several values one by one.
    without : sequence of str
        Keys that do not matter now.
    """
    state = {
        key: st.session_state[key]
        for key in writers
        if key not in without and st.session_state.get(key) is not None
    }
    return {
        key: [writers[key](one) for one in value]
        if isinstance(value, list | tuple)
        else writers[key](value)
        for key, value in state.items()
    }


def link_to(
    base: str,
    values: Mapping[str, str | list[str]],
    *,
    title: str = "",
    question: str = "",
) -> str:
    """An address with these values in it.

    Examples
    --------
    >>> link_to("http://localhost:8501", {"epsilon": "1"}, title="A b", question="Why?")
    'http://localhost:8501/?epsilon=1&lesson=A+b&question=Why%3F'
    """
    pairs: dict[str, str | list[str]] = dict(values)
    if title or question:
        pairs |= {"lesson": title or "Lesson", "question": question}
    slash = "" if base.rstrip("/").count("/") > 2 else "/"
    return f"{base.rstrip('/')}{slash}?{urlencode(pairs, doseq=True)}"


def show_link(values: Mapping[str, str | list[str]]) -> None:
    """A small panel with the link to this very state, and a maker of lesson links.

    Parameters
    ----------
    values : mapping of str to str or list of str
        Names and values as they appear in the address, defaults included, so that the link means
        the same after an update.
    """
    base = str(st.context.url or "")
    if current_lesson() is not None:
        st.button(
            "Leave the lesson",
            key="leave_lesson",
            icon=":material/tune:",
            on_click=leave_lesson,
            help="Shows the controls",
        )
        return
    with st.popover("Link to this", icon=":material/link:"):
        st.markdown("**This state, seeds included**")
        st.code(link_to(base, values), language=None, wrap_lines=True)
        st.markdown("**As a lesson**: controls hidden, your question on top")
        title = st.text_input("Title", key="lesson_title", max_chars=80, placeholder="Lesson")
        question = st.text_input(
            "Question",
            key="lesson_question",
            max_chars=_LONGEST,
            placeholder="What do you expect to happen?",
        )
        if title or question:
            address = link_to(base, values, title=title or "Lesson", question=question or "")
            st.code(address, language=None, wrap_lines=True)


def show_lessons() -> None:
    """Links to ready-made lessons."""
    with st.expander("Lessons", icon=":material/school:"):
        for lesson in LESSONS:
            query = link_to(
                "", lesson.values, title=lesson.title, question=lesson.question
            ).removeprefix("/")
            st.markdown(f"[{lesson.title}]({lesson.page}{query})")
            st.caption(lesson.question)
