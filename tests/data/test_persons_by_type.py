"""One person is one person: labels are read by their type, never by what other labels hold."""

from __future__ import annotations

import datetime
import decimal
import io
import tempfile
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dask
import dask.dataframe
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privgmm.arrays import Array, IntArray
from privgmm.data import parts
from privgmm.data.engines import Threads
from privgmm.data.labels import label_texts
from privgmm.data.people import PersonSum, person_order
from privgmm.data.rows import row_source
from privgmm.errors import InvalidInput
from privgmm.ledger.memory import MemoryLedger
from privgmm.methods.planner import best_plan
from privgmm.privacy.noise import noise_source
from privgmm.releases import release

KEY = noise_source(5).key()


def table(labels: Any, first: float = 0) -> Any:
    """Rows (n, 1) and who they belong to."""
    return pa.table({"a": first + np.arange(float(len(labels))), "who": labels})


class Averages(PersonSum):
    """Adds up the rounded averages of persons."""

    def __call__(self, rows: Array, starts: IntArray) -> IntArray:
        averages = np.add.reduceat(rows, starts[:-1], axis=0) / np.diff(starts)[:, None]
        return np.asarray(np.rint(1e6 * averages).astype(np.int64).sum(axis=0))


# Where a table comes from. Each function gets the pieces of a table, in order.


def in_file(pieces: Sequence[Any], place: Path) -> Any:
    pq.write_table(pa.concat_tables(pieces), place / "one.parquet", row_group_size=3)
    return row_source(place / "one.parquet", ["a"], in_memory=False)


def in_memory(pieces: Sequence[Any], place: Path) -> Any:
    pq.write_table(pa.concat_tables(pieces), place / "one.parquet", row_group_size=3)
    return row_source(place / "one.parquet", ["a"], in_memory=True)


def in_arrow(pieces: Sequence[Any], place: Path) -> Any:
    assert place.is_dir()
    return row_source(pa.concat_tables(pieces), ["a"])


def in_folder(pieces: Sequence[Any], place: Path) -> Any:
    for i, piece in enumerate(pieces):
        pq.write_table(piece, place / f"{i}.parquet", row_group_size=3)
    return row_source(place, ["a"])


def in_dataset(pieces: Sequence[Any], place: Path) -> Any:
    for i, piece in enumerate(pieces):
        pq.write_table(piece, place / f"{i}.parquet", row_group_size=3)
    return row_source(pads.dataset(str(place), format="parquet"), ["a"])


def partitions(frames: Sequence[pd.DataFrame]) -> Any:
    with dask.config.set({"dataframe.convert-string": False}):
        return dask.dataframe.from_delayed(
            [dask.delayed(frame) for frame in frames], meta=frames[0], verify_meta=False
        )


def in_dask(pieces: Sequence[Any], place: Path) -> Any:
    assert place.is_dir()
    return row_source(
        partitions([one.to_pandas(types_mapper=pd.ArrowDtype) for one in pieces]), ["a"]
    )


Place = Callable[[Sequence[Any], Path], Any]
WHOLE = [in_file, in_memory, in_arrow, in_folder, in_dataset, in_dask]
MANY = [in_folder, in_dataset, in_dask]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_PART_ROWS", 3)
    monkeypatch.setattr(parts, "_BATCH_ROWS", 2)


def count(source: Any) -> int:
    """Count the persons that stages see."""
    people = source.people("who", KEY, Threads())
    try:
        assert len(people) == source.count_persons("who")
        return len(people)
    finally:
        people.close()


# ------------------------------------------------------------------------------ undecodable bytes

LATIN = [text.encode() for text in ("zoë", "bär", "ann", "bär", "zoë", "ann", "zoë")]


@pytest.mark.parametrize("place", WHOLE)
def test_one_undecodable_label_changes_no_other_person(place: Place, tmp_path: Path) -> None:
    """The neighbour of a table has one more row, of a person whose label is not UTF-8."""
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    plain = pa.array([*LATIN, b"new"], pa.binary())
    odd = pa.array([*LATIN, b"\xff"], pa.binary())
    sources = []
    for name, labels in (("one", plain), ("other", odd)):
        whole = table(labels)
        sources.append(place([whole.slice(0, 4), whole.slice(4)], tmp_path / name))
    one, other = (source.labels("who") for source in sources)
    assert one[:-1].tolist() == other[:-1].tolist()
    assert [count(source) for source in sources] == [4, 4]
    # the rows are those of the same persons, so sums over persons are the same
    totals = []
    for source in sources:
        people = source.people("who", KEY, Threads())
        totals.append(people.total(Averages()).tolist())
        people.close()
    assert totals[0] == totals[1]


