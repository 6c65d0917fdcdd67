"""An uploaded file: which of its columns to use, and what to do about their gaps.

What the page says of columns (gaps, constants, numbers of rows) depends on single cells, so it is
confidential. What a choice reveals to the public is said next to the choice.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from privgmm.dashboard.shared.chosen_data import ChosenData
from privgmm.data.datasets import Dataset, load_table
from privgmm.data.fingerprint import file_fingerprint
from privgmm.data.labels import Labels
from privgmm.data.source import count_groups
from privgmm.data.survey import FileColumn, rows_with_gaps, survey
from privgmm.data.tables import DROPPING, Layout, listed, read_labels
from privgmm.errors import InvalidInput
from privgmm.records.notebook import FileRows
from privgmm.teaching.format import all_of, escaped

__all__ = ["choose_upload", "usual_columns", "why_left_out"]

_UPLOAD_MB = 200
"""By convention, as Streamlit's own limit: a few million rows."""
_MAX_BYTES = _UPLOAD_MB * 2**20
_MOST_COLUMNS = 5
"""Columns used by default, by convention: more columns take many more rows."""
_FIRST_LINES: dict[str, bool | None] = {
    "Names in words": None,
    "Names, numbers allowed": True,
    "A row of data": False,
}
_SEPARATORS = {
    "What separates the names": None,
    "Comma": ",",
    "Semicolon": ";",
    "Tab": "\t",
    "Bar": "|",
}
_DECIMALS = {"As usual for the separator": None, "Point": ".", "Comma": ","}
_DIGESTS = "explore_digests"
_SEEDS = "explore_jitter_seeds"
_KEPT = "explore_upload"
_WHERE = "CSV or Parquet. It stays in this session, on this machine."
_ONE_ROW, _MANY_ROWS = "One row per person", "A column names the person"
_ONCE = 1.5
"""Rows with the most frequent value, above which it repeats: between one row and two."""
_WORKBOOKS = (".xlsx", ".xlsm", ".xls", ".ods", ".numbers")
"""Endings of spreadsheets: they hold sheets and formulas, and a CSV file holds one table."""


def choose_upload() -> ChosenData | None:
    """Show the details; return the chosen data, or None while there are none."""
    file = _file()
    if file is None:
        return None
    # Reading and hashing 200 MB takes longer than a rerun may: each upload has an id, so its
    # content is hashed once.
    digests: dict[str, str] = st.session_state.setdefault(_DIGESTS, {})
    if file.file_id not in digests:
        digests[file.file_id] = file_fingerprint(file.getvalue())
    digest = digests[file.file_id]
    if file.name.lower().endswith(_WORKBOOKS):
        raise InvalidInput(
            f"the file {file.name} is a workbook: open it in your spreadsheet program, save the "
            "sheet as CSV (File, Save as), and upload that"
        )
    layout = _layout(digest)
    columns = _survey(digest, layout, file)
    naming = _choose_persons(digest, columns)
    columns = tuple(column for column in columns if column.name != naming)
    # rows that are dropped would leave labels without their rows
    gappy = [column for column in columns if column.gappy] if naming is None else []
    drop = _choose_gaps(digest, gappy)
    chosen = _choose_columns(digest, columns, drop=drop)
    if not chosen:
        st.info("Choose at least one column.")
        return None
    whole = _choose_whole(digest, columns)
    _show_shape([column for column in columns if column.name in chosen], whole)
    jitter = tuple((column, 1.0) for column in whole if column in chosen)
    rows = FileRows(file.name, tuple(chosen), jitter, layout, _seed(digest), drop, naming)
    dataset = _uploaded(digest, rows, file)
    gone = rows_with_gaps([column for column in columns if column.name in chosen]) if drop else 0
    dropped = f", {gone:,} with gaps dropped" if gone else ""
    persons = None if naming is None else _persons(digest, layout, naming, file)
    n_persons = None if persons is None else count_groups(persons, dataset.n_rows)
    of_persons = "" if n_persons is None else f" of {n_persons:,} persons"
    st.caption(f"Read {dataset.n_rows:,} rows{of_persons}{dropped}: {dataset.reading}.")
    if naming is None:
        _show_repeats(columns, dataset.n_rows)
    preselected = list(chosen) == usual_columns(columns, drop=drop)
    return ChosenData(dataset, rows, digest, persons, n_persons, preselected)


