"""The data panel: generate rows, take a sample, or upload a file."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from privgmm.dashboard.shared.answers import SIZES
from privgmm.dashboard.shared.chosen import Chosen
from privgmm.dashboard.shared.format import escaped
from privgmm.data.datasets import GENERATORS, Dataset, load_table, numeric_columns, sample_names
from privgmm.data.fingerprint import file_fingerprint
from privgmm.data.tables import column_names, read_table
from privgmm.errors import InvalidInput
from privgmm.records.notebook import FileRows, GeneratedRows, SampleRows

__all__ = ["GENERATE", "KINDS", "SAMPLE", "UPLOAD", "choose_data"]

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
_MOST_FAULTS = 3
_DIGESTS = "explore_digests"
_KEPT = "explore_upload"


def choose_data() -> Chosen | None:
    """Draw the panel and give back the chosen data, or None while there is none to show."""
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
            help="Smallest distance between two means, in units of their spread",
        )
    n = st.select_slider(
        "Rows",
        SIZES,
        100_000,
        format_func=lambda n: f"{n:,}",
        key="n",
        bind="query-params",
        persist_state="session",
    )
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
    return Chosen(_generated(rows), rows)


@st.cache_resource(max_entries=3, show_spinner="Drawing rows…")
def _generated(rows: GeneratedRows) -> Dataset:
    return rows.load()


def _follow_k() -> None:
    """Fit as many components as are drawn, until told otherwise."""
    st.session_state["k"] = min(8, st.session_state["true_k"])


def _sample() -> Chosen:
    name = st.selectbox(
        "Sample",
        sample_names(),
        format_func=lambda name: name.replace("_", " ").capitalize(),
        key="sample",
        bind="query-params",
        persist_state="session",
        on_change=_follow_sample,
    )
    dataset = _sampled(name)
    st.caption(dataset.description + ".")
    return Chosen(dataset, SampleRows(name))


def _follow_sample() -> None:
    truth = _sampled(st.session_state["sample"]).truth
    st.session_state["k"] = 2 if truth is None else truth.n_components


@st.cache_resource(show_spinner="Reading the sample…")
def _sampled(name: str) -> Dataset:
    return SampleRows(name).load()


def _upload() -> Chosen | None:
    file = st.file_uploader(
        "A table of numbers",
        type=["csv", "tsv", "txt", "parquet"],
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
    names, faults = _survey(digest, file)
    if faults:
        st.warning(
            "Left out, because they hold more than numbers:\n" + "\n".join(faults),
            icon=":material/view_column:",
        )
    chosen: Sequence[str] = st.multiselect(
        "Columns to use",
        names,
        default=names[: min(len(names), 5)],
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
        help="Minutes, ages, counts: fits of blocks chase such values and disagree. Public noise "
        "of up to one half undoes the rounding; it adds 1/12 to a variance and changes nothing in "
        "the promise. Say what you know of how a column was recorded.",
    )
    jitter = tuple((column, 1.0) for column in whole if column in chosen)
    dataset = _uploaded(digest, tuple(chosen), jitter, file.name, file)
    return Chosen(dataset, FileRows(file.name, tuple(chosen), jitter), digest)


def _forget() -> None:
    """Whoever takes a file away wants it gone."""
    st.session_state.pop(_KEPT, None)


# The file is left out of the cache key on purpose: the digest of all of it stands for it. A key
# made from a sample of the content would return stale rows after a small change.


@st.cache_data(max_entries=4, show_spinner="Reading the file…", scope="session")
def _survey(digest: str, _file: UploadedFile) -> tuple[tuple[str, ...], tuple[str, ...]]:  # noqa: ARG001 - the cache key
    """Names of the columns of numbers, and a line on each of the first few others."""
    content = _file.getvalue()
    names = numeric_columns(content, max_bytes=_MAX_BYTES)
    if not names:
        # It says why: no rows, or no numbers in them.
        read_table(content, max_bytes=_MAX_BYTES)
    others = [name for name in column_names(content, max_bytes=_MAX_BYTES) if name not in names]
    faults = [_fault(content, name) for name in others[:_MOST_FAULTS]]
    if len(others) > len(faults):
        faults.append(f"- and {len(others) - len(faults)} more columns")
    return names, tuple(faults)


def _fault(content: bytes, name: str) -> str:
    try:
        read_table(content, columns=[name], max_bytes=_MAX_BYTES)
    except InvalidInput as problem:
        return f"- {escaped(str(problem))}"
    return f"- {escaped(name)}"


@st.cache_resource(max_entries=2, show_spinner="Reading the file…", scope="session")
def _uploaded(
    digest: str,  # noqa: ARG001 - the cache key
    columns: tuple[str, ...],
    jitter: tuple[tuple[str, float], ...],
    name: str,
    _file: UploadedFile,
) -> Dataset:
    return load_table(
        _file.getvalue(), columns=columns, jitter=dict(jitter), name=name, max_bytes=_MAX_BYTES
    )
