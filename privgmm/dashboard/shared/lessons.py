"""Links: the whole state of a page in one address, lessons, and the path of a class.

Every widget's key is its name in the address. A link with ``lesson`` in it hides the controls
and shows ``question`` above the page. It may leave some controls visible (``show``), ask for a
prediction first (``predict``) and contain an answer to be revealed (``answer``): until then the
question is all there is, so nothing on screen answers it. A link with ``class`` in it is a step of
the class through all pages, whose words are in `CLASS`.

Pages put their controls in `controls_panel`, describe with `scene_line` what a lesson has set, and
call `show_link` last, with the names of their widgets and how each value is written.
"""

from __future__ import annotations

import functools
import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from privgmm.dashboard.shared.fair_queue import this_session
from privgmm.dashboard.shared.refresh import end_page, refresh_part
from privgmm.dashboard.shared.tally import TALLY
from privgmm.teaching.format import escaped

__all__ = [
    "CLASS",
    "LESSONS",
    "LINKED",
    "Lesson",
    "Writer",
    "class_link",
    "class_prediction",
    "controls_panel",
    "current_lesson",
    "link_to",
    "pin_question",
    "plainly",
    "revealed",
    "scene_line",
    "show_lessons",
    "show_link",
    "written",
]

LINKED: dict[str, Any] = {"bind": "query-params", "persist_state": "session"}
"""For a widget whose key is its name in the address and whose value outlives other pages."""

_LONGEST = 400
"""Characters of a text from an address, by convention: a question of a few sentences."""
_MOST_PREDICTIONS = 5
"""By convention: more do not fit in a row."""
_TALLY_EVERY = 2.0
"""Seconds between two looks at the room's predictions, by convention."""
_WORDS = ("lesson", "question", "predict", "answer", "show", "class")
"""Names in an address that belong to a lesson."""

Writer = Callable[[Any], str]
"""Writes a widget's value in the address, as the widget shows it."""


def plainly(*keys: str) -> dict[str, Writer]:
    """Return writers for widgets that show switches, numbers and words without a format.

    Examples
    --------
    >>> write = plainly("open")["open"]
    >>> write(True), write(6.50), write(3), write("Scan")
    ('true', '6.5', '3', 'Scan')
    """
    return dict.fromkeys(keys, _plain)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


class Lesson(NamedTuple):
    """A page with given settings, a question and an answer.

    Parameters
    ----------
    title, question : str
    values : mapping of str to str
        Values of the controls, as in an address.
    page : str
        Its address; empty for Explore.
    predictions : tuple of str
        Predictions to choose from, before anything is revealed.
    answer : str
        Shown when it is revealed.
    visible : tuple of str
        Keys of controls that stay visible.
    number : str
        Its number in the class; empty outside it.
    """

    title: str
    question: str
    values: Mapping[str, str]
    page: str = ""
    predictions: tuple[str, ...] = ()
    answer: str = ""
    visible: tuple[str, ...] = ()
    number: str = ""

    @property
    def file(self) -> str:
        """The page's file, relative to app.py."""
        return f"pages/{self.page}.py" if self.page else "app.py"

    @property
    def waits(self) -> bool:
        """Whether something is hidden until it is revealed."""
        return bool(self.predictions or self.answer)


_TWO_GROUPS = {
    "source": "Generate",
    "kind": "Well separated",
    "true_k": "2",
    "d": "2",
    "n": "10,000",
    "data_seed": "1",
    "k": "2",
    "auto_k": "false",
    "epsilon": "1",
    "delta": "10⁻⁶",
    "seeded": "false",
    "learner": "Maximum likelihood (EM)",
}
"""Settings of Explore that two steps of the class share."""

_EASY = {"kind": "Well separated", "epsilon": "1"}
"""Settings of Explore that three lessons share."""

