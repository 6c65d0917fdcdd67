"""Ten thousand malformed inputs: a clear error of ours or an answer, and never a spend.

Whatever is read from outside goes through here: tables, receipts, plans, mixtures, and the command
line in front of them. Every stream of inputs is fixed by a seed.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privgmm.budget import Budget
from privgmm.cli.main import main
from privgmm.data.datasets import Dataset, load_table
from privgmm.data.fingerprint import file_fingerprint
from privgmm.data.rows import RowSource, row_source
from privgmm.data.tables import numeric_columns, read_labels
from privgmm.errors import InvalidInput, PrivGMMError, SuspectColumn
from privgmm.ledger.sqlite import SQLiteBook, SQLiteLedger
from privgmm.methods.plan import Plan
from privgmm.methods.planner import plan_for
from privgmm.methods.registry import names
from privgmm.methods.request import PlanRequest
from privgmm.mixture import Mixture
from privgmm.records.receipt import make_receipt, receipt_text, verify_receipt
from privgmm.releases import release
from tests.ledger.ledger_children import PLAN, ROWS
from tests.records.test_receipt import MIXTURE, PLANS, RECEIPT, RESULTS

COUNTS = {
    "csv": 2_000,
    "parquet": 2_000,
    "flipped": 2_000,
    "command": 500,
    "receipt text": 1_500,
    "receipt": 1_000,
    "forgery": 500,
    "document": 500,
    "plan": 500,
    "mixture": 1_000,
}


def test_they_are_ten_thousand() -> None:
    assert sum(COUNTS.values()) >= 10_000


# ------------------------------------------------------------------------------- bytes

SNIPPETS = (
    *(b",", b";", b"\t", b"|", b'"', b"'", b"\n", b"\r", b"\x00", b" ", b"-", b".", b"{", b"]"),
    *(b"1e999", b"nan", b"inf", b"NULL", b"9" * 400, b"\xff", b"\xfe\xff", b"\xef\xbb\xbf"),
    *(b"PAR1", b"PK\x03\x04", b"\x1f\x8b", b"\xed\xa0\x80"),
)


def mutated(content: bytes, others: list[bytes], rng: np.random.Generator) -> bytes:
    """Damage content one to four times: cut, torn, doubled, flipped, spliced."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        start = int(rng.integers(len(data) + 1))
        end = min(len(data), start + int(rng.geometric(0.2)))
        accident = int(rng.integers(7))
        if accident == 0:
            del data[start:end]
        elif accident == 1:
            data[start:start] = SNIPPETS[int(rng.integers(len(SNIPPETS)))]
        elif accident == 2:
            data[start:end] = rng.bytes(end - start)
        elif accident == 3:
            data[start:start] = data[start:end] * int(rng.integers(1, 50))
        elif accident == 4 and data:
            data[start % len(data)] ^= 1 << int(rng.integers(8))
        elif accident == 5:
            del data[start:]
        else:
            other = others[int(rng.integers(len(others)))]
            data[start:] = other[int(rng.integers(len(other))) :]
    return bytes(data)


def stream(name: str, sources: list[bytes]) -> Iterator[bytes]:
    rng = np.random.default_rng([ord(letter) for letter in name])
    for i in range(COUNTS[name]):
        yield mutated(sources[i % len(sources)], sources, rng)


CSV = [
    b"a,b\n1,2\n3,4.5\n-1e3,0\n",
    b"a;b\n1,5;2\n3;4,5\n",
    "größe\tb\n1\t2\n3\t4\n".encode(),
    "größe,b\n1,2\n".encode("latin-1"),
    "x,y\n1,2\n3,4\n".encode("utf-16"),
    b'"a, 1","b ""q"""\n"1",2\n3,"4"\n',
    b"1,2\n3,4\n5,6\n",
    b"a,b,c\n1,x,2020-01-01\n2,y,2020-01-02\n",
    b"a|b\r\n1|\r\n|2\r\n",
    b"\xef\xbb\xbfa,b\n1,nan\n2,inf\n",
]


def as_parquet(table: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, **options)
    return buffer.getvalue()


