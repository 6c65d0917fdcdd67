"""Random mixtures keep their promises; files are read right or refused with the reason."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privgmm.data.datasets import (
    GENERATORS,
    Dataset,
    generate,
    load_sample,
    load_table,
    numeric_columns,
    random_mixture,
    same_mean,
    sample_names,
    separation_of,
    well_separated,
    write_samples,
)
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture


@given(
    k=st.integers(2, 5),
    d=st.integers(2, 6),
    separation=st.floats(0.1, 50),
    condition=st.floats(1, 1e6),
    seed=st.integers(0, 10**6),
)
def test_random_mixture_meets_separation_and_condition(
    k: int, d: int, separation: float, condition: float, seed: int
) -> None:
    mixture = random_mixture(k, d, separation=separation, condition=condition, rng=seed)
    gaps = []
    for a in range(k):
        for b in range(a):
            average = (mixture.covariances[a] + mixture.covariances[b]) / 2
            gap = mixture.means[a] - mixture.means[b]
            gaps.append(np.sqrt(gap @ np.linalg.solve(average, gap)))
    assert min(gaps) == pytest.approx(separation, rel=1e-6)
    lengths = np.linalg.svd(mixture.cholesky, compute_uv=False)
    assert (lengths[:, 0] / lengths[:, -1]) ** 2 == pytest.approx(condition, rel=1e-6)


def test_separation_does_not_depend_on_the_frame() -> None:
    mixture = random_mixture(3, 4, separation=3.0, condition=100.0, rng=5)
    rng = np.random.default_rng(6)
    moved = mixture.transformed(rng.standard_normal((4, 4)), rng.standard_normal(4))
    assert separation_of(moved) == pytest.approx(3.0, rel=1e-9)
    assert separation_of(random_mixture(1, 2, rng=1)) == np.inf


def test_weights_and_growth() -> None:
    assert random_mixture(4, 2, rng=1).weights.tolist() == [0.25] * 4
    uneven = random_mixture(4, 2, weights="unequal", rng=1).weights
    assert uneven.min() >= 1 / 8
    assert np.ptp(uneven) > 0.01
    given_weights = random_mixture(2, 2, weights=[0.1, 0.9], rng=1).weights
    assert given_weights.tolist() == [0.1, 0.9]
    volumes = np.linalg.det(random_mixture(3, 2, growth=4.0, condition=3.0, rng=2).covariances)
    assert volumes[1:] / volumes[:-1] == pytest.approx(16.0)


@pytest.mark.parametrize("name", sorted(GENERATORS))
@pytest.mark.parametrize(("k", "d"), [(1, 1), (2, 1), (2, 2), (4, 5)])
def test_named_generators_work_in_every_shape(name: str, k: int, d: int) -> None:
    mixture = GENERATORS[name](k, d, rng=3)
    assert (mixture.n_components, mixture.n_features) == (k, d)
    assert mixture == GENERATORS[name](k, d, rng=3)


def test_same_mean_has_one_mean_and_different_shapes() -> None:
    mixture = same_mean(3, 2, rng=4)
    assert np.ptp(mixture.means, axis=0).tolist() == [0, 0]
    assert not np.allclose(mixture.covariances[0], mixture.covariances[1])


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_features": 1.5}, "n_features"),
        ({"separation": -1.0}, "separation"),
        ({"condition": 0.5}, "condition"),
        ({"n_features": 1, "condition": 2.0}, "condition"),
        ({"weights": "heavy"}, "weights"),
        ({"weights": [0.5, 0.2]}, "weights"),
        ({"growth": 0.0}, "growth"),
    ],
)
def test_random_mixture_refuses_nonsense(arguments: dict[str, object], names: str) -> None:
    full: dict[str, object] = {"n_components": 2, "n_features": 2, "rng": 1, **arguments}
    with pytest.raises(InvalidInput, match=names):
        random_mixture(**full)  # type: ignore[arg-type]  # wrong types are the point


def test_generate_follows_the_mixture() -> None:
    mixture = well_separated(rng=7)
    data = generate(mixture, 40_000, rng=8)
    mean = mixture.weights @ mixture.means
    second = np.einsum(
        "k,kij->ij",
        mixture.weights,
        mixture.covariances + np.einsum("ki,kj->kij", mixture.means, mixture.means),
    )
    spread = second - np.outer(mean, mean)
    width = 4 * np.sqrt(np.diag(spread) / data.n_rows)
    assert (np.abs(data.rows.mean(axis=0) - mean) < width).all()
    assert data.truth == mixture
    assert data == generate(mixture, 40_000, rng=8)


def test_dataset_is_read_only_and_its_fingerprint_sees_one_changed_number() -> None:
    rows = np.random.default_rng(9).standard_normal((60_000, 2))
    first = Dataset(rows)
    rows[30_000, 1] += 1e-9
    second = Dataset(rows)
    assert first.fingerprint != second.fingerprint
    assert first != second
    assert first.fingerprint != Dataset(first.rows, columns=("a", "b")).fingerprint
    with pytest.raises(ValueError, match="read-only"):
        first.rows[0, 0] = 1.0
    assert first.columns == ("x1", "x2")


def test_dataset_checks_its_parts() -> None:
    with pytest.raises(InvalidInput, match="columns"):
        Dataset(np.ones((3, 2)), columns=("only",))
    with pytest.raises(InvalidInput, match="truth"):
        Dataset(np.ones((3, 2)), truth=Mixture([1.0], [[0.0]], [[[1.0]]]))
    with pytest.raises(InvalidInput, match="rows"):
        Dataset(np.ones((0, 2)))


# Samples


@pytest.mark.parametrize("name", [n for n in sample_names() if n != "old_faithful"])
def test_samples_fit_their_stated_truth(name: str) -> None:
    """The average log-density under the truth equals minus the entropy, within 4 sigma."""
    data = load_sample(name)
    assert data.truth is not None
    stored = data.truth.log_density(data.rows)
    fresh = data.truth.log_density(data.truth.sample(data.n_rows, rng=11))
    width = 4 * np.sqrt((stored.var() + fresh.var()) / data.n_rows)
    assert abs(stored.mean() - fresh.mean()) < width
    labels = np.exp(data.truth.log_joint(data.rows) - stored[:, None])
    weight = data.truth.weights
    assert labels.mean(axis=0) == pytest.approx(weight, abs=4 * np.sqrt(0.25 / data.n_rows))


def test_samples_are_what_their_seeds_give(tmp_path: Path) -> None:
    written = write_samples(tmp_path)
    assert len(written) == 2 * (len(sample_names()) - 1)
    for path in written:
        if path.suffix == ".parquet":
            again = load_table(path)
            assert np.allclose(again.rows, load_sample(path.stem).rows, rtol=1e-6, atol=1e-6)


def test_old_faithful_is_the_classic_table() -> None:
    data = load_sample("old_faithful")
    assert data.rows.shape == (272, 2)
    assert data.columns == ("eruptions", "waiting")
    assert data.rows.mean(axis=0) == pytest.approx([3.4878, 70.897], abs=1e-3)
    assert data.truth is None


def test_unknown_sample_lists_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="old_faithful"):
        load_sample("iris")


# Files


@pytest.mark.parametrize(
    ("content", "columns", "rows"),
    [
        (b"a,b\n1,2\n3,4\n", ("a", "b"), [[1, 2], [3, 4]]),
        (b"\xef\xbb\xbfa,b\r\n1,2\r\n", ("a", "b"), [[1, 2]]),
        (b"a;b\n1,5;2\n3;4,25\n", ("a", "b"), [[1.5, 2], [3, 4.25]]),
        (b'"a, x";"b"\n"1,5";"2"\n', ("a, x", "b"), [[1.5, 2]]),
        (b"a|b\n1|2\n", ("a", "b"), [[1, 2]]),
        (b"a\n1\n3", ("a",), [[1], [3]]),
        ("größe;é\n1;2\n".encode("latin-1"), ("größe", "é"), [[1, 2]]),
        ("größe\té\n1\t2\n".encode("utf-16"), ("größe", "é"), [[1, 2]]),
        (b"a,a,\n1,2,3\n", ("a", "a (2)", "unnamed 3"), [[1, 2, 3]]),
    ],
)
def test_csv_of_many_origins(
    content: bytes, columns: tuple[str, ...], rows: list[list[float]]
) -> None:
    data = load_table(content)
    assert data.columns == columns
    assert data.rows.tolist() == rows


@pytest.mark.parametrize(
    ("content", "columns", "says"),
    [
        (b"", None, "empty"),
        (b" \n \n", None, "empty"),
        (b"a,b\n", None, "no rows of data"),
        (b"a,b\n1,2\n3\n", None, r"data row 2 \(line 3\) has 1 cells where 2 are expected"),
        (b"a,b\n1,2\n3,4,5\n", None, r"data row 2 \(line 3\) has 3 cells where 2 are expected"),
        (b"a,b\n1,7\n3,oak\n", ["b"], r"column 'b'.*data row 2 \(line 3\) holds 'oak'"),
        (b"a,b\n1,7\n3,oak\n", ["b", "c"], "no column 'c'; the file has 'a', 'b'"),
        (b"a,b\n1,7\n", ["b", "b"], "distinct"),
        (b"a,b\n1,7\n", [], "at least one"),
        (
            b"a,b\n1,\n3,NA\n4,inf\n5,1\n",
            ["b"],
            "3 missing or infinite values, in data rows 1, 2, 3",
        ),
        (b"a\nx\ny\n", None, "no numbers in column 'a'"),
        (b"when,v\n2020-01-01,3\n", None, "no numbers in column 'when'"),
        (b"a,b\n,1\n,2\n", ["a"], "'a' is empty"),
        (b"\x00\x01\x02", None, "binary"),
        (b"PK\x03\x04....", None, "spreadsheet"),
        (b"PAR1....", None, "damaged"),
    ],
)
def test_bad_files_are_refused_with_the_reason(
    content: bytes, columns: list[str] | None, says: str
) -> None:
    with pytest.raises(InvalidInput, match=says):
        load_table(content, columns=columns)


def test_bad_value_far_down_is_still_named() -> None:
    content = b"a,b\n" + b"1,2\n" * 400_000 + b"zap,2\n"
    for columns in (["a"], None):
        with pytest.raises(InvalidInput, match=r"data row 400,001 \(line 400,002\) holds 'zap'"):
            load_table(content, columns=columns)
    assert numeric_columns(content) == ("b",)
    assert "left out: a" in load_table(content, columns=["b"]).description


def test_paths(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no file"):
        load_table(tmp_path / "absent.csv")
    with pytest.raises(InvalidInput, match="not a file"):
        load_table(tmp_path)
    path = tmp_path / "people.csv"
    path.write_bytes(b"a,b\n1,2\n")
    assert load_table(str(path)).name == "people"
    with pytest.raises(InvalidInput, match="8 bytes and the limit is 7"):
        load_table(path, max_bytes=7)


def _parquet(**columns: object) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def test_parquet_round_trip_and_column_choice() -> None:
    values = np.random.default_rng(10).standard_normal((50, 2))
    content = _parquet(a=values[:, 0], name=["x"] * 50, b=values[:, 1], n=np.arange(50))
    assert numeric_columns(content) == ("a", "b", "n")
    data = load_table(content, columns=["b", "a"])
    assert np.array_equal(data.rows, values[:, ::-1])
    with pytest.raises(InvalidInput, match="no numbers in column 'name'"):
        load_table(content)
    with pytest.raises(InvalidInput, match="'name' must hold numbers, but data row 1 holds 'x'"):
        load_table(content, columns=["name"])
    with pytest.raises(InvalidInput, match="no column 'z'"):
        load_table(content, columns=["z"])
    with pytest.raises(InvalidInput, match="damaged"):
        load_table(content[: len(content) // 2] + content[-200:])


def test_parquet_missing_values_are_counted() -> None:
    with pytest.raises(InvalidInput, match="2 missing or infinite values, in data rows 2, 3"):
        load_table(_parquet(a=pa.array([1.0, None, float("nan"), 4.0])))


def test_parquet_bomb_is_refused_before_it_is_unpacked() -> None:
    """A constant column of 400 million rows packs into two megabytes."""
    schema = pa.schema([("a", pa.int8())])
    chunk = pa.table({"a": pa.array(np.zeros(4_000_000, np.int8))}, schema)
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, schema, compression="zstd") as writer:
        for _ in range(100):
            writer.write_table(chunk)
    assert len(buffer.getvalue()) < 2 * 10**6
    before = pa.total_allocated_bytes()
    with pytest.raises(InvalidInput, match=r"400,000,000 rows.*take a sample"):
        load_table(buffer.getvalue())
    assert pa.total_allocated_bytes() - before < 10**7


@pytest.mark.parametrize(("d", "shown"), [(1, 50_000), (2, 4_000)])
def test_thumbnail_spans_the_table_and_is_made_once(d: int, shown: int) -> None:
    data = Dataset(np.arange(60_000 * d, dtype=float).reshape(-1, d))
    assert data.thumbnail.shape == (shown, d)
    assert data.thumbnail is data.thumbnail
    assert np.array_equal(data.thumbnail[[0, -1]], data.rows[[0, -1]])
    few = Dataset(np.eye(3))
    assert few.thumbnail is few.rows
