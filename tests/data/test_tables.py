"""A table's shape does not depend on single cells; what was read is said, or refused."""

from __future__ import annotations

import csv
import gzip
import io
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privgmm.data.datasets import Dataset, load_table
from privgmm.data.fingerprint import file_fingerprint
from privgmm.data.identifiers import running_numbers
from privgmm.data.rows import FileSource, row_source
from privgmm.errors import InvalidInput, SuspectColumn

GOOD = [[1.5, 2.0, -3.0], [4.0, 5.25, 6.0], [7.0, 8.0, 1e5], [0.5, 0.25, 3.0]]
NAMES = ["height", "weight", "score"]


def written(rows: list[list[Any]], names: list[str] | None = NAMES, mark: str = ",") -> str:
    """A table as a careful program writes it."""
    out = io.StringIO()
    write = csv.writer(out, delimiter=mark, lineterminator="\n")
    write.writerows(rows if names is None else [names, *rows])
    return out.getvalue()


def read(content: str, **options: Any) -> Dataset | None:
    """The table, or None if it is refused."""
    try:
        return load_table(content.encode(), **options)
    except InvalidInput:
        return None


def same_shape(one: Dataset | None, other: Dataset | None, changed: int) -> None:
    """What the guarantee needs of two tables that differ in one row, if both are read at all."""
    if one is None or other is None:
        return
    assert one.columns == other.columns
    assert one.rows.shape == other.rows.shape
    assert one.reading == other.reading
    kept = np.arange(one.n_rows) != changed
    np.testing.assert_array_equal(one.rows[kept], other.rows[kept])


cells = st.one_of(
    st.sampled_from(["", "x", "NA", "nan", "inf", "1,5", "1.5", "-", '"', '"x', "1e999", "true"]),
    st.sampled_from(["2020-01-01", "0x10", "1;2", "1\t2", "1|2", " ", "1 000", "é", "١", "+7"]),
    st.text("0123456789.,;|\t-+eEnaif\"' x", max_size=12),
)


@settings(max_examples=300)
@given(
    cell=cells,
    row=st.integers(0, 3),
    column=st.integers(0, 2),
    mark=st.sampled_from(",;\t|"),
    named=st.booleans(),
    careful=st.booleans(),
    chosen=st.booleans(),
)
def test_one_cell_never_changes_the_shape_of_a_table(
    cell: str, row: int, column: int, mark: str, named: bool, careful: bool, chosen: bool
) -> None:
    """One person may write anything: the other rows stay the same, or the table is refused."""
    rows: list[list[Any]] = [list(line) for line in GOOD]
    rows[row][column] = cell
    names = NAMES if named else None
    options: dict[str, Any] = {} if named else {"header": False, "separator": mark}
    if chosen:
        options["columns"] = ["weight", "height"] if named else ["column 2", "column 1"]
    before = read(written(GOOD, names, mark), **options)
    assert before is not None
    after = written(rows, names, mark)
    if not careful:
        lines = after.split("\n")
        lines[row + named] = mark.join(str(value) for value in rows[row])
        after = "\n".join(lines)
    same_shape(before, read(after, **options), row)


@settings(max_examples=200)
@given(line=st.text("0123456789.,;|\t-+eE\"' x", max_size=20), row=st.integers(0, 3))
def test_one_line_never_changes_the_shape_of_a_table(line: str, row: int) -> None:
    for names in (NAMES, None):
        content = written(GOOD, names)
        lines = content.split("\n")
        lines[row + (names is not None)] = line
        header = {} if names else {"header": False}
        same_shape(read(content, **header), read("\n".join(lines), **header), row)


def test_a_column_with_one_word_is_not_dropped() -> None:
    rows: list[list[Any]] = [[*line] for line in GOOD * 25]
    rows[30][1] = "n.a., see note"
    with pytest.raises(InvalidInput) as refusal:
        load_table(written(rows).encode())
    said = str(refusal.value)
    assert "column 'weight' mixes numbers and text" in said
    assert "data row 31 (line 32) holds 'n.a., see note'" in said
    # a caller who names columns decides: cells of other columns have no influence
    chosen = load_table(written(rows).encode(), columns=["height", "score"])
    assert chosen.rows.tolist() == [[a, c] for a, _, c in GOOD * 25]