def _file() -> UploadedFile | None:
    """Return the uploaded file, or the one from before."""
    file = st.file_uploader(
        "A table of numbers",
        type=["csv", "tsv", "txt", "parquet", "gz", *(end[1:] for end in _WORKBOOKS)],
        key="file",
        on_change=_forget,
        max_upload_size=_UPLOAD_MB,
        help=_WHERE,
    )
    if file is None:
        # Streamlit drops an upload when another page is shown; the session need not.
        kept = st.session_state.get(_KEPT)
        if not isinstance(kept, UploadedFile):
            st.caption(_WHERE)
            return None
        file = kept
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(f"In use: {escaped(file.name)}", width="stretch")
            st.button("Forget it", key="forget", on_click=_forget, type="tertiary")
    st.session_state[_KEPT] = file
    return file


def _choose_persons(digest: str, columns: Sequence[FileColumn]) -> str | None:
    """Ask whom the promise is for; return the column that names the person, if there is one."""
    named = [column.name for column in columns if column.numbers_rows]
    one = st.radio(
        "What is a row?",
        [_ONE_ROW, _MANY_ROWS],
        key=f"unit_{digest}",
        persist_state="session",
        help="The promise protects a row, or a person with all their rows. If a person may have "
        "several rows, it must know whose they are: otherwise each row is protected, not the "
        "person.",
    )
    if one == _ONE_ROW:
        return None
    names = [column.name for column in columns]
    return st.selectbox(
        "Column that names the person",
        names,
        index=names.index(named[0]) if named else 0,
        key=f"persons_{digest}",
        persist_state="session",
        help="It is not fitted and not published. How many persons there are is public.",
    )


def _show_repeats(columns: Sequence[FileColumn], n_rows: int) -> None:
    """Tell the curator of a column that may name persons with several rows."""
    repeated = [c.name for c in columns if c.numbers_rows and c.heap * n_rows > _ONCE]
    if repeated:
        st.warning(
            f"Values of {escaped(listed(repeated))} repeat: persons may have several rows. Then "
            f"choose “{_MANY_ROWS}” above, or each row is protected and not the person.",
            icon=":material/lock:",
        )


def _show_shape(columns: Sequence[FileColumn], whole: Sequence[str]) -> None:
    """Tell the curator of columns that Gaussians hardly fit, and what to do."""
    heaped = [c for c in columns if c.heaped and c.name not in whole]
    far = [c for c in columns if c.far_tailed]
    if not (heaped or far):
        return
    lines = [
        f"**{escaped(c.name)}**: one value fills {c.heap:.0%} of the rows. A component would stand "
        "on it. If values were rounded, choose the column under *Recorded in whole numbers*; if it "
        "stands for “none”, learn those rows apart."
        for c in heaped
    ]
    lines += [
        f"**{escaped(c.name)}**: one row in a hundred lies {c.tail:.0f} spreads or more from the "
        "middle, where a Gaussian has 2.6. Take its logarithm before you upload it, or cut it at "
        "limits that are known without looking."
        for c in far
    ]
    st.warning("\n\n".join(lines), icon=":material/lock:")
    st.caption("Seen in single cells, so for the curator only: not to be shared.")


def _choose_gaps(digest: str, gappy: Sequence[FileColumn]) -> bool:
    """Let the visitor drop rows with gaps, so that columns with gaps can be used."""
    if not gappy:
        return False
    count = rows_with_gaps(gappy)
    many = len(gappy) > 1
    drop = f"Drop {count:,} row{'s' * (count != 1)}"
    names = escaped(listed([column.name for column in gappy]))
    choice = st.radio(
        f"{names} {'have' if many else 'has'} gaps",
        ["Leave out", drop],
        captions=[
            "Which columns are used is published, so people may guess that this one has gaps."
            if not many
            else "Which columns are used is published, so people may guess that these have gaps.",
            f"{DROPPING[0].upper()}{DROPPING[1:]}.",
        ],
        key=f"gaps_{digest}",
        persist_state="session",
        help="Or fill gaps before you upload, by a rule that uses no other row: that reveals "
        "nothing.",
    )
    return choice == drop


def usual_columns(columns: Sequence[FileColumn], *, drop: bool) -> list[str]:
    """Return the default columns: at most five that can be used as they are.

    Parameters
    ----------
    columns : sequence of FileColumn
    drop : bool
        Whether rows with gaps are dropped, so that columns with gaps count too.
    """
    fit = [column.name for column in columns if column.clean or (drop and column.gappy)]
    return fit[:_MOST_COLUMNS]


def why_left_out(columns: Sequence[FileColumn]) -> list[str]:
    """Say why columns are not used by default, each reason with its columns."""
    reasons = (
        ("numbers rows or people", "number rows or people", [c for c in columns if c.numbers_rows]),
        (
            *("is always the same", "are always the same"),
            [c for c in columns if c.constant and not c.numbers_rows],
        ),
        (
            *("mixes numbers and words", "mix numbers and words"),
            [c for c in columns if c.kind == "mixed"],
        ),
        ("holds no numbers", "hold no numbers", [c for c in columns if c.kind == "text"]),
        ("is empty", "are empty", [c for c in columns if c.kind == "empty"]),
    )
    return [
        f"{listed([c.name for c in bad])} {one if len(bad) == 1 else many}"
        for one, many, bad in reasons
        if bad
    ]