MANY_KINDS = pa.table(
    {
        "a": np.arange(30.0),
        "b": np.arange(30),
        "s": [str(i % 3) for i in range(30)],
        "n": pa.array([None, 1.0] * 15),
        "l": [[1, 2]] * 30,
    }
)
SMALL = as_parquet(pa.table({"a": [1.0, None], "s": ["x", "y"]}), compression="zstd")
PARQUET = [
    SMALL,
    as_parquet(MANY_KINDS, compression="none"),
    as_parquet(MANY_KINDS, compression="snappy"),
    as_parquet(MANY_KINDS, compression="zstd", use_dictionary=False),
    as_parquet(MANY_KINDS, compression="none", use_dictionary=False, row_group_size=7),
    as_parquet(MANY_KINDS, compression="gzip", data_page_version="2.0"),
    as_parquet(
        pa.table(
            {"d": pa.array([1, 2], pa.decimal128(5, 1)), "u": pa.array([2**64 - 1, 1], pa.uint64())}
        )
    ),
]
READERS: tuple[Callable[[bytes], object], ...] = (
    load_table,
    numeric_columns,
    lambda content: load_table(content, columns=["a"]),
    lambda content: read_labels(content, "s"),
    lambda content: read_labels(content, "l"),
    row_source,
)

LAYOUTS: tuple[Callable[[bytes], object], ...] = (
    lambda content: load_table(content, header=False),
    lambda content: load_table(content, header=True, separator=";", decimal=","),
)


def read_in_every_way(content: bytes) -> None:
    """Check that only our errors get out, and only tables of finite numbers get through."""
    for read in READERS + LAYOUTS:
        try:
            found = read(content)
        except (PrivGMMError, SuspectColumn):
            continue
        except Exception as problem:
            problem.add_note(f"reading {content!r}")
            raise
        if isinstance(found, Dataset):
            assert found.rows.size
            assert np.isfinite(found.rows).all()
        if isinstance(found, RowSource):
            assert found.rows().shape == (found.n_rows, found.n_features)
            assert np.isfinite(found.rows()).all()
            assert found.fingerprint == file_fingerprint(content)


def test_no_csv_breaks_the_reader() -> None:
    for content in stream("csv", CSV):
        read_in_every_way(content)


def test_no_parquet_breaks_the_reader() -> None:
    for content in stream("parquet", PARQUET):
        read_in_every_way(content)


def test_no_flipped_bit_of_a_parquet_footer_ends_the_process() -> None:
    """A single flipped bit did: pyarrow aborts on damaged statistics that are not needed."""
    for i in range(COUNTS["flipped"]):
        data = bytearray(SMALL)
        place = len(data) - 1 - i // 8 * len(data) * 8 // (COUNTS["flipped"] + 8)
        data[place] ^= 1 << i % 8
        read_in_every_way(bytes(data))


def test_several_columns_of_one_name_are_refused() -> None:
    twice = as_parquet(pa.table([[1.0], [2.0]], names=["a", "a"]))
    for read in READERS:
        with pytest.raises(InvalidInput, match="several columns have the name 'a'"):
            read(twice)


# ------------------------------------------------------------------------------- commands


def test_no_file_given_to_a_command_breaks_it_or_spends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, file = tmp_path / "ledger.sqlite", tmp_path / "people"
    monkeypatch.setenv("PRIVGMM_LEDGER", str(ledger))
    # there is something to lose: one honest spend, which must stay the only one
    release(ROWS, PLAN, rng=0, ledger=SQLiteLedger(None, file_fingerprint(CSV[0])))
    before = SQLiteBook(ledger).export()
    assert len(before) == 1
    sources = [*CSV, *PARQUET, receipt_text(RECEIPT).encode()]
    for content in stream("command", sources):
        file.write_bytes(content)
        for order in (["release", str(file), "--k", "2"], ["verify", str(file)]):
            code = main(order)
            said = capsys.readouterr().err
            assert code in (1, 2), content
            assert (code == 2) == said.startswith("privgmm: "), content
            assert "Traceback" not in said
    assert SQLiteBook(ledger).export() == before