def test_text_is_not_dropped_either() -> None:
    content = b"who,v,town\nann,3,x\nbob,4,y\n"
    with pytest.raises(InvalidInput, match=r"no numbers in columns 'who', 'town'.* 'v' for inst"):
        load_table(content)
    assert load_table(content, columns=["v"]).rows.tolist() == [[3], [4]]
    assert row_source(content, without=["who", "town"]).columns == ("v",)
    with pytest.raises(InvalidInput, match=r"'town': text only|'town'"):
        row_source(content, without=["who"])
    buffer = io.BytesIO()
    pq.write_table(pa.table({"who": ["ann", "bob"], "v": [3, 4]}), buffer)
    with pytest.raises(InvalidInput, match=r"no numbers in column 'who'"):
        load_table(buffer.getvalue())


def test_one_decimal_comma_is_no_other_table() -> None:
    """With it 'a' was a number and 'b' was not, without it the other way round."""
    points = "a;b\n" + "1.5;2\n" * 50
    for other in (points + "1,5;2\n", points + "1;2,5\n", points.replace(".", ",") + "1;2.5\n"):
        with pytest.raises(InvalidInput, match=r"points and commas are mixed: '.*' in column"):
            load_table(other.encode())
    assert load_table((points + "1;2\n").encode()).rows[:50].tolist() == [[1.5, 2.0]] * 50
    commas = load_table(points.replace(".", ",").encode())
    assert commas.rows.tolist() == [[1.5, 2.0]] * 50
    assert commas.reading == load_table(points.encode()).reading
    with pytest.raises(
        InvalidInput, match=r"data row 1 \(line 2\) holds '1,5' .another decimal sign"
    ):
        load_table(b"a;b\n1,5;2\n", decimal=".")
    assert load_table(b"a;b\n1,5;2\n", decimal=",").rows.tolist() == [[1.5, 2.0]]
    for cell in ("1_5", "\uff11\uff15", "1.5.2"):
        with pytest.raises(InvalidInput, match=r"column 'b' mixes numbers") as refused:
            load_table(f"a,b\n1,2\n1,{cell}\n".encode())
        assert "decimal" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "row"),
    [("a\n1\n\n3\n", "2"), ("a\n1\n2\n\n", "3"), ("a,b\n1,2\n\n3,4\n", "2"), ("a\n\n1\n", "1")],
)
def test_a_blank_line_is_a_row(content: str, row: str) -> None:
    with pytest.raises(InvalidInput, match=rf"1 missing .*data rows {row} \(data row 1 is line 2"):
        load_table(content.encode())


@pytest.mark.parametrize(
    "last", ['9,"x\n', '9,"x\n8,y\n7,z"\n', '9,"x"\n8,"y\n7,z\n'], ids=["open", "two lines", "late"]
)
def test_a_quote_swallows_no_rows(last: str) -> None:
    content = "a,b\n" + "1,ok\n" * 20 + last + "5,ok\n" * 20
    with pytest.raises(InvalidInput, match=r"lines of data and .* rows: a quote is not closed"):
        load_table(content.encode(), columns=["a"])


def test_names_do_not_depend_on_bytes_further_down() -> None:
    """One cell that is no UTF-8 made Latin-1 of all names."""
    plain = "größe,name\n1,Ann\n2,Bob\n".encode()
    odd = "größe,name\n1,Ann\n2,".encode() + "Zoë\n".encode("latin-1")
    for content in (plain, odd):
        data = load_table(content, columns=["größe"])
        assert data.rows.tolist() == [[1], [2]]
        assert data.reading is not None
        assert data.reading.encoding == "UTF-8"
    assert len(set(row_source(odd, ["größe"]).labels("name").tolist())) == 2


