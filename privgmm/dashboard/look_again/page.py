"""The page Look again: what else one release tells, for free."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from privgmm.covariance_structures import covariance_structure, structure_names
from privgmm.dashboard.look_again import known_values, synthetic_rows
from privgmm.dashboard.look_again.densities import show_one_column, show_two_columns
from privgmm.dashboard.look_again.fit import show_fit, show_path
from privgmm.dashboard.look_again.known_values import show_known_values
from privgmm.dashboard.look_again.looks import FreeLook, as_released, choice_from, look_at, path_of
from privgmm.dashboard.look_again.paid import Paid, choose_source, find_paid, show_paid
from privgmm.dashboard.look_again.scene import LookScene, components_in_words
from privgmm.dashboard.look_again.synthetic_rows import show_synthetic_rows
from privgmm.dashboard.shared.layout import frame, slider_ends
from privgmm.dashboard.shared.lessons import (
    LINKED,
    Writer,
    controls_panel,
    current_lesson,
    plainly,
    scene_line,
    show_link,
    written,
)
from privgmm.dashboard.shared.refresh import refreshing_page, rerun_when_ready, wait_briefly
from privgmm.errors import PrivGMMError
from privgmm.results import LIKE_A_VALUE
from privgmm.stages.sketch.choice import MOST_OFFERED, Choice
from privgmm.stages.sketch.fitting import MISFIT
from privgmm.stages.sketch.private_sketch import PrivateSketch
from privgmm.teaching.background import is_known, still_open
from privgmm.teaching.format import escaped, method_title, number_in_words, problem_in_words

__all__ = ["page"]

_SECONDS = 0.6
"""How long the page waits for a fit before it shows progress: most fits take less."""
_SHOWN = "look_shown"

FIT, HOW_MANY, TWO, ONE = "Fit", "How many?", "Two columns", "One column"
KNOWN, SYNTHETIC = "Known values", "Synthetic rows"


class Path(NamedTuple):
    """What is known of other numbers of components.

    Parameters
    ----------
    choice : Choice or None
        Among those tried so far; None before the first.
    complete : bool
        Whether all are known.
    """

    choice: Choice | None
    complete: bool


@refreshing_page
def page() -> None:
    """Render the page."""
    link = frame(
        "Look again, for free",
        "**You have paid once; nothing on this page costs anything.** All of it is computed from "
        "what was published: the rows are not asked again.",
    )
    if current_lesson() is None:
        controls, picture = st.container(key="rail").columns([1, 2], gap="medium")
    else:
        controls, picture = st.container(), st.container()
    with controls, controls_panel("paid"):
        st.markdown("**1 · What was released**")
        source = choose_source()
        about = st.container()
    with picture:
        paid = find_paid(source)
    if paid is not None:
        with about:
            show_paid(paid)
        _look(paid, controls, picture)
    with link:
        # Last, when every widget of the page has its value.
        show_link(written(_WRITERS))


def _look(paid: Paid, controls: DeltaGenerator, picture: DeltaGenerator) -> None:
    """Render everything below the choice of a release."""
    _follow(paid)
    with controls, controls_panel("look"):
        st.markdown("**2 · Look again**")
        chosen = None if paid.sketch is None else _choose_fit(paid)
        best = st.container()
        axes, with_rows = _choose_axes(paid), _choose_rows(paid)
    with picture:
        band = st.container()
        view = _choose_view(paid)
        if paid.sketch is None or chosen is None:
            best.caption(f"As released: {components_in_words(paid.mixture.n_components)}.")
            with band:
                _say_no_sketch(paid)
            _show(view, LookScene(paid, as_released(paid), axes, with_rows))
            return
        k, kind = chosen
        with band:
            found = _found(paid, paid.sketch, k, kind)
        # asked again: what was found may call for more
        path = path_of(paid.sketch, kind, k)
        tried = Path(choice_from(path), complete=not still_open(path))
        with best:
            _say_best(tried, k)
        if found is None:
            return
        with band:
            scene_line(_scene_in_words(paid, found))
            _show_verdict(found)
        _show(view, LookScene(paid, found, axes, with_rows), tried)
    if not tried.complete:
        rerun_when_ready(still_open(path))


def _follow(paid: Paid) -> None:
    """Start at the number of components that was released, after another release."""
    earlier = st.session_state.get(_SHOWN)
    if earlier is not None and earlier != paid.mixture:
        for key in ("look_across", "look_up", "look_column", "known"):
            st.session_state.pop(key, None)
        st.session_state["look_k"] = min(paid.mixture.n_components, MOST_OFFERED)
        st.session_state["look_type"] = paid.covariance_type
    st.session_state[_SHOWN] = paid.mixture


def _choose_fit(paid: Paid) -> tuple[int, str]:
    k = st.slider(
        "Components k",
        1,
        MOST_OFFERED,
        min(paid.mixture.n_components, MOST_OFFERED),
        key="look_k",
        **LINKED,
        help=f"How many Gaussians to fit. {paid.mixture.n_components} were released; any other "
        "number is fitted to the same sketch.",
    )
    slider_ends("simpler", "finer")
    kind = st.segmented_control(
        "Shape",
        structure_names(),
        default=paid.covariance_type,
        required=True,
        format_func=_title,
        key="look_type",
        **LINKED,
        help="What the covariances of the components may be, named as in scikit-learn",
    )
    st.caption(covariance_structure(kind).sentence)
    return int(k), kind


def _title(covariance_type: str) -> str:
    return covariance_structure(covariance_type).title


def _choose_axes(paid: Paid) -> tuple[int, int]:
    """Let the visitor choose the two columns in view."""
    names = paid.columns
    if paid.n_features < 3:
        return (0, 1) if paid.n_features == 2 else (0, 0)
    left, right = st.columns(2)
    first = left.selectbox("Across", names, key="look_across", **LINKED)
    others = [name for name in names if name != first]
    second = right.selectbox("Up", others, key="look_up", **LINKED)
    return names.index(first), names.index(second)


def _choose_rows(paid: Paid) -> bool:
    """Let the curator show the real rows."""
    if paid.dataset is None:
        return False
    # not in the address: a link must not show rows
    return st.toggle(
        ":red[:material/lock:] Compare with the real rows",
        key="look_rows",
        persist_state="session",
        help="For the curator alone: pictures with rows in them are confidential. Looking spends "
        "nothing, but what you see must not be shared."
        + (" These rows are generated: here it is practice." if paid.dataset.truth else ""),
    )


def _found(paid: Paid, sketch: PrivateSketch, k: int, kind: str) -> FreeLook | None:
    """Return the fit that was asked for, or show its progress and return None."""
    path = path_of(sketch, kind, k)
    wait_briefly(path[:k], _SECONDS)
    done = sum(is_known(answer) for answer in path[:k])
    if done < k:
        st.progress(done / k, text=f"Fitting: {done} of {components_in_words(k)}…")
        rerun_when_ready(still_open(path[:k]))
        return None
    answer = look_at(paid, sketch, k, kind)
    wait_briefly([answer], _SECONDS)
    if not is_known(answer):
        st.progress(1.0, text="Computing how well it explains the rows…")
        rerun_when_ready([answer])
        return None
    problem = answer.exception()
    if isinstance(problem, PrivGMMError):
        st.error(problem_in_words(problem), icon=":material/error:")
        return None
    return answer.result()


def _say_best(tried: Path, k: int) -> None:
    """Say what the criterion would take, with a click that takes it."""
    choice = tried.choice
    if choice is None or not tried.complete:
        st.caption(":material/hourglass_top: Trying other numbers…")
    elif choice.n_components == k:
        st.caption(f":material/check: The criterion takes {k} too.")
    else:
        st.button(
            f"Take {choice.n_components}, the best by the criterion",
            key="look_best",
            icon=":material/auto_awesome:",
            on_click=_take,
            args=(choice.n_components, None),
        )


def _take(k: int, kind: str | None) -> None:
    st.session_state["look_k"] = k
    if kind is not None:
        st.session_state["look_type"] = kind


def _show_verdict(look: FreeLook) -> None:
    """Say whether such a mixture explains the rows."""
    count = components_in_words(look.n_components)
    what = (
        count
        if look.covariance_type == "full"
        else f"{count} ({_title(look.covariance_type).lower()})"
    )
    own = " This is the mixture that was released." if look.released else ""
    misfit = (
        ""
        if look.misfit is None
        else f"Misfit {number_in_words(look.misfit, 2)}; up to {MISFIT:g} may be noise."
    )
    if look.explains:
        st.success(
            f"**{what} explain{'s' * (look.n_components == 1)} the rows** to within the noise. "
            f"{misfit}{own}",
            icon=":material/check_circle:",
        )
    else:
        first, stop, rest = _plain(look.verdict).partition(". ")
        st.warning(f"**{first}{stop.strip()}** {rest} {misfit}{own}", icon=":material/difference:")
        if look.suggestion is not None:
            more, kind = look.suggestion
            st.button(
                f"Try {components_in_words(more)}"
                + (f", {_title(kind).lower()}" if kind != look.covariance_type else ""),
                key="look_try",
                icon=":material/arrow_forward:",
                on_click=_take,
                args=(more, kind),
            )
    if look.floored:
        st.caption(f":material/compress: {LIKE_A_VALUE}")


def _plain(verdict: str) -> str:
    """Put the verdict in the words of this page."""
    return verdict.replace("as `curve` and `image` give it", f"as *{TWO}* and *{ONE}* show it")


def _say_no_sketch(paid: Paid) -> None:
    st.info(
        f"This release was made by the method **{method_title(paid.method)}**, which publishes a "
        "mixture and no sketch. So other numbers of components, densities and the misfit cannot be "
        "had for free. To get them, release with the method **Sketch** on Explore, which costs "
        "its own ε. What the released mixture itself tells is here.",
        icon=":material/info:",
    )
    st.page_link("app.py", label="Explore", icon=":material/explore:")


def _choose_view(paid: Paid) -> str:
    """Let the visitor choose a view, in a lesson too."""
    views = [FIT]
    if paid.sketch is not None:
        views += [HOW_MANY, *([TWO] if paid.n_features > 1 else []), ONE]
    views += [*([KNOWN] if paid.n_features > 1 else []), SYNTHETIC]
    if st.session_state.get("look_at") not in (None, *views):
        del st.session_state["look_at"]
    # a container of its own lets it wrap where there is little room
    with st.container(key="views"):
        view = st.segmented_control(
            "What to see",
            views,
            default=FIT,
            required=True,
            key="look_at",
            label_visibility="collapsed",
            **LINKED,
        )
    return str(view)


def _show(view: str, scene: LookScene, tried: Path | None = None) -> None:
    """Show a view."""
    sketch = scene.paid.sketch
    if view == HOW_MANY and tried is not None and tried.choice is not None:
        show_path(tried.choice, complete=tried.complete)
    elif view == TWO and sketch is not None:
        show_two_columns(scene, sketch)
    elif view == ONE and sketch is not None:
        show_one_column(scene, sketch)
    elif view == KNOWN:
        show_known_values(scene)
    elif view == SYNTHETIC:
        show_synthetic_rows(scene)
    else:
        show_fit(scene)


def _scene_in_words(paid: Paid, look: FreeLook) -> str:
    """Describe a lesson's settings in a line."""
    kind = _title(look.covariance_type).lower()
    title = escaped(paid.title[0].upper() + paid.title[1:])
    return f"{title}, {components_in_words(look.n_components)}, shape {kind}."


_WRITERS: dict[str, Writer] = {
    **plainly("look_from", "look_k", "look_at", "look_across", "look_up"),
    **plainly("look_overlay", "look_column"),
    "look_type": _title,
    **known_values.KNOWN_WRITERS,
    **synthetic_rows.SYNTHETIC_WRITERS,
}