# ------------------------------------------------------------------------------- documents

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.text(max_size=8)
    | st.sampled_from([10**400, -(10**400), 1e308, 5e-324, 0.0, -1, 1, 2, 300, "1", "\ud800"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=8,
)


def places(value: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the path to every value inside a JSON value."""
    if isinstance(value, dict):
        inner = [place for key, v in value.items() for place in places(v, (*before, key))]
    elif isinstance(value, list):
        inner = [place for i, v in enumerate(value) for place in places(v, (*before, i))]
    else:
        inner = []
    return [before, *inner] if before else inner


def with_changes(document: dict[str, Any], changes: list[tuple[tuple[Any, ...], Any]]) -> Any:
    changed = copy.deepcopy(document)
    for path, value in changes:
        inner: Any = changed
        # an earlier change may have cut off the way to this one
        with contextlib.suppress(KeyError, IndexError, TypeError):
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = value
    return changed


def mutations(document: dict[str, Any]) -> st.SearchStrategy[Any]:
    change = st.tuples(st.sampled_from(places(document)), VALUES)
    return st.lists(change, min_size=1, max_size=3).map(lambda c: with_changes(document, c))


def test_no_damaged_text_of_a_receipt_breaks_verification_or_passes() -> None:
    whole = [receipt_text(make_receipt(RESULTS[i])).encode() for i in (0, 3, 4, 6)]
    whole.append(receipt_text(RECEIPT).encode())
    for content in stream("receipt text", whole):
        # by accident the accidents may undo each other
        assert verify_receipt(content).ok == (content in whole)


@settings(max_examples=COUNTS["receipt"])
@given(st.one_of(*(mutations(make_receipt(RESULTS[i])) for i in (0, 3, 4, 6))))
def test_no_changed_receipt_breaks_verification(document: Any) -> None:
    found = verify_receipt(document)
    assert found.ok == (found.problems == ())


@settings(max_examples=COUNTS["forgery"])
@given(mutations(RECEIPT))
def test_no_forged_receipt_breaks_verification(document: Any) -> None:
    """Changed receipts get a valid hash, so that every check behind it is reached."""
    receipt = importlib.import_module("privgmm.records.receipt")
    try:
        content = {k: v for k, v in document.items() if k != "sha256"}
        forged = {**content, "sha256": receipt.digest(content)}
    except ValueError:  # NaN and infinity cannot be hashed, nor written
        forged = document
    found = verify_receipt(forged)
    if found.ok:
        plan = Plan.from_dict(forged["plan"])
        assert Budget.from_dict(forged["guarantee"]).covers(plan.spent())


@settings(max_examples=COUNTS["document"])
@given(st.binary(max_size=60) | st.text(max_size=60) | st.dictionaries(st.text(), VALUES))
def test_no_other_document_breaks_verification(document: Any) -> None:
    try:
        assert not verify_receipt(document).ok
    except InvalidInput:
        # short text without a brace is the path of a file, and there is none
        assert isinstance(document, str)
        assert not {"{", "\n"} & set(document)


@settings(max_examples=COUNTS["plan"])
@given(st.one_of(*(mutations(plan.to_dict()) for plan in PLANS), VALUES))
def test_reading_a_plan_raises_only_our_errors(document: Any) -> None:
    try:
        plan = Plan.from_dict(document)
    except InvalidInput:
        return
    assert Plan.from_dict(plan.to_dict()) == plan


@pytest.mark.parametrize("tau", [10.0, 22.0, 510.0, 1e150])
def test_a_plan_with_a_radius_too_wide_to_price_is_refused(tau: float) -> None:
    """Such a radius gave floats that overflow, in derived numbers and in prices."""
    asked = PlanRequest(n_components=2, n_features=2, n_rows=100_000, n_blocks=300)
    voting = [plan for plan in (*PLANS, plan_for(asked).plan) if "tau" in plan.to_dict()]
    assert {plan.method for plan in voting} == set(names())
    for plan in voting:
        with pytest.raises(InvalidInput, match=r"tau|reach|gamma"):
            Plan.from_dict(plan.to_dict() | {"tau": tau})


@settings(max_examples=COUNTS["mixture"])
@given(mutations(MIXTURE.to_dict()) | VALUES)
def test_reading_a_mixture_raises_only_our_errors(document: Any) -> None:
    try:
        mixture = Mixture.from_dict(document)
    except InvalidInput:
        return
    assert Mixture.from_dict(json.loads(json.dumps(mixture.to_dict()))) == mixture