def test_numbers_are_read_cell_by_cell() -> None:
    """A large whole number, a hexadecimal one or a truth value changes no type of a column."""
    cells = ["1", "12345678901234567890", " 7 ", "+3", "1e3", ".5", "00012"]
    rows = load_table(("a\n" + "\n".join(cells) + "\n").encode()).rows
    assert rows[:, 0].tolist() == [float(cell) for cell in cells]
    for odd in ("0x10", "true", "1_000", "1 000", "2020-01-01"):
        with pytest.raises(InvalidInput, match="mixes numbers and text"):
            load_table(f"a\n1\n{odd}\n".encode())


def test_the_remedy_for_missing_values_does_not_drop_rows() -> None:
    for content in (b"a,b\n1,2\n,3\n", pd.DataFrame({"a": [1.0, np.nan], "b": [2.0, 3.0]})):
        with pytest.raises(InvalidInput) as refusal:
            row_source(content).rows()
        assert "do not drop rows" in str(refusal.value)
        assert "rule that looks at no other row" in str(refusal.value)


# Names


@pytest.mark.parametrize(
    "first", ["1.5,2", "x,2", "NA,abc", "1,x", "-3e5,y", "?,z", '"7",w', "nan,w", "N/A,2"]
)
def test_the_first_person_is_not_a_header(first: str) -> None:
    """Names are published, so a row that may be one is not taken for them."""
    content = f"{first}\n3,4\n5,6\n".encode()
    with pytest.raises(InvalidInput, match=r"may be the first row.*--no-header"):
        load_table(content)
    named = load_table(content, header=True)
    assert named.rows.tolist() == [[3, 4], [5, 6]]


def test_a_file_without_names() -> None:
    data = load_table(b"1,2\n3,4\n", header=False)
    assert (data.columns, data.rows.tolist()) == (("column 1", "column 2"), [[1, 2], [3, 4]])
    assert data.reading is not None
    assert data.reading.header is False
    # what separates cells is not guessed from persons
    with pytest.raises(InvalidInput, match="no numbers in column 'column 1'"):
        load_table(b"1;2\n3;4\n", header=False)
    assert load_table(b"1;2\n3;4\n", header=False, separator=";").rows.tolist() == [[1, 2], [3, 4]]


def test_names_that_run_on_are_refused() -> None:
    """An open quote would make names of all that follows."""
    with pytest.raises(InvalidInput, match="quote is not closed in the first line"):
        load_table(b'a,"b\n1,2\n3,4\n')


def test_a_row_read_as_names_elsewhere_is_noticed() -> None:
    frame = pd.read_csv(io.StringIO("3.6,79\n1.8,54\n3.3,74\n"))
    with pytest.raises(InvalidInput, match=r"'3.6', '79' may be the first row"):
        row_source(frame)
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    with pytest.raises(InvalidInput, match=r"'3.6', '79' may be the first row"):
        row_source(buffer.getvalue())
    assert row_source(pd.DataFrame(np.eye(3))).columns == ("0", "1", "2")
    assert row_source(pd.DataFrame({2019: [1.0], 2020: [2.0]})).columns == ("2019", "2020")
    assert row_source(pa.table([[1.0], [2.0]], names=["0", "1"])).columns == ("0", "1")


# How it is written, and what is said of it