def test_text_bytes_and_csv_are_the_same_persons() -> None:
    texts = ["zoë", "bär", "\x00", "a\x00", "a", "名"]
    encoded = [text.encode() for text in texts]
    kinds = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()]
    found = [label_texts(pa.array(encoded, pa.binary()).cast(kind)).tolist() for kind in kinds]
    found.append(label_texts(pa.array(texts, pa.string_view())).tolist())
    found.append(label_texts(texts).tolist())
    found.append(label_texts(encoded).tolist())
    found.append(label_texts(pd.Series(texts)).tolist())
    found.append(label_texts(pd.Categorical(texts)).tolist())
    found.append(label_texts(pa.array(texts).dictionary_encode()).tolist())
    assert all(one == found[0] for one in found)
    assert len(set(found[0])) == len(texts)
    lines = "a,who\n1,zoë\n2,bär\n".encode()
    assert row_source(lines, ["a"]).labels("who").tolist() == found[0][:2]


# ----------------------------------------------------------------------------- types that differ

DAY = datetime.date(2020, 2, 29)
MOMENT = datetime.datetime(2020, 2, 29)
LARGE = 10**15 + 2
KINDS: dict[str, tuple[Any, Any]] = {
    "milliseconds and microseconds": (
        pa.array([MOMENT], pa.timestamp("ms")),
        pa.array([MOMENT], pa.timestamp("us")),
    ),
    "date and timestamp": (pa.array([DAY], pa.date32()), pa.array([MOMENT], pa.timestamp("us"))),
    "time zones": (
        pa.array([MOMENT], pa.timestamp("us")),
        pa.array([MOMENT], pa.timestamp("us", "UTC")),
    ),
    "int and double": (pa.array([LARGE]), pa.array([float(LARGE)])),
    "float and double": (pa.array([0.1], pa.float32()), pa.array([0.1], pa.float64())),
    "text and bytes": (pa.array(["bär"], pa.string()), pa.array(["bär".encode()], pa.binary())),
    "text and dictionary": (pa.array(["bär"]), pa.array(["bär"]).dictionary_encode()),
    "int32 and uint64": (pa.array([7], pa.int32()), pa.array([7], pa.uint64())),
    "decimals": (
        pa.array([decimal.Decimal("1.5")], pa.decimal128(9, 1)),
        pa.array([decimal.Decimal("1.5")], pa.decimal128(9, 2)),
    ),
    "number and text": (pa.array([7]), pa.array(["7"])),
}
ONE_PERSON = {"text and bytes", "text and dictionary", "int32 and uint64"}


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("place", MANY)
def test_types_that_differ_are_one_person_or_an_error(
    place: Place, kinds: str, tmp_path: Path
) -> None:
    """The same label in two pieces of a table, written by two programs."""
    pieces = [table(labels, i) for i, labels in enumerate(KINDS[kinds])]
    if kinds == "number and text" and place is not in_dask:
        with pytest.raises(InvalidInput, match="all files of a table must agree"):
            place(pieces, tmp_path)
        return
    source = place(pieces, tmp_path)
    if kinds in ONE_PERSON:
        assert count(source) == 1
        return
    words = "groups must name a column of one type, but 'who'"
    with pytest.raises(InvalidInput, match=words):
        source.people("who", KEY, Threads())
    with pytest.raises(InvalidInput, match=words):
        source.count_persons("who")
    with pytest.raises(InvalidInput, match=words):
        source.labels("who")


def test_schemas_are_compared_before_any_row_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = in_folder([table(labels) for labels in KINDS["int and double"]], tmp_path)
    monkeypatch.setattr(parts.ParquetPart, "batches", lambda *_: pytest.fail("rows were read"))
    with pytest.raises(
        InvalidInput, match=r"whole numbers in .*0\.parquet.* double in .*1\.parquet"
    ):
        source.people("who", KEY, Threads())


