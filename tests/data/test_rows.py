"""Rows enter through one seam: every source gives the same rows, names, labels and fingerprint."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privgmm.arrays import Array, IntArray
from privgmm.data.datasets import load_sample, load_table, sample_names
from privgmm.data.fingerprint import content_fingerprint, file_fingerprint
from privgmm.data.rows import (
    FileSource,
    MemorySource,
    RowSource,
    SampleSource,
    checked_source,
    row_source,
)
from privgmm.data.source import checked_groups
from privgmm.errors import InvalidInput
from privgmm.ledger.memory import MemoryLedger
from privgmm.methods.planner import calibrate
from privgmm.releases import release

N = 9_000
ROWS: Array = np.random.default_rng(1).standard_normal((N, 2))
WHO = [f"p{i // 2 % 4_000}" for i in range(N)]
COLUMNS: dict[str, Any] = {"u": ROWS[:, 0], "who": WHO, "v": ROWS[:, 1]}
PLAN = calibrate(
    "lifted", epsilon=8.0, delta=1e-4, alpha=2.0, n_components=1, n_features=2, n_blocks=60
)


def parquet() -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(COLUMNS), buffer)
    return buffer.getvalue()


def comma_separated() -> bytes:
    lines = [f"{u!r},{who},{v!r}" for (u, v), who in zip(ROWS.tolist(), WHO, strict=True)]
    return "\n".join(["u,who,v", *lines]).encode()


MIXED: dict[str, Callable[[], Any]] = {
    "pandas": lambda: pd.DataFrame(COLUMNS),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "pyarrow": lambda: pa.table(COLUMNS),
    "CSV": comma_separated,
    "Parquet": parquet,
}
PLAIN: dict[str, Callable[[], Any]] = {
    "NumPy": lambda: ROWS,
    "column-major": lambda: np.asfortranarray(ROWS),
    "lists": ROWS.tolist,
    "objects": lambda: ROWS.astype(object),
    "pandas": lambda: pd.DataFrame(ROWS, columns=["x1", "x2"]),
    "polars": lambda: pl.DataFrame(ROWS, schema=["x1", "x2"]),
    "pyarrow": lambda: pa.table(list(ROWS.T), names=["x1", "x2"]),
}


def check_source(source: RowSource, rows: Array, columns: Sequence[str]) -> None:
    """What every source keeps to."""
    assert (source.n_rows, source.n_features) == rows.shape
    assert source.columns == tuple(columns)
    assert source.name
    given = source.rows()
    assert given.dtype == np.float64
    assert given.flags.c_contiguous
    np.testing.assert_array_equal(given, rows)
    for positions in ([], [0], [5, 3, 3, len(rows) - 1], np.arange(len(rows))):
        taken = source.take(np.asarray(positions, dtype=np.int64))
        np.testing.assert_array_equal(taken, rows[np.asarray(positions, dtype=np.int64)])
    for size in (77, len(rows), 10 * len(rows)):
        parts = list(source.chunks(size))
        assert all(0 < len(part) <= size for part in parts)
        np.testing.assert_array_equal(np.concatenate(parts), rows)
    assert source.fingerprint == source.fingerprint
    assert row_source(source) is source
    back = source.choose(source.columns[::-1])
    np.testing.assert_array_equal(back.rows(), rows[:, ::-1])
    assert back.rows().flags.c_contiguous
    assert back.columns == source.columns[::-1]
    with pytest.raises(InvalidInput, match=r"no column 'absent'.* distinct"):
        source.choose(["absent"])
    with pytest.raises(InvalidInput, match="distinct"):
        source.choose([source.columns[0]] * 2)
    with pytest.raises(InvalidInput, match="at least one"):
        source.choose([])


class Lazy(RowSource):
    """Reads from a file on the disk, as much as is asked for: what a folder of files would do."""

    def __init__(self, file: Any, columns: Sequence[str] = ("x1", "x2")) -> None:
        super().__init__(name="lazy", columns=columns, n_rows=N)
        self.file = file
        self.largest = 0

    @property
    def fingerprint(self) -> str:
        return "lazy"

    def take(self, positions: IntArray) -> Array:
        self.largest = max(self.largest, len(positions))
        places = [int(name[1:]) - 1 for name in self.columns]
        return np.ascontiguousarray(self.file[positions][:, places])

    def labels(self, column: str) -> IntArray:
        raise InvalidInput(f"no labels {column}")

    def choose(self, columns: Sequence[str]) -> Lazy:
        if missing := [name for name in columns if name not in ("x1", "x2")]:
            raise InvalidInput(f"there is no column {missing[0]!r}: choose distinct names")
        if not columns or len(set(columns)) != len(columns):
            raise InvalidInput("columns must be distinct, at least one")
        return Lazy(self.file, columns)


@pytest.mark.parametrize("make", PLAIN.values(), ids=PLAIN.keys())
def test_tables_in_memory(make: Callable[[], Any]) -> None:
    source = row_source(make())
    assert isinstance(source, MemorySource)
    check_source(source, ROWS, ("x1", "x2"))
    assert source.fingerprint == content_fingerprint(ROWS)


@pytest.mark.parametrize("make", MIXED.values(), ids=MIXED.keys())
def test_columns_are_chosen_and_persons_distinguished(make: Callable[[], Any]) -> None:
    table = make()
    source = row_source(table, ["v", "u"])
    check_source(source, ROWS[:, ::-1], ("v", "u"))
    labels = source.labels("who")
    assert labels.tolist() == WHO
    # other columns can be chosen later, and so can who
    assert source.choose(["u"]).labels("who").tolist() == labels.tolist()
    assert source.choose(["u"]).choose(["v"]).rows()[:, 0].tolist() == ROWS[:, 1].tolist()
    with pytest.raises(InvalidInput, match="no column 'whom'"):
        source.labels("whom")
    with pytest.raises(InvalidInput, match="numbers"):
        source.choose(["who"])


def test_an_array_can_say_who_too() -> None:
    table = np.column_stack([ROWS, np.arange(N) // 3])
    source = row_source(table, ["x1", "x2"])
    check_source(source, ROWS, ("x1", "x2"))
    assert source.labels("x3").tolist() == [f"{i // 3}" for i in range(N)]


@pytest.mark.parametrize(
    ("who", "words"),
    [
        (["a", None, "b"], "1 missing"),
        ([1.0, np.nan, np.nan], "2 missing"),
        ([[1], [2], [1]], "plain"),
        ([1, "a", 2.5], "plain"),
    ],
)
def test_labels_that_name_nobody_are_refused(who: Any, words: str) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "who": who})
    with pytest.raises(InvalidInput, match=words):
        row_source(frame, ["x"]).labels("who")


def test_lists_in_a_file_name_nobody() -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"x": [1.0, 2.0], "who": [[1], [2]]}), buffer)
    with pytest.raises(InvalidInput, match="'who' must hold plain values"):
        row_source(buffer.getvalue(), ["x"]).labels("who")


# Files


@pytest.mark.parametrize("make", [comma_separated, parquet])
def test_files_are_read_as_they_were_by_name_and_by_content(
    make: Callable[[], bytes], tmp_path: Path
) -> None:
    content, path = make(), tmp_path / "people.data"
    path.write_bytes(content)
    for named in (path, str(path), content):
        source = row_source(named, without=["who"])
        assert isinstance(source, FileSource)
        check_source(source, ROWS, ("u", "v"))
        assert source.columns == load_table(named, columns=["u", "v"]).columns
        assert source.fingerprint == file_fingerprint(content)
        # the people are the same for every choice of columns
        assert source.choose(["u"]).fingerprint == source.fingerprint
        assert row_source(named, ["v"]).fingerprint == source.fingerprint
    assert row_source(path, ["u"]).name == "people.data"


def test_a_file_that_changes_later_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(comma_separated())
    source = row_source(path, ["u"])
    path.write_text("u,who,v\n1,a,2\n3,b,4\n")
    assert source.n_rows == N
    assert source.fingerprint == file_fingerprint(comma_separated())
    assert len(source.labels("who")) == N
    path.unlink()
    # columns that had not been taken come from the same bytes
    np.testing.assert_array_equal(source.choose(["v"]).rows()[:, 0], ROWS[:, 1])
    assert source.choose(["v"]).fingerprint == file_fingerprint(comma_separated())


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("absent.csv", "no file 'absent.csv'"),
        (".", "which is not Parquet"),
        ("x" * 5000, "cannot read"),
        ("a\0b", "no file|cannot read"),
    ],
)
def test_paths_that_cannot_be_read(path: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        row_source(path)


def test_large_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(b"a,b\n1,2\n")
    for named in (path, b"a,b\n1,2\n"):
        with pytest.raises(InvalidInput, match="8 bytes and the limit is 7"):
            row_source(named, max_bytes=7)


@pytest.mark.parametrize("name", sample_names())
def test_samples(name: str) -> None:
    source, data = row_source(name), load_sample(name)
    assert isinstance(source, SampleSource)
    np.testing.assert_array_equal(source.rows(), data.rows)
    assert (source.columns, source.name) == (data.columns, name)
    assert source.fingerprint == f"sample {name}"
    part = source.choose(data.columns[:1])
    assert (part.columns, part.fingerprint) == (data.columns[:1], f"sample {name}")
    with pytest.raises(InvalidInput, match="who a row belongs to"):
        part.labels(data.columns[0])


def test_a_file_of_a_samples_name_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old_faithful").write_text("a,b\n1,2\n")
    source = row_source("old_faithful")
    assert source.rows().tolist() == [[1.0, 2.0]]
    assert source.fingerprint == file_fingerprint(b"a,b\n1,2\n")


# Through the seam


def test_reading_in_parts(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    lazy = Lazy(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    check_source(lazy, ROWS, ("x1", "x2"))
    narrow = Lazy(lazy.file)
    list(narrow.chunks(50))
    assert narrow.largest == 50


@pytest.mark.parametrize("kind", [*MIXED, "NumPy", "source", "lazy"])
def test_a_release_is_the_same_from_every_source(kind: str, tmp_path: Path) -> None:
    groups = np.arange(N) // 2
    expected = release(ROWS, PLAN, rng=7, groups=groups)
    assert expected.released
    np.save(tmp_path / "rows.npy", ROWS)
    lazy = Lazy(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    special: dict[str, Any] = {
        "NumPy": ROWS,
        "source": row_source(comma_separated(), ["u", "v"]),
        "lazy": lazy,
    }
    X = special[kind] if kind in special else row_source(MIXED[kind](), ["u", "v"])
    outcome = release(X, PLAN, rng=7, groups=groups)
    assert outcome.result == expected.result
    np.testing.assert_array_equal(outcome.curator.distances, expected.curator.distances)


def test_a_path_can_be_released_from(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    np.savetxt(path, ROWS, delimiter=",", header="u,v", comments="", fmt="%.17g")
    expected = release(ROWS, PLAN, rng=7)
    assert release(path, PLAN, rng=7).result == expected.result
    assert release(str(path), PLAN, rng=7).result == expected.result
    path.write_bytes(parquet())
    with pytest.raises(InvalidInput, match="no numbers in column 'who'"):
        release(path, PLAN, rng=7)


def test_bad_sources_cost_nothing() -> None:
    ledger = MemoryLedger()
    narrow = row_source(ROWS, ["x1"])
    for X in ("absent.csv", b"", b"a,b\n1,2\n1,nan\n", narrow, pd.DataFrame(COLUMNS)):
        with pytest.raises(InvalidInput):
            release(X, PLAN, rng=0, ledger=ledger)
    assert ledger.entries == ()


def test_checks() -> None:
    np.testing.assert_array_equal(checked_source(pd.DataFrame(ROWS), 2).rows(), ROWS)
    assert checked_source(ROWS, 2).rows() is ROWS, "what is fit for use is not copied"
    with pytest.raises(InvalidInput, match="2 columns, the plan is for 3: choose"):
        checked_source(ROWS, 3)
    # an error names the shape before the gaps: with other columns there may be none
    with pytest.raises(InvalidInput, match="2 columns"):
        checked_source(ROWS * np.nan, 3)
    gaps = ROWS.copy()
    gaps[[3, 8], 1] = np.inf
    with pytest.raises(InvalidInput, match=r"2 of 9000 rows .*first is row 3\)"):
        _ = row_source(gaps).fingerprint
    with pytest.raises(InvalidInput, match=r"groups must name one person per row: shape \(3,\)"):
        checked_groups([1, 2], 3)