CLASS: tuple[Lesson, ...] = (
    Lesson(
        "One person in a crowd",
        "Two data sets differ in one person only. One of them is published, with NO noise, and "
        "you guess which: ten times. How often will you be right?",
        {"audit": "Guess", "audit_epsilon": "1", "person": "outlier", "noise": "off"},
        "Audit",
        (
            "Half of the time",
            "More often",
            "Always",
        ),
        "Always: without noise one person far away is recognised every time. Try it below, then "
        "switch the noise on and play again: now no one can be right much more often than half of "
        "the time, however clever.",
        ("noise", "person"),
        "1",
    ),
    Lesson(
        "What does privacy cost?",
        "10,000 people in two groups. How far will the noise of ε = 1 move what is published?",
        {**_TWO_GROUPS, "method": "Sketch"},
        "",
        ("One cannot see it", "A little, but one can see it", "Out of the picture"),
        "One can hardly see it: use “Differences ×10”. Now drag ε to 0.1, and then the rows down "
        "to 1,000. Each person counts for one row in 10,000, and noise that hides one row hides "
        "little else.",
        ("epsilon", "n"),
        "2",
    ),
    Lesson(
        "How can that be?",
        "Every person becomes a few hundred waves, the waves of all people are added up, and noise "
        "is added to the sums. Which step hides a single person?",
        {"film": "A sketch", "step": "1"},
        "How_it_works",
        ("Turning people into waves", "Adding them up", "The noise"),
        "All three together: a wave is never higher than one, wherever a person lies, so replacing "
        "one person moves a sum very little, and a little noise is enough to hide that. Press "
        "Play, then step through it again.",
        ("film",),
        "3",
    ),
    Lesson(
        "The paper's own constants",
        "The same people, the same ε, and the method with the constants that the paper proves. "
        "What will come out?",
        {**_TWO_GROUPS, "method": "Paper"},
        "",
        ("The same mixture", "A worse one", "Nothing"),
        "Nothing: with these constants it takes about 10¹⁸ people. Press Release and look at what "
        "was spent: whether the answer is yes or no can itself depend on one person, so “no” has "
        "its price as well. Then choose the method Sketch.",
        ("method",),
        "4",
    ),
    Lesson(
        "When are two clouds the same?",
        "Two Gaussians, drawn much too far apart. How often would the best guess name the one from "
        "which a row was drawn?",
        {"zoom": "1,000×"},
        "Theorem_1_8",
        ("About half of the time", "Three times in four", "Nearly always"),
        "About half of the time, which is chance level. Theorem 1.8 says why that can be seen from "
        "the parameters: the distance of two clouds and the distance of their parameters bound "
        "each other, in any number of columns.",
        ("zoom",),
        "5",
    ),
    Lesson(
        "How many people does it take?",
        "ε = 1 takes a number of people. How many does ε = 0.5 take?",
        {"solve": "Rows", "components": "2", "columns": "2", "budget": "1"},
        "Planner",
        ("As many", "About twice as many", "Four times as many"),
        "About twice as many. What has to be hidden is one person in n, so half the ε asks for "
        "twice the people. Turn on What if and see which method needs the fewest.",
        ("budget", "whatif"),
        "6a",
    ),
    Lesson(
        "What did this class spend?",
        "10,000 made-up people, released twice, each time with ε = 1. Every release is written "
        "down here, refusals too. What do the two cost together?",
        {},
        "Ledger",
        ("More than 2", "Exactly 2", "2 or less"),
        "2 or less: both were made when you pressed Reveal, and are written down below. Adding all "
        "ε is always right, but bad luck rarely strikes twice, and the account takes the smaller "
        "of two proved totals. Rehearsals are not in it.",
        (),
        "6b",
    ),
)
"""Twenty minutes through all pages, in this order."""

