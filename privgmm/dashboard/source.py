"""The data panel: generate rows, take a sample, or upload a file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import streamlit as st

from privgmm.datasets import (
    GENERATORS,
    Dataset,
    generate,
    load_sample,
    load_table,
    numeric_columns,
    random_mixture,
    sample_names,
)
from privgmm.errors import InvalidInput

__all__ = ["choose_data"]

GENERATE, SAMPLE, UPLOAD = "Generate", "Sample", "Upload"
_CHOSEN = "choose"
_SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
_KINDS = {
    "well_separated": "Well separated",
    "overlapping": "Overlapping",
    "same_mean": "Same mean, different shapes",
    "ill_conditioned": "Needles (ill-conditioned)",
    _CHOSEN: "Choose the separation…",
}
_UPLOAD_MB = 200


def choose_data() -> Dataset | None:
    """Draw the panel and give back the chosen data, or None while there is none to show."""
    source = st.segmented_control(
        "Where the rows come from",
        (GENERATE, SAMPLE, UPLOAD),
        default=GENERATE,
        required=True,
        key="source",
        label_visibility="collapsed",
        bind="query-params",
        width="stretch",
    )
    try:
        if source == SAMPLE:
            return _sample()
        if source == UPLOAD:
            return _upload()
        return _generate()
    except InvalidInput as problem:
        st.error(str(problem), icon=":material/error:")
        return None


def _generate() -> Dataset:
    kind = st.selectbox(
        "Kind of mixture",
        [*GENERATORS, _CHOSEN],
        format_func=lambda name: _KINDS.get(name, name),
        key="kind",
        bind="query-params",
    )
    left, right = st.columns(2)
    k = left.number_input(
        "Components",
        1,
        8,
        2,
        key="true_k",
        bind="query-params",
        on_change=_follow_k,
        help="How many Gaussians the rows are drawn from",
    )
    d = right.number_input("Columns", 1, 10, 2, key="d", bind="query-params")
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
            help="Smallest distance between two means, in units of their spread",
        )
    n = st.select_slider(
        "Rows", _SIZES, 100_000, format_func=lambda n: f"{n:,}", key="n", bind="query-params"
    )
    seed = st.number_input(
        "Seed of the data",
        0,
        10**9,
        1,
        key="data_seed",
        bind="query-params",
        help="Another seed, another mixture. The privacy noise does not depend on it.",
    )
    return _generated(str(kind), int(k), int(d), float(separation), int(n), int(seed))


@st.cache_resource(max_entries=3, show_spinner="Drawing rows…")
def _generated(kind: str, k: int, d: int, separation: float, n: int, seed: int) -> Dataset:
    if kind == _CHOSEN:
        condition = 4.0 if d > 1 else 1.0
        truth = random_mixture(k, d, separation=separation, condition=condition, rng=seed)
    else:
        truth = GENERATORS[kind](k, d, rng=seed)
    return generate(truth, n, rng=seed + 1)


def _follow_k() -> None:
    """Fit as many components as are drawn, until told otherwise."""
    st.session_state["k"] = min(8, st.session_state["true_k"])


def _sample() -> Dataset:
    name = st.selectbox(
        "Sample",
        sample_names(),
        format_func=lambda name: name.replace("_", " ").capitalize(),
        key="sample",
        bind="query-params",
        on_change=_follow_sample,
    )
    dataset = _sampled(name)
    st.caption(dataset.description + ".")
    return dataset


def _follow_sample() -> None:
    truth = _sampled(st.session_state["sample"]).truth
    st.session_state["k"] = 2 if truth is None else truth.n_components


@st.cache_resource(show_spinner="Reading the sample…")
def _sampled(name: str) -> Dataset:
    return load_sample(name)


def _upload() -> Dataset | None:
    file = st.file_uploader(
        "A table of numbers",
        type=["csv", "tsv", "txt", "parquet"],
        key="file",
        max_upload_size=_UPLOAD_MB,
        help="CSV or Parquet, one row a person. It stays in this session, on this machine.",
    )
    if file is None:
        st.caption("CSV or Parquet, one row a person. It stays in this session, on this machine.")
        return None
    content = file.getvalue()
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    names = _columns(digest, content)
    if not names:
        raise InvalidInput("no column holds numbers only: choose another file")
    chosen: Sequence[str] = st.multiselect(
        "Columns to use", names, default=names[: min(len(names), 5)], key=f"columns_{digest}"
    )
    if not chosen:
        st.info("Choose at least one column.")
        return None
    return _uploaded(digest, tuple(chosen), file.name, content)


# The content is left out of the cache key on purpose: the digest of all of it stands for it.
# A key made from a sample of the content would return stale rows after a small change.


@st.cache_data(max_entries=4, show_spinner="Reading the file…", scope="session")
def _columns(digest: str, _content: bytes) -> tuple[str, ...]:  # noqa: ARG001 - the cache key
    return numeric_columns(_content)


@st.cache_resource(max_entries=2, show_spinner="Reading the file…", scope="session")
def _uploaded(digest: str, columns: tuple[str, ...], name: str, _content: bytes) -> Dataset:  # noqa: ARG001 - the cache key
    return load_table(_content, columns=columns, name=name)