def _choose_columns(digest: str, columns: Sequence[FileColumn], *, drop: bool) -> Sequence[str]:
    chosen: Sequence[str] = st.multiselect(
        "Columns to use",
        [column.name for column in columns if drop or not column.gappy],
        default=usual_columns(columns, drop=drop),
        key=f"columns_{digest}_{drop}",
        persist_state="session",
    )
    st.caption(
        "Columns without gaps or words were proposed here, because you see and confirm the choice; "
        "the receipt says so."
    )
    reasons = why_left_out(columns)
    if reasons:
        said = all_of(reasons)
        st.caption(
            f":material/lock: {escaped(f'{said[0].upper()}{said[1:]}')}. Such a column is taken "
            "only if you choose it."
        )
    if taken := [c.name for c in columns if c.numbers_rows and c.name in chosen]:
        st.warning(
            f"Column {escaped(listed(taken))} counts rows or persons. If nothing was measured "
            "there, take it out.",
            icon=":material/format_list_numbered:",
        )
    if taken := [c.name for c in columns if c.constant and c.name in chosen]:
        st.warning(
            f"Column {escaped(listed(taken))} is always the same: it has no spread to learn. Take "
            "it out.",
            icon=":material/horizontal_rule:",
        )
    return chosen


def _choose_whole(digest: str, columns: Sequence[FileColumn]) -> Sequence[str]:
    """Let the visitor name columns of whole numbers; columns that look so get a hint."""
    whole: Sequence[str] = st.multiselect(
        "Recorded in whole numbers",
        [column.name for column in columns],
        key=f"whole_{digest}",
        persist_state="session",
        placeholder="None",
        help="Minutes, ages, counts: fits of blocks chase such values and disagree. Fresh noise "
        "of up to one half undoes the rounding; it adds 1/12 to a variance and does not change the "
        "promise. Say what you know of how a column was recorded.",
    )
    seen = [column.name for column in columns if column.whole and not column.numbers_rows]
    if missed := [name for name in seen if name not in whole]:
        st.caption(
            f":material/lock: Only whole numbers in {escaped(listed(missed))}. If values were "
            "rounded when they were recorded, choose them here."
        )
    return whole


def _layout(digest: str) -> Layout:
    """Let the visitor say how a CSV file is written: single cells do not decide it."""
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
    """Draw the seed that undoes rounding: one per file and session, never shown.

    The cache may evict rows; with this seed they are read again as they were. Every row is a person
    here, so the seed would reveal nothing if it were known.
    """
    seeds: dict[str, int] = st.session_state.setdefault(_SEEDS, {})
    return seeds.setdefault(digest, secrets.randbits(64))


def _forget() -> None:
    """Forget the file when the visitor removes it."""
    st.session_state.pop(_KEPT, None)


# The cache key holds a digest of the whole file instead of the file: Streamlit hashes large files
# by sampling, and would return stale rows after a small change.


@st.cache_data(max_entries=4, show_spinner="Reading the file…", scope="session")
def _survey(digest: str, layout: Layout, _file: UploadedFile) -> tuple[FileColumn, ...]:  # noqa: ARG001 - the cache key
    """Describe the columns."""
    columns = survey(_file.getvalue(), layout=layout, max_bytes=_MAX_BYTES)
    if all(column.kind in ("text", "empty") for column in columns):
        names = listed([column.name for column in columns])
        raise InvalidInput(f"no column holds numbers; the file has {names}")
    return columns


@st.cache_resource(max_entries=2, show_spinner="Reading the file…", scope="session")
def _persons(
    digest: str,  # noqa: ARG001 - the cache key
    layout: Layout,
    column: str,
    _file: UploadedFile,
) -> Labels:
    return read_labels(_file.getvalue(), column, layout=layout, max_bytes=_MAX_BYTES)


@st.cache_resource(max_entries=2, show_spinner="Reading the file…", scope="session")
def _uploaded(
    digest: str,  # noqa: ARG001 - the cache key
    rows: FileRows,
    _file: UploadedFile,
) -> Dataset:
    return load_table(
        _file.getvalue(),
        columns=rows.columns,
        drop_gaps=rows.drop_gaps,
        jitter=dict(rows.jitter),
        rng=rows.seed,
        name=rows.path,
        max_bytes=_MAX_BYTES,
        **rows.layout.said,
    )