def test_what_was_read_is_said() -> None:
    data = load_table("a;b\n1,5;2\n".encode("utf-16"))
    assert str(data.reading) == (
        "CSV with semicolons between cells, a decimal point or comma, names in the first line, "
        "UTF-16"
    )
    assert data.reading is not None
    assert data.reading.to_dict() == {
        "format": "CSV",
        "separator": ";",
        "decimal": ".,",
        "header": True,
        "encoding": "UTF-16",
    }
    assert str(load_table(b"1,2\n", header=False).reading) == (
        "CSV with commas between cells, a decimal point, no line of names"
    )
    source = row_source(b"a;b\n1,5;2\n", ["b"])
    assert source.reading == source.choose(["a"]).reading
    assert row_source(np.eye(2)).reading is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"separator": ""}, "separator must be one character"),
        ({"separator": ",,"}, "separator must be one character"),
        ({"separator": "x"}, "separator must be one character"),
        ({"separator": '"'}, "separator must be one character"),
        ({"decimal": "x"}, "decimal must be"),
        ({"decimal": ";", "separator": ";"}, "decimal must be"),
        ({"decimal": ",", "separator": ","}, "must differ"),
        ({"decimal": ","}, "cannot be the decimal sign too"),
        ({"header": "yes"}, "header must be True"),
    ],
)
def test_layouts_that_cannot_be(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        load_table(b"a,b\n1,2\n", **options)


def test_a_layout_is_for_csv() -> None:
    with pytest.raises(InvalidInput, match="header is for files"):
        row_source(np.eye(2), header=False)
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a": [1.0]}), buffer)
    with pytest.raises(InvalidInput, match="separator cannot be set for a Parquet file"):
        load_table(buffer.getvalue(), separator=";")


# Content


def test_packed_files_are_the_same_data(tmp_path: Path) -> None:
    content = written(GOOD).encode()
    buffer = io.BytesIO()
    pq.write_table(pa.table({"a": [1.0, 2.0]}), buffer)
    for plain in (content, buffer.getvalue()):
        path = tmp_path / "people.csv.gz"
        path.write_bytes(gzip.compress(plain))
        for packed in (path, path.read_bytes()):
            source = row_source(packed)
            assert isinstance(source, FileSource)
            np.testing.assert_array_equal(source.rows(), row_source(plain).rows())
            assert source.fingerprint == file_fingerprint(plain) == file_fingerprint(packed)
    with pytest.raises(InvalidInput, match="compressed file is damaged"):
        row_source(gzip.compress(content)[:-9])
    with pytest.raises(InvalidInput, match="compressed twice"):
        row_source(gzip.compress(gzip.compress(content)))


def test_a_packed_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(2 * 10**8), 1)
    assert len(bomb) < 10**6
    with pytest.raises(InvalidInput, match="unpacks to more than the limit of 1,000,000 bytes"):
        row_source(bomb, max_bytes=10**6)


def test_pipes_are_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        pipe.write_bytes(b"a,b\n1,2\n")

    threading.Thread(target=write, daemon=True).start()
    assert row_source(pipe).rows().tolist() == [[1, 2]]


# Columns that measure nothing


@pytest.mark.parametrize(
    "name", ["id", "ID", "user_id", "userId", "index", "", "Unnamed: 0", "row"]
)
def test_identifiers_are_pointed_out_by_their_names(name: str) -> None:
    content = f"{name},v\n7,1\n9,2\n".encode()
    with pytest.warns(SuspectColumn, match="looks like a number of rows or persons"):
        source = row_source(content)
    # a caller who names the column has decided, also by naming it as the column of persons
    called = source.columns[0]
    assert row_source(content, [called, "v"]).columns == (called, "v")
    assert row_source(content, without=[called]).columns == ("v",)
    with pytest.warns(SuspectColumn):
        row_source(pd.DataFrame({called: [1.0, 2.0], "v": [1.0, 2.0]}))


def test_running_numbers_are_found_by_their_values() -> None:
    rng = np.random.default_rng(0)
    n = 1_000
    columns = {
        "order": np.arange(n) + 5.0,
        "shuffled": rng.permutation(n) + 0.0,
        "whole": rng.integers(0, n, n).astype(float),
        "halves": np.arange(n) / 2,
        "normal": rng.normal(size=n),
    }
    rows = np.column_stack(list(columns.values()))
    assert running_numbers(rows, list(columns)) == ("order", "shuffled")
    assert running_numbers(rows[:5], list(columns)) == ()


@pytest.mark.parametrize("content", [b",,\n1,2,3\n", b" ; \n1;2\n", b'"",""\n1,2\n'])
def test_a_first_row_of_missing_values_is_no_line_of_names(content: bytes) -> None:
    """It would be left out for being empty, and with a number in it the file is refused."""
    for header in (None, True):
        with pytest.raises(InvalidInput, match=r"first line names no column.*--no-header"):
            load_table(content, header=header)
    with pytest.raises(InvalidInput, match=r"1 missing|data row 1 \(line 1\) holds ' '"):
        load_table(content, header=False, separator=";" if b";" in content else ",")
