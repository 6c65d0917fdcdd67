"""The survey of columns agrees between CSV and Parquet."""

from __future__ import annotations

import contextlib
import io
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privgmm.data import tables
from privgmm.data.datasets import load_table
from privgmm.data.rows import row_source
from privgmm.data.survey import FileColumn, rows_with_gaps, survey
from privgmm.data.tables import numbers_with_gaps, read_table
from privgmm.errors import InvalidInput
from privgmm.records.notebook import FileRows

NAN = float("nan")
VALUES = {
    "nr": [float(i + 5) for i in range(30)],
    "height": [NAN if i in (3, 7) else i * 0.5 for i in range(30)],
    "weight": [NAN if i in (7, 8) else i * 0.25 for i in range(30)],
    "flag": [1.0] * 30,
    "age": [float(i % 7) for i in range(30)],
}


def _csv() -> bytes:
    lines = zip(*VALUES.values(), strict=True)
    body = "\n".join(",".join("" if v != v else f"{v:g}" for v in line) for line in lines)
    return f"{','.join(VALUES)}\n{body}\n".encode()


def _parquet() -> bytes:
    buffer = io.BytesIO()
    table = pa.table({name: pa.array(v, from_pandas=True) for name, v in VALUES.items()})
    pq.write_table(table, buffer)
    return buffer.getvalue()


FILES = pytest.mark.parametrize("data", [_csv(), _parquet()], ids=["csv", "parquet"])


@FILES
def test_every_column_is_judged_by_itself(data: bytes) -> None:
    assert survey(data) == (
        FileColumn("nr", "numbers", numbers_rows=True, whole=True),
        FileColumn("height", "numbers", gaps=(3, 7)),
        FileColumn("weight", "numbers", gaps=(7, 8)),
        FileColumn("flag", "numbers", constant=True),
        FileColumn("age", "numbers", whole=True),
    )


@FILES
def test_gaps_are_counted_row_by_row(data: bytes) -> None:
    found = {column.name: column for column in survey(data)}
    both = [found["height"], found["weight"]]
    assert [rows_with_gaps([one]) for one in both] == [2, 2]
    assert rows_with_gaps(both) == 3
    assert [one.gappy for one in both] == [True, True]
    assert not any(found[name].gappy for name in ("nr", "flag", "age"))
    assert [name for name, column in found.items() if column.clean] == ["age"]


@FILES
def test_dropping_leaves_the_complete_rows_as_they_were(data: bytes) -> None:
    names = ["height", "age", "weight"]
    whole = numbers_with_gaps(data, names)
    kept = read_table(data, columns=names, drop_gaps=True).rows
    assert len(kept) == len(whole) - 3
    assert np.array_equal(kept, whole[np.isfinite(whole).all(axis=1)])
    # no row is dropped unasked, nor where the columns taken have no gap
    with pytest.raises(InvalidInput, match="2 missing"):
        read_table(data, columns=names)
    assert len(read_table(data, columns=["age"], drop_gaps=True).rows) == len(whole)


def test_a_run_that_drops_rows_is_written_down_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_bytes(_csv())
    rows = FileRows("people.csv", ("height", "age"), drop_gaps=True)
    names: dict[str, object] = {}
    exec(rows.code(), names)
    assert (
        names["data"]
        == rows.load()
        == load_table("people.csv", columns=["height", "age"], drop_gaps=True)
    )
    assert "drop_gaps" not in FileRows("people.csv", ("age",)).code()


def test_where_every_row_has_a_gap_nothing_is_read() -> None:
    with pytest.raises(InvalidInput, match="every row has a gap in one of 'a', 'b'"):
        read_table(b"a,b\n1,\n,2\n", drop_gaps=True)


def test_a_column_that_cannot_be_read_spoils_no_other() -> None:
    """Decimal points and commas mixed, in one of three columns."""
    found = survey(b"a;b;c\n1.5;1,5;7\n2.5;2.5;9\n")
    assert [(column.name, column.kind) for column in found] == [
        ("a", "numbers"),
        ("b", "mixed"),
        ("c", "numbers"),
    ]


@pytest.mark.parametrize("cell", ["", "7"])
def test_what_was_read_says_that_gaps_were_dropped(cell: str) -> None:
    """By what was asked for, whether or not there was a gap."""
    content = f"a,b\n1,2\n3,{cell}\n5,6\n".encode()
    assert read_table(content, drop_gaps=True).reading.to_dict()["gaps_dropped"] is True
    plain = read_table(b"a,b\n1,2\n3,4\n")
    assert "gaps_dropped" not in plain.reading.to_dict()


# Memory. A few bytes of Parquet may stand for gigabytes of equal numbers.


def _bomb(columns: int, rows: int = 1 << 20) -> bytes:
    """Many equal numbers in a small file."""
    same = pa.array(np.full(rows, 7, dtype=np.int8))
    buffer = io.BytesIO()
    pq.write_table(pa.table({f"c{j}": same for j in range(columns)}), buffer, use_dictionary=True)
    return buffer.getvalue()


@contextlib.contextmanager
def _peak() -> Iterator[list[int]]:
    """Measure the most memory that NumPy and Arrow hold at a time, in bytes."""
    found: list[int] = []
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        yield found
        found.append(tracemalloc.get_traced_memory()[1] + pool.max_memory())
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)


def test_a_table_refused_for_its_size_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each column alone would pass, and was kept: 5.6 GB of a file of 1.3 MB."""
    data = _bomb(32)
    assert len(data) < 150_000
    monkeypatch.setattr(tables, "MAX_UNPACKED", 32 * 2**23 - 1)
    with _peak() as found, pytest.raises(InvalidInput, match="would unpack to 268,435,456 bytes"):
        survey(data)
    assert found[0] < 4 * 2**20


def test_a_survey_holds_a_column_at_a_time() -> None:
    data = _bomb(32)
    with _peak() as found:
        columns = survey(data)
    assert [column.constant for column in columns] == [True] * 32
    # a column has 8 MiB, all have 256
    assert found[0] < 64 * 2**20


def test_a_label_that_repeats_takes_memory_once() -> None:
    """Decoded, the labels alone would take 1.6 GB."""
    rows = 16_384
    labels = pa.DictionaryArray.from_arrays(
        pa.array(np.arange(rows, dtype=np.int32) % 2), pa.array(["a" * 100_000, "b"])
    )
    buffer = io.BytesIO()
    pq.write_table(pa.table({"x": np.arange(rows), "who": labels}), buffer, store_schema=False)
    source = row_source(buffer.getvalue(), ["x"])
    with _peak() as found:
        assert source.count_persons("who") == 2
    assert found[0] < 4 * 2**20


def test_heaps_and_far_tails_are_seen() -> None:
    generator = np.random.default_rng(0)
    plain, heap = generator.standard_normal((2, 3_000))
    heap[:900] = 0.0
    table = np.column_stack([plain, heap, np.exp(1.7 * plain)])
    lines = [",".join(f"{cell:.6f}" for cell in row) for row in table]
    found = {one.name: one for one in survey("\n".join(["plain,heap,tail", *lines]).encode())}
    assert [name for name, one in found.items() if one.heaped] == ["heap"]
    assert found["heap"].heap == 0.3
    assert [name for name, one in found.items() if one.far_tailed] == ["tail"]
    assert 2.2 < found["plain"].tail < 3.0
