"""The data: chips for a quick choice, and all details of generated, shipped or uploaded rows."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from privgmm.dashboard.shared.answers import SIZES
from privgmm.dashboard.shared.chosen import Chosen
from privgmm.dashboard.shared.format import escaped
from privgmm.dashboard.shared.made_up import loaded
from privgmm.data.datasets import GENERATORS, Dataset, load_table, sample_names
from privgmm.data.fingerprint import file_fingerprint
from privgmm.data.identifiers import named_identifiers, running_numbers
from privgmm.data.tables import ColumnKind, Layout, column_kinds, listed
from privgmm.errors import InvalidInput
from privgmm.records.notebook import FileRows, GeneratedRows, SampleRows

__all__ = [
    "GENERATE",
    "KINDS",
    "SAMPLE",
    "UPLOAD",
    "awaits_upload",
    "choose_chip",
    "choose_data",
    "choose_rows",
]

GENERATE, SAMPLE, UPLOAD = "Generate", "Sample", "Upload"
_CHOSEN = "choose"
KINDS = {
    "well_separated": "Well separated",
    "overlapping": "Overlapping",
    "same_mean": "Same mean, different shapes",
    "ill_conditioned": "Needles (ill-conditioned)",
    _CHOSEN: "Choose the separation…",
}
_UPLOAD_MB = 200
_MAX_BYTES = _UPLOAD_MB * 2**20
_MOST_COLUMNS = 5
_FIRST_LINES: dict[str, bool | None] = {
    "Names in words": None,
    "Names, numbers allowed": True,
    "A row of data": False,
}
_SEPARATORS = {
    "What parts the names": None,
    "Comma": ",",
    "Semicolon": ";",
    "Tab": "\t",
    "Bar": "|",
}
_DECIMALS = {"As usual for the separator": None, "Point": ".", "Comma": ","}
_DIGESTS = "explore_digests"
_SEEDS = "explore_jitter_seeds"
_KEPT = "explore_upload"


_CHIPS: dict[str, dict[str, str | int]] = {
    "Two groups": {"source": GENERATE, "kind": "well_separated", "true_k": 2, "d": 2},
    "Three groups": {"source": GENERATE, "kind": "well_separated", "true_k": 3, "d": 2},
    "Overlapping": {"source": GENERATE, "kind": "overlapping", "true_k": 2, "d": 2},
    "Old Faithful": {"source": SAMPLE, "sample": "old_faithful"},
    "Upload": {"source": UPLOAD},
}
"""What each chip sets, by the keys of the widgets."""

_DEFAULTS: dict[str, str | int] = {
    "source": GENERATE,
    "kind": "well_separated",
    "true_k": 2,
    "d": 2,
    "sample": sample_names()[0],
}


def choose_chip() -> None:
    """The quick choice; a chip is marked while the details are what it sets."""
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
        help="People to try it on: made up, measured (eruptions of a geyser), or yours. More "
        "choices are under **Data**.",
    )


def awaits_upload() -> bool:
    """Whether rows are to be uploaded."""
    return _now("source") == UPLOAD


def _now(key: str) -> str | int:
    """What a widget holds, or will hold at first: the address comes first then."""
    if key in st.session_state:
        return st.session_state[key]  # type: ignore[no-any-return]
    said = st.query_params.get(key)
    if said is None:
        return _DEFAULTS[key]
    written = {"kind": KINDS, "sample": {name: _titled(name) for name in sample_names()}}
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
    """How many rows to draw, where they are drawn; the details are in `choose_data`."""
    if _now("source") not in (SAMPLE, UPLOAD):
        st.select_slider(
            "Rows (people)",
            SIZES,
            3_000,
            format_func=lambda n: f"{n:,}",
            key="n",
            bind="query-params",
            persist_state="session",
        )


def choose_data() -> Chosen | None:
    """Draw the details and give back the chosen data, or None while there is none to show.

    `choose_rows` comes before.
    """
    source = st.segmented_control(
        "Where the rows come from",
        (GENERATE, SAMPLE, UPLOAD),
        default=GENERATE,
        required=True,
        key="source",
        label_visibility="collapsed",
        bind="query-params",
        persist_state="session",
        width="stretch",
    )
    try:
        if source == SAMPLE:
            return _sample()
        if source == UPLOAD:
            return _upload()
        return _generate()
    except InvalidInput as problem:
        st.error(escaped(str(problem)), icon=":material/error:")
        return None


def _generate() -> Chosen:
    kind = st.selectbox(
        "Kind of mixture",
        [*GENERATORS, _CHOSEN],
        format_func=lambda name: KINDS.get(name, name),
        key="kind",
        bind="query-params",
        persist_state="session",
    )
    left, right = st.columns(2)
    k = left.number_input(
        "Components",
        1,
        8,
        2,
        key="true_k",
        bind="query-params",
        persist_state="session",
        on_change=_follow_k,
        help="How many Gaussians the rows are drawn from",
    )
    d = right.number_input(
        "Columns", 1, 10, 2, key="d", bind="query-params", persist_state="session"
    )
    separation = 4.0
    if kind == _CHOSEN:
        separation = st.slider(
            "Separation",
            0.0,
            12.0,
            4.0,
            0.5,
            key="separation",
            bind="query-params",
            persist_state="session",
            help="How many standard deviations apart the nearest two centres are",
        )
    n = st.session_state["n"]
    seed = st.number_input(
        "Seed of the data",
        0,
        10**9,
        1,
        key="data_seed",
        bind="query-params",
        persist_state="session",
        help="Another seed, another mixture. The privacy noise does not depend on it.",
    )
    rows = GeneratedRows(
        None if kind == _CHOSEN else str(kind), int(k), int(d), int(n), int(seed), float(separation)
    )
    return Chosen(loaded(rows), rows)


def _follow_k() -> None:
    """Fit as many components as are drawn, until told otherwise."""
    st.session_state["k"] = min(8, st.session_state["true_k"])


def _sample() -> Chosen:
    name = st.selectbox(
        "Sample",
        sample_names(),
        format_func=_titled,
        key="sample",
        bind="query-params",
        persist_state="session",
        on_change=_follow_sample,
    )
    rows = SampleRows(name)
    dataset = loaded(rows)
    st.caption(dataset.description + ".")
    return Chosen(dataset, rows)


def _titled(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _follow_sample() -> None:
    truth = loaded(SampleRows(st.session_state["sample"])).truth
    st.session_state["k"] = 2 if truth is None else truth.n_components


def _upload() -> Chosen | None:
    file = st.file_uploader(
        "A table of numbers",
        type=["csv", "tsv", "txt", "parquet", "gz"],
        key="file",
        on_change=_forget,
        max_upload_size=_UPLOAD_MB,
        help="CSV or Parquet, one row per person. It stays in this session, on this machine.",
    )
    if file is None:
        # Streamlit drops an upload when another page is shown; the session need not.
        kept = st.session_state.get(_KEPT)
        if not isinstance(kept, UploadedFile):
            st.caption(
                "CSV or Parquet, one row per person. It stays in this session, on this machine."
            )
            return None
        file = kept
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(f"In use: {escaped(file.name)}", width="stretch")
            st.button("Forget it", key="forget", on_click=_forget, type="tertiary")
    st.session_state[_KEPT] = file
    # Reading and hashing 200 MB takes longer than a rerun may: each upload has a number of its
    # own, so its content is looked at once.
    digests: dict[str, str] = st.session_state.setdefault(_DIGESTS, {})
    if file.file_id not in digests:
        digests[file.file_id] = file_fingerprint(file.getvalue())
    digest = digests[file.file_id]
    layout = _layout(digest)
    kinds = _survey(digest, layout, file)
    names = list(kinds)
    if text := [name for name, kind in kinds.items() if kind in ("text", "empty")]:
        st.caption(f"No numbers in {escaped(listed(text))}.")
    usual = [name for name in names if name not in text and not named_identifiers([name])]
    chosen: Sequence[str] = st.multiselect(
        "Columns to use",
        names,
        default=usual[:_MOST_COLUMNS],
        key=f"columns_{digest}",
        persist_state="session",
    )
    if not chosen:
        st.info("Choose at least one column.")
        return None
    whole: Sequence[str] = st.multiselect(
        "Recorded in whole numbers",
        names,
        key=f"whole_{digest}",
        persist_state="session",
        placeholder="None",
        help="Minutes, ages, counts: fits of blocks chase such values and disagree. Fresh noise "
        "of up to one half undoes the rounding; it adds 1/12 to a variance and changes nothing in "
        "the promise. Say what you know of how a column was recorded.",
    )
    jitter = tuple((column, 1.0) for column in whole if column in chosen)
    rows = FileRows(file.name, tuple(chosen), jitter, layout, _seed(digest))
    dataset = _uploaded(digest, rows, file)
    st.caption(f"Read {dataset.n_rows:,} rows: {dataset.reading}.")
    if running := running_numbers(dataset.rows, dataset.columns):
        st.warning(
            f"Column {escaped(listed(running))} counts rows or persons. If nothing was measured "
            "there, take it out.",
            icon=":material/format_list_numbered:",
        )
    return Chosen(dataset, rows, digest)


def _layout(digest: str) -> Layout:
    """How a CSV file is written: public, and never guessed from what single cells hold."""
    with st.expander("How the file is written", icon=":material/tune:"):
        st.caption(
            "For CSV. The first line is published as the names of the columns, so a line with "
            "numbers in it is not taken for names unasked."
        )
        first, separator, decimal = (
            st.selectbox(label, list(choices), key=f"{label}_{digest}", persist_state="session")
            for label, choices in (
                ("First line", _FIRST_LINES),
                ("Between cells", _SEPARATORS),
                ("Decimal sign", _DECIMALS),
            )
        )
    return Layout(_FIRST_LINES[first], _SEPARATORS[separator], _DECIMALS[decimal])


def _seed(digest: str) -> int:
    """Draws the noise that undoes rounding: one per file and session, and told to nobody.

    The cache may forget rows that were read; with this they come back as they were. Here every row
    is a person of its own, so nothing would be lost if somebody knew it.
    """
    seeds: dict[str, int] = st.session_state.setdefault(_SEEDS, {})
    return seeds.setdefault(digest, secrets.randbits(64))


def _forget() -> None:
    """Whoever takes a file away wants it gone."""
    st.session_state.pop(_KEPT, None)


# The file is left out of the cache key on purpose: the digest of all of it stands for it. A key
# made from a sample of the content would return stale rows after a small change.


@st.cache_data(max_entries=4, show_spinner="Reading the file…", scope="session")
def _survey(digest: str, layout: Layout, _file: UploadedFile) -> dict[str, ColumnKind]:  # noqa: ARG001 - the cache key
    """What the columns hold, by their names."""
    kinds = column_kinds(_file.getvalue(), layout=layout, max_bytes=_MAX_BYTES)
    if all(kind in ("text", "empty") for kind in kinds.values()):
        raise InvalidInput(f"no column holds numbers; the file has {listed(list(kinds))}")
    return kinds


@st.cache_resource(max_entries=2, show_spinner="Reading the file…", scope="session")
def _uploaded(
    digest: str,  # noqa: ARG001 - the cache key
    rows: FileRows,
    _file: UploadedFile,
) -> Dataset:
    return load_table(
        _file.getvalue(),
        columns=rows.columns,
        jitter=dict(rows.jitter),
        rng=rows.seed,
        name=rows.path,
        max_bytes=_MAX_BYTES,
        **rows.layout.said,
    )
