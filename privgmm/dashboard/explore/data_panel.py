"""The choice of data: chips for a quick choice, and the details of demonstration data.

Uploaded files are in `upload`.
"""

from __future__ import annotations

import streamlit as st

from privgmm.dashboard.explore.upload import choose_upload
from privgmm.dashboard.shared.chosen_data import ChosenData
from privgmm.dashboard.shared.lessons import LINKED
from privgmm.data.datasets import GENERATORS, sample_names
from privgmm.errors import InvalidInput
from privgmm.records.notebook import GeneratedRows, SampleRows
from privgmm.teaching.format import problem_in_words
from privgmm.teaching.rehearsal import ROW_COUNTS, load_demo

__all__ = [
    "GENERATE",
    "MIXTURE_KINDS",
    "SAMPLE",
    "UPLOAD",
    "awaits_upload",
    "choose_chip",
    "choose_data",
    "choose_rows",
]

GENERATE, SAMPLE, UPLOAD = "Generate", "Sample", "Upload"
_CHOSEN = "choose"
MIXTURE_KINDS = {
    "well_separated": "Well separated",
    "overlapping": "Overlapping",
    "same_mean": "Same mean, different shapes",
    "ill_conditioned": "Needles (ill-conditioned)",
    _CHOSEN: "Choose the separation…",
}


_CHIPS: dict[str, dict[str, str | int]] = {
    "Two groups": {"source": GENERATE, "kind": "well_separated", "true_k": 2, "d": 2},
    "Three groups": {"source": GENERATE, "kind": "well_separated", "true_k": 3, "d": 2},
    "Overlapping": {"source": GENERATE, "kind": "overlapping", "true_k": 2, "d": 2},
    "Old Faithful": {"source": SAMPLE, "sample": "old_faithful"},
    "Upload": {"source": UPLOAD},
}
"""Values that each chip sets, by the keys of the widgets."""

_DEFAULTS: dict[str, str | int] = {
    "source": GENERATE,
    "kind": "overlapping",
    "true_k": 2,
    "d": 2,
    "sample": sample_names()[0],
}
"""Values of the widgets before anything is chosen: privacy is seen best where groups overlap."""


def choose_chip() -> None:
    """Show the quick choice; a chip is marked while the details are what it sets."""
    st.session_state["chip"] = next(
        (
            name
            for name, values in _CHIPS.items()
            if all(_now(key) == value for key, value in values.items())
        ),
        None,
    )
    st.pills(
        "Data",
        list(_CHIPS),
        key="chip",
        on_change=_take_chip,
        help="Data to try it on: generated, measured (eruptions of a geyser), or yours. More "
        "choices are under **Data**.",
    )


def awaits_upload() -> bool:
    """Whether the visitor is to upload rows."""
    return _now("source") == UPLOAD


def _now(key: str) -> str | int:
    """Return the value that a widget has, or will have: the address comes before its default."""
    if key in st.session_state:
        return st.session_state[key]  # type: ignore[no-any-return]
    said = st.query_params.get(key)
    if said is None:
        return _DEFAULTS[key]
    written = {"kind": MIXTURE_KINDS, "sample": {name: _titled(name) for name in sample_names()}}
    for value, words in written.get(key, {}).items():
        if words == said:
            return value
    return int(said) if said.isdigit() else said


def _take_chip() -> None:
    chip = st.session_state["chip"]
    if chip is None:
        return
    for key, value in _CHIPS[chip].items():
        st.session_state[key] = value
    if chip == "Upload":
        st.session_state["rail"] = "Data"
    elif "true_k" in _CHIPS[chip]:
        _follow_k()
    else:
        _follow_sample()


def choose_rows() -> None:
    """Let the visitor choose how many rows to generate; `choose_data` has the details."""
    if _now("source") not in (SAMPLE, UPLOAD):
        st.select_slider(
            "Rows (people)", ROW_COUNTS, 3_000, format_func=lambda n: f"{n:,}", key="n", **LINKED
        )


def choose_data() -> ChosenData | None:
    """Show the details; return the chosen data, or None while there are none.

    `choose_rows` comes before.
    """
    source = st.segmented_control(
        "Where the rows come from",
        (GENERATE, SAMPLE, UPLOAD),
        default=GENERATE,
        required=True,
        key="source",
        label_visibility="collapsed",
        **LINKED,
        width="stretch",
    )
    try:
        if source == SAMPLE:
            return _sample()
        if source == UPLOAD:
            return choose_upload()
        return _generate()
    except InvalidInput as problem:
        st.error(problem_in_words(problem), icon=":material/error:")
        return None


def _generate() -> ChosenData:
    kind = st.selectbox(
        "Kind of mixture",
        [*GENERATORS, _CHOSEN],
        index=list(GENERATORS).index(str(_DEFAULTS["kind"])),
        format_func=lambda name: MIXTURE_KINDS.get(name, name),
        key="kind",
        **LINKED,
    )
    left, right = st.columns(2)
    k = left.number_input(
        "Components",
        1,
        8,
        2,
        key="true_k",
        **LINKED,
        on_change=_follow_k,
        help="How many Gaussians the rows are drawn from",
    )
    d = right.number_input("Columns", 1, 10, 2, key="d", **LINKED)
    separation = 4.0
    if kind == _CHOSEN:
        separation = st.slider(
            "Separation",
            0.0,
            12.0,
            4.0,
            0.5,
            key="separation",
            **LINKED,
            help="How many standard deviations apart the nearest two centres are",
        )
    n = st.session_state["n"]
    seed = st.number_input(
        "Seed of the data",
        0,
        10**9,
        1,
        key="data_seed",
        **LINKED,
        help="Another seed, another mixture. The privacy noise does not depend on it.",
    )
    rows = GeneratedRows(
        None if kind == _CHOSEN else str(kind), int(k), int(d), int(n), int(seed), float(separation)
    )
    return ChosenData(load_demo(rows), rows)


def _follow_k() -> None:
    """Fit as many components as are generated, until another number is chosen."""
    st.session_state["k"] = min(8, st.session_state["true_k"])


def _sample() -> ChosenData:
    name = st.selectbox(
        "Sample",
        sample_names(),
        format_func=_titled,
        key="sample",
        **LINKED,
        on_change=_follow_sample,
    )
    rows = SampleRows(name)
    dataset = load_demo(rows)
    st.caption(dataset.description + ".")
    return ChosenData(dataset, rows)


def _titled(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _follow_sample() -> None:
    truth = load_demo(SampleRows(st.session_state["sample"])).truth
    st.session_state["k"] = 2 if truth is None else truth.n_components