def test_objects_in_partitions_must_be_of_one_type() -> None:
    """Arrow would make bytes of all texts beside a single bytes, and floats of all integers."""
    for pair in ([["7", "8"], [7, 8]], [["7", b"8"], ["7", "8"]], [[7, 8], [7, 0.5]]):
        frames = [
            pd.DataFrame({"a": [1.0, 2.0], "who": pd.Series(labels, dtype=object)})
            for labels in pair
        ]
        with pytest.raises(InvalidInput, match=r"of one type|of one kind"):
            count(row_source(partitions(frames), ["a"]))


def test_a_column_that_is_not_taken_may_hold_anything() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "who": [1, 2], "note": [{}, "x"]})
    assert count(row_source(partitions([frame, frame]), ["a"])) == 2


@pytest.mark.parametrize("place", MANY)
def test_nothing_is_spent_where_one_person_could_be_two(place: Place, tmp_path: Path) -> None:
    n = 3_000
    rows = np.random.default_rng(0).normal(size=n)
    halves = [
        pa.table({"a": rows[: n // 2], "who": np.arange(n // 2)}),
        pa.table({"a": rows[n // 2 :], "who": np.arange(n // 2, n).astype(np.float64)}),
    ]
    plan = best_plan(n, epsilon=4.0, delta=1e-6, n_components=1, n_features=1)
    ledger = MemoryLedger()
    with pytest.raises(InvalidInput, match=r"'who' holds whole numbers in .* and double in"):
        release(place(halves, tmp_path), plan, rng=0, groups="who", ledger=ledger)
    assert not ledger.history().entries


# ------------------------------------------------------------------------------------------- zeros


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
@pytest.mark.parametrize("place", WHOLE)
def test_both_zeros_are_one_person(place: Place, kind: Any, tmp_path: Path) -> None:
    whole = table(pa.array(np.array([0.0, -0.0, 1.0, -0.0]), pa.float64()).cast(kind))
    assert count(place([whole.slice(0, 1), whole.slice(1)], tmp_path)) == 2


def test_both_zeros_are_one_person_in_arrays() -> None:
    zeros = np.array([0.0, -0.0, 2.5])
    for labels in (zeros, zeros.astype(np.float32), zeros.tolist(), pd.Series(zeros)):
        assert label_texts(labels).tolist() == ["0", "0", "2.5"]


# -------------------------------------------------------------------------------- Python objects


def test_a_list_has_one_type_that_no_single_value_decides() -> None:
    """NumPy makes floats of all integers where one is a float, and texts where one is a text."""
    source = row_source(np.arange(6.0).reshape(3, 2))
    lists: list[Any] = [[LARGE * 100, LARGE * 100 + 1, 0.5], [1, "1", 2], ["a", b"a", "b"]]
    for labels in lists:
        with pytest.raises(InvalidInput, match="plain values of one kind"):
            source.people(labels, KEY, Threads())
    assert len(source.people([LARGE * 100, LARGE * 100 + 1, 5], KEY, Threads())) == 3


def test_objects_are_written_by_their_own_value() -> None:
    berlin = datetime.timezone(datetime.timedelta(hours=1))
    moment = datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC)
    equal: list[list[Any]] = [
        [2**70, 2**70],
        [decimal.Decimal("1.5"), decimal.Decimal("1.50")],
        [moment, moment.astimezone(berlin)],
        [uuid.UUID(int=3), uuid.UUID(int=3)],
        [DAY, DAY],
        [True, np.bool_(True)],
        ["\ud800", "\ud800"],
    ]
    for one, two in equal:
        first, second = label_texts(np.array([one, two], dtype=object)).tolist()
        assert first == second
    with pytest.raises(InvalidInput, match="time zone"):
        label_texts([MOMENT, moment])


def test_texts_that_end_in_zeros_are_two_persons_though_they_share_a_hash() -> None:
    labels = np.array(["a", "a\x00", "a", "a\x00"], dtype=object)
    order, starts = person_order(np.full(4, 7, dtype=np.uint64), labels, KEY)
    assert labels[order].tolist() in (["a", "a", "a\0", "a\0"], ["a\0", "a\0", "a", "a"])
    assert starts.tolist() == [0, 2, 4]


def test_a_missing_label_behind_a_dictionary_is_missing() -> None:
    labels = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array(["a", None]))
    with pytest.raises(InvalidInput, match="1 missing"):
        label_texts(labels)


def test_a_damaged_dictionary_is_an_error() -> None:
    for index in (1, -1):
        indices = pa.array([0, index], pa.int8())
        labels = pa.DictionaryArray.from_arrays(indices, pa.array(["a"]), safe=False)
        with pytest.raises(InvalidInput, match="outside of the dictionary"):
            label_texts(labels)


# ------------------------------------------------------------------------------------- a property

TYPES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (pa.binary(), st.binary(max_size=3)),
    (pa.string(), st.text(st.characters(codec="utf-8"), max_size=3)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.float32(), st.floats(allow_nan=False, width=32)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.timestamp("ns", "Europe/Paris"), st.integers(-(2**63), 2**63 - 1)),
    (pa.date32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.decimal128(12, 3), st.decimals(-(10**6), 10**6, places=3)),
    (pa.bool_(), st.booleans()),
]


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[Any, Any, list[Any]]:
    """Labels of a type, and the same with the last one replaced."""
    kind, values = draw(st.sampled_from(TYPES))
    held = draw(st.lists(values, min_size=2, max_size=12))
    other = [*held[:-1], draw(values)]
    return pa.array(held, kind), pa.array(other, kind), held


@settings(max_examples=150, deadline=None)
@given(neighbours(), st.integers(1, 5))
def test_equal_labels_are_one_person_whatever_the_others_are(
    case: tuple[Any, Any, list[Any]], step: int
) -> None:
    one, other, held = case
    texts = label_texts(one).tolist()
    # a text per value: as many, and equal where values are
    assert len(set(texts)) == len(set(held))
    assert len(set(zip(texts, held, strict=True))) == len(set(held))
    # neither a neighbour nor the place where a batch ends changes the others
    assert label_texts(other).tolist()[:-1] == texts[:-1]
    batches = [one.slice(i, step) for i in range(0, len(one), step)]
    assert [text for batch in batches for text in label_texts(batch)] == texts
    assert label_texts(pa.chunked_array(batches)).tolist() == texts
    # nor does a file
    buffer = io.BytesIO()
    pq.write_table(table(one), buffer)
    assert row_source(buffer.getvalue(), ["a"]).labels("who").tolist() == texts


def counted_and_summed(source: Any) -> tuple[int, int]:
    """Count persons, and add up their averages."""
    people = source.people("who", KEY, Threads())
    try:
        return len(people), int(people.total(Averages())[0])
    finally:
        people.close()


@st.composite
def replaced_persons(draw: st.DrawFn) -> tuple[Any, Any, list[bool], int, int]:
    """Labels of a type, the same with another person; whose rows these are, persons, and a cut."""
    kind, values = draw(st.sampled_from(TYPES))
    held = draw(st.lists(values, min_size=2, max_size=9))
    fresh = draw(values.filter(lambda value: value not in held))
    theirs = [one == held[-1] for one in held]
    other = [fresh if mine else one for one, mine in zip(held, theirs, strict=True)]
    cut = draw(st.integers(1, len(held) - 1))
    return pa.array(held, kind), pa.array(other, kind), theirs, len(set(held)), cut


@settings(max_examples=30, deadline=None)
@given(replaced_persons(), st.sampled_from(WHOLE))
def test_a_replaced_person_moves_sums_by_what_they_show_wherever_rows_lie(
    case: tuple[Any, Any, list[bool], int, int], place: Place
) -> None:
    """Persons are counted alike in files, folders, Dask and memory, and no other person moves."""
    labels, others, theirs, persons, cut = case
    mine = np.array(theirs)
    values = np.arange(float(len(mine))) ** 2
    found = []
    for column, rows in ((labels, values), (others, values + 7.5 * mine)):
        whole = pa.table({"a": rows, "who": column})
        with tempfile.TemporaryDirectory() as folder:
            pieces = [whole.slice(0, cut), whole.slice(cut)]
            found.append(counted_and_summed(place(pieces, Path(folder))))
    (before, first), (after, second) = found
    assert before == after == persons
    shown = [round(1e6 * float(rows[mine].mean())) for rows in (values, values + 7.5 * mine)]
    assert second - first == shown[1] - shown[0]