LESSONS: tuple[Lesson, ...] = (
    Lesson(
        "The price of a name on a list",
        "Guess first: how far does the noise move the two ellipses? Then press Release.",
        {**_EASY, "method": "Lifted", "n": "100,000", "seeded": "true", "noise_seed": "7"},
    ),
    Lesson(
        "A proud refusal",
        "10,000 people, the paper's own constants. Press Release: what does the answer tell a "
        "stranger about these people, and what would it take to learn more?",
        {**_EASY, "method": "Paper", "n": "10,000", "seeded": "true"},
    ),
    Lesson(
        "Ten times as many people",
        "The same promise as before, from ten times the rows. Which error shrinks, and why?",
        {**_EASY, "method": "Lifted", "n": "1,000,000", "seeded": "true", "noise_seed": "7"},
    ),
    Lesson(
        "When bumps merge",
        "These two components overlap. Will blocks that never saw each other's rows agree?",
        {
            "source": "Sample",
            "sample": "Overlapping 2d",
            "method": "Lifted",
            "epsilon": "8",
            "seeded": "true",
        },
    ),
    Lesson(
        "Could you tell?",
        "B holds one row that lies a million away. Guess ten times whether the release came from "
        "A or from B: how often are you right, compared with half of the time by chance?",
        {"audit": "Guess", "audit_epsilon": "1", "person": "outlier", "noise": "on"},
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


def class_link(number: int) -> str:
    """Return the address of a step of the class, without the server; the first step is 1."""
    lesson = CLASS[number - 1]
    return f"{lesson.page}?{urlencode({**lesson.values, 'class': str(number)})}"


def _step() -> int | None:
    """Read the step of the class from the address; None if there is none."""
    said = st.query_params.get("class", "")
    return int(said) if said.isascii() and said.isdigit() and 0 < int(said) <= len(CLASS) else None


def current_lesson() -> Lesson | None:
    """Read the lesson from the address; None if there is none."""
    number = _step()
    if number is not None:
        return CLASS[number - 1]
    said = {name: st.query_params.get(name, "")[:_LONGEST] for name in _WORDS}
    if not said["lesson"] and not said["question"]:
        return None
    predictions = tuple(p[:_LONGEST] for p in st.query_params.get_all("predict") if p)
    return Lesson(
        said["lesson"],
        said["question"],
        {},
        "",
        predictions[:_MOST_PREDICTIONS],
        said["answer"],
        tuple(key for key in said["show"].split(",") if key.isidentifier()),
    )


def _seal(lesson: Lesson) -> str:
    """Name the place in the session that remembers that this lesson's answer was revealed."""
    return f"revealed {lesson.title} {lesson.question}"


def revealed() -> bool:
    """Whether everything may be shown: there is no lesson, or its answer was revealed.

    A lesson without a prediction and an answer keeps its picture back until the release.
    """
    lesson = current_lesson()
    return lesson is None or bool(st.session_state.get(_seal(lesson)))


def pin_question(*, teacher: bool) -> None:
    """Show the lesson on top of the page; `teacher` if this is the screen that a class looks at.

    Its words come from outside, so they are escaped. Before the answer is revealed the page ends
    here.
    """
    lesson = current_lesson()
    if lesson is None:
        return
    place = f"{lesson.number} · " if lesson.number else ""
    with st.container(key="lesson"):
        st.html(
            '<div class="privgmm-lesson" role="note">'
            f"<b>{html.escape(place + lesson.title)}</b>"
            f"<div>{html.escape(lesson.question)}</div></div>"
        )
        if lesson.waits and not revealed():
            _ask(lesson)
        with st.container(horizontal=True, vertical_alignment="bottom", key="lesson_row"):
            if lesson.waits and not revealed():
                _offer_answer(lesson)
            _lead_on()
            st.button(
                "Leave the lesson",
                key="leave_lesson",
                icon=":material/tune:",
                on_click=leave_lesson,
                type="tertiary",
                help="Shows the controls",
            )
        if lesson.waits and revealed():
            _show_answer(lesson)
        if lesson.predictions and (teacher or revealed()):
            refresh_part(functools.partial(_show_tally, lesson, st.empty()), every=_TALLY_EVERY)
        if lesson.visible:
            st.html(_left_in_sight(lesson.visible))
    if lesson.waits and not revealed():
        end_page()


def _ask(lesson: Lesson) -> None:
    """Show the predictions: each has a key, and the one that was chosen is marked."""
    guess = st.session_state.get(_prediction(lesson))
    with st.container(horizontal=True, key="predictions"):
        for number, words in enumerate(lesson.predictions, 1):
            st.button(
                escaped(words),
                key=f"predict_{number}",
                shortcut=str(number),
                type="primary" if words == guess else "secondary",
                on_click=_predict,
                args=(lesson, words),
            )


def _offer_answer(lesson: Lesson) -> None:
    """Show the button that reveals the answer, after a prediction."""
    missing = bool(lesson.predictions) and st.session_state.get(_prediction(lesson)) is None
    st.button(
        "Reveal",
        key="reveal",
        type="primary",
        icon=":material/visibility:",
        shortcut="Enter",
        disabled=missing,
        help="Make a prediction first" if missing else None,
        on_click=_reveal,
        args=(_seal(lesson),),
    )


def _predict(lesson: Lesson, words: str) -> None:
    st.session_state[_prediction(lesson)] = words
    TALLY.count(_seal(lesson), this_session(), words)


def _show_tally(lesson: Lesson, place: DeltaGenerator) -> None:
    """Say how many predicted, and what, once that gives nothing away."""
    counts = TALLY.counts(_seal(lesson))
    total = sum(counts.values())
    if not revealed():
        place.caption(f":material/groups: Predictions so far on this server: {total}")
        return
    shares = " · ".join(f"{escaped(words)}: {counts.get(words, 0)}" for words in lesson.predictions)
    many = "s" * (total != 1)
    place.caption(f":material/groups: {total} prediction{many} on this server: {shares}")


def _prediction(lesson: Lesson) -> str:
    return f"prediction {lesson.title} {lesson.question}"


def class_prediction() -> int | None:
    """Return which prediction was made at this step of the class, from 0; None without one."""
    number = _step()
    if number is None:
        return None
    lesson = CLASS[number - 1]
    said = st.session_state.get(_prediction(lesson))
    return lesson.predictions.index(said) if said in lesson.predictions else None


def _show_answer(lesson: Lesson) -> None:
    """Show the answer and what was predicted."""
    guess = st.session_state.get(_prediction(lesson))
    said = f" You said: {html.escape(str(guess))}." if guess else ""
    st.html(
        f'<div class="privgmm-answer" role="status">{html.escape(lesson.answer)}<i>{said}</i></div>'
    )


def _reveal(seal: str) -> None:
    st.session_state[seal] = True


def _lead_on() -> None:
    """Show the buttons Back and Next of the class."""
    number = _step()
    if number is None:
        return
    if number > 1 and st.button(
        "Back", key="class_back", icon=":material/arrow_back:", shortcut="Shift+Left"
    ):
        _go(number - 1)
    if number < len(CLASS) and st.button(
        f"Next: {CLASS[number].title}",
        key="class_next",
        icon=":material/arrow_forward:",
        shortcut="Shift+Right",
    ):
        _go(number + 1)


def _go(number: int) -> None:
    lesson = CLASS[number - 1]
    st.switch_page(lesson.file, query_params={**lesson.values, "class": str(number)})


def _left_in_sight(keys: Sequence[str]) -> str:
    """Return the style that hides all but some controls of a panel."""
    others = "".join(f":not(.st-key-{key})" for key in keys)
    return (
        '<style>[class*="st-key-partly-"] [data-testid="stElementContainer"]'
        f"{others} {{ display: none; }}</style>"
    )


def controls_panel(name: str, *, border: bool = True) -> DeltaGenerator:
    """Make a container for controls; a lesson hides all but those it leaves visible.

    Hidden widgets stay on the page: their values come from the address, as always.

    Parameters
    ----------
    name : str
        Of the panel, unique on the page.
    border : bool
    """
    lesson = current_lesson()
    kind = "panel" if lesson is None else "partly" if lesson.visible else "hidden"
    return st.container(border=border and lesson is None, key=f"{kind}-{name}")


def leave_lesson() -> None:
    """Show the controls again."""
    for name in _WORDS:
        if name in st.query_params:
            del st.query_params[name]


def scene_line(words: str) -> None:
    """Describe the hidden controls in a line; nothing while they are visible."""
    if current_lesson() is not None:
        st.caption(f":material/tune: {words}")


def written(
    writers: Mapping[str, Writer], *, without: Sequence[str] = ()
) -> dict[str, str | list[str]]:
    """Return the state of a page's widgets, defaults included, as the address holds it.

    Parameters
    ----------
    writers : mapping of str to callable
        For each widget's key, how its value is written; of several values, each one.
    without : sequence of str
        Keys that have no meaning at present.
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
    predictions: Sequence[str] = (),
    answer: str = "",
    visible: Sequence[str] = (),
) -> str:
    """Build an address with these values; a lesson if there is a title or a question.

    Examples
    --------
    >>> link_to("http://localhost:8501", {"epsilon": "1"}, title="A b", question="Why?")
    'http://localhost:8501/?epsilon=1&lesson=A+b&question=Why%3F'
    """
    pairs: dict[str, str | list[str]] = dict(values)
    if title or question:
        pairs |= {"lesson": title or "Lesson", "question": question}
        said: dict[str, str | list[str]] = {
            "predict": list(predictions),
            "answer": answer,
            "show": ",".join(visible),
        }
        pairs |= {name: value for name, value in said.items() if value}
    slash = "" if base.rstrip("/").count("/") > 2 else "/"
    return f"{base.rstrip('/')}{slash}?{urlencode(pairs, doseq=True)}"


def show_link(values: Mapping[str, str | list[str]]) -> None:
    """Show a panel with the link to this state, and a form for lesson links.

    Parameters
    ----------
    values : mapping of str to str or list of str
        Names and values as in the address. Defaults are included, so that the link means the same
        after an update.
    """
    base = str(st.context.url or "")
    if current_lesson() is not None:
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
        predictions = st.text_input(
            "Predictions to choose from, if any",
            key="lesson_predictions",
            max_chars=_LONGEST,
            placeholder="Yes; no; it depends",
            help="Separated by semicolons",
        )
        answer = st.text_input(
            "Answer, to be revealed", key="lesson_answer", max_chars=_LONGEST, placeholder="None"
        )
        visible = st.multiselect(
            "Controls that stay visible", list(values), key="lesson_visible", placeholder="None"
        )
        if title or question:
            address = link_to(
                base,
                values,
                title=title or "Lesson",
                question=question or "",
                predictions=[part.strip() for part in predictions.split(";") if part.strip()],
                answer=answer,
                visible=visible,
            )
            st.code(address, language=None, wrap_lines=True)


def show_lessons() -> None:
    """Show links to the class and to ready-made lessons; each loads the page again."""
    with st.expander("A class in 20 minutes", icon=":material/school:"):
        _show_links(
            [
                (f"{lesson.number} · {lesson.title}", class_link(number))
                for number, lesson in enumerate(CLASS, 1)
            ]
        )
    with st.expander("Lessons", icon=":material/menu_book:"):
        _show_links(
            [
                (
                    lesson.title,
                    lesson.page
                    + link_to(
                        "", lesson.values, title=lesson.title, question=lesson.question
                    ).removeprefix("/"),
                )
                for lesson in LESSONS
            ]
        )


def _show_links(links: Sequence[tuple[str, str]]) -> None:
    """Show links that open in the same tab; links in Markdown open another one."""
    lines = "".join(
        f'<li><a href="./{html.escape(address)}" target="_self">{html.escape(words)}</a></li>'
        for words, address in links
    )
    st.html(f'<ul class="privgmm-links">{lines}</ul>')
