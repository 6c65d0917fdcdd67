"""What someone who knows pandas and scikit-learn types first: it works, or says what to do."""

from __future__ import annotations

import functools
import html
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privgmm
from privgmm import Refusal, Release, read_receipt, release, verify_receipt
from privgmm.errors import InvalidInput, ReleaseRefused

NAMES = ["age", "income"]


@functools.cache
def people() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    old = np.arange(6000) % 3 == 0
    return pd.DataFrame(
        {
            "age": np.where(old, rng.normal(70, 4, 6000), rng.normal(35, 6, 6000)),
            "income": rng.normal(np.where(old, 20, 50), 6.0),
        }
    )


@functools.cache
def made() -> privgmm.Outcome:
    return release(people(), epsilon=1, n_components=2, rng=1)


@functools.cache
def result() -> Release:
    found = made().result
    assert isinstance(found, Release)
    return found


@functools.cache
def refused() -> Refusal:
    """Rows of one value but for a hair: the histograms find no bin with enough rows."""
    rows = np.random.default_rng(0).standard_cauchy((700, 1)) ** 5
    found = release(rows, epsilon=0.9, n_components=1, rng=3).result
    assert isinstance(found, Refusal)
    return found


@functools.cache
def model() -> privgmm.PrivateGaussianMixture:
    return privgmm.PrivateGaussianMixture(2, random_state=1).fit(people())


# ------------------------------------------------------------------------------- one call


def test_one_call_is_the_two_careful_ones() -> None:
    plan = privgmm.best_plan(6000, epsilon=1, delta=1e-6, n_components=2, n_features=2)
    assert made().plan == plan
    assert release(people(), plan, rng=1).result == result()


def test_one_call_takes_persons_columns_and_an_open_number() -> None:
    table = people().assign(who=np.arange(6000) // 2)
    outcome = release(table, epsilon=2, n_components="auto", max_components=3, groups="who", rng=1)
    assert outcome.result.unit == "person"
    assert outcome.plan.request.n_rows == 3000
    assert outcome.result.columns == ("age", "income")
    one = release(table, columns=["age"], epsilon=1, n_components=2, rng=1)
    assert one.result.columns == ("age",)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "epsilon must be given"),
        ({"epsilon": 1}, "n_components must be given"),
        ({"epsilon": -1, "n_components": 2}, "epsilon must be positive"),
        ({"epsilon": 1, "n_components": "many"}, "n_components must be a whole number or 'auto'"),
        ({"epsilon": 1e-4, "n_components": 2}, "epsilon"),
        ({"epsilon": 1, "n_components": 2, "covariance_type": "round"}, "covariance_type"),
    ],
)
def test_one_call_says_what_is_missing_before_anything_is_spent(
    asked: dict[str, Any], said: str
) -> None:
    ledger = privgmm.MemoryLedger()
    with pytest.raises(InvalidInput, match=said):
        release(people(), **asked, ledger=ledger)
    assert not ledger.entries


def test_a_plan_and_a_budget_are_not_both_given() -> None:
    with pytest.raises(InvalidInput, match="plan and epsilon exclude each other"):
        release(people(), made().plan, epsilon=2)
    with pytest.raises(TypeError, match="unexpected arguments: n_component"):
        release(people(), epsilon=1, n_component=2)  # type: ignore[call-arg]  # the mistake


# -------------------------------------------------------------------------- names travel


def test_names_travel_from_the_frame_to_everything_that_is_published(tmp_path: Path) -> None:
    read = read_receipt(result().save(tmp_path / "receipt.json"))
    assert isinstance(read, Release)
    for found in (result(), read):
        assert found.columns == ("age", "income")
        assert found.mixture.columns == ("age", "income")
        assert found.sketch.columns == ("age", "income")
        assert found.sketch.fit(3).mixture.columns == ("age", "income")
        assert list(found.sample(2, rng=0).columns) == NAMES
        assert found.mixture.marginal("age").columns == ("age",)
        assert found.mixture.condition({"age": 40.0}).columns == ("income",)
    assert json.loads((tmp_path / "receipt.json").read_text())["columns"] == NAMES
    assert model().mixture_.columns == model().sketch_.columns == ("age", "income")


@pytest.mark.parametrize("X", [people().to_numpy(), [[1.0, 2.0]] * 2], ids=["array", "lists"])
def test_columns_of_an_array_are_numbered(X: Any) -> None:
    assert privgmm.row_source(X).columns == ("x1", "x2")


def test_every_frame_gives_the_same_release() -> None:
    table = people()
    frames: dict[str, Any] = {
        "polars": pl.DataFrame({name: table[name].to_numpy() for name in NAMES}),
        "pyarrow": pa.table({name: table[name].to_numpy() for name in NAMES}),
        "nullable": table.astype("Float64"),
        "arrow-backed": table.astype("float64[pyarrow]"),
    }
    frames["lazy"] = frames["polars"].lazy()
    for kind, frame in frames.items():
        found = release(frame, made().plan, rng=1).result
        assert found == result(), kind
        assert found.columns == ("age", "income"), kind
    line = release(table["age"], epsilon=1, n_components=2, rng=1)
    assert line.result.columns == ("age",)
    fitted = privgmm.PrivateGaussianMixture(2, random_state=1).fit(frames["lazy"])
    assert fitted.mixture_ == model().mixture_
    assert fitted.predict(frames["lazy"]).tolist() == model().predict(table).tolist()


DATES = pd.date_range("2024-01-01", periods=6000, freq="h")
WRONG: dict[str, tuple[Any, str]] = {
    "text": (
        people().assign(species="Adelie"),
        r"column 'species' must hold numbers only, and holds 'Adelie': leave .*\['age', 'income'\]",
    ),
    "dates": (people().assign(when=DATES), "column 'when' .*dates.* days since 2000-01-01"),
    "dates with a zone": (people().assign(when=DATES.tz_localize("UTC")), "'when' .*dates"),
    "durations": (people().assign(took=DATES - DATES[0]), "'took' .*dates or times"),
    "categories": (people().assign(kind=pd.Categorical([1, 2] * 3000)), "'kind' .*categories"),
    "polars dates": (pl.DataFrame({"when": DATES.to_numpy()}), "'when' .*dates"),
    "polars text": (pl.DataFrame({"species": ["Adelie"] * 9}), "'species'"),
    "missing": (people().assign(age=pd.array([pd.NA] * 6000, dtype="Int64")), "do not drop rows"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_columns_that_are_no_numbers_are_named(kind: str) -> None:
    table, said = WRONG[kind]
    with pytest.raises(InvalidInput, match=said):
        release(table, epsilon=1, n_components=2)
    with pytest.raises(InvalidInput, match=said):
        privgmm.PrivateGaussianMixture(2).fit(table)


def test_a_column_is_judged_by_its_type_and_never_by_its_cells() -> None:
    """One odd cell turns a release into an error, and never into another table."""
    whole = pd.DataFrame({"a": [1, 2, 3], "b": [1.0, 2.0, 3.0]}).astype(object)
    assert privgmm.row_source(whole).columns == ("a", "b")
    with pytest.raises(InvalidInput, match="'b'"):
        privgmm.row_source(whole.assign(b=[1.0, "x", 3.0]))


# -------------------------------------------------------------- objects show themselves


def test_prints_say_what_was_found_in_the_columns_names() -> None:
    for shown in (made(), result(), result().sketch.fit(2), result().mixture):
        said = str(shown)
        for word in ("age", "income", "mean", "standard deviation", "weight"):
            assert word in said
        assert "array(" not in said
    said = str(result())
    assert "ε = 0.9999" in said
    assert "may be shared" not in said
    assert "NOT differentially private" in said
    assert "±" in said
    assert str(result().misfit_in_words) in said
    assert "exp(1" in str(made().plan) or "exp(0.9" in str(made().plan)
    assert "6,000" in str(result().sketch)


def test_a_refusal_prints_its_reason() -> None:
    assert refused().reason in str(refused())
    assert str(refused()).startswith("Refused")


@pytest.mark.parametrize("name", ["mixture", "summary", "plot", "sample", "standard_errors"])
def test_what_a_refusal_lacks_says_why(name: str) -> None:
    with pytest.raises(ReleaseRefused, match="there is no mixture"):
        getattr(refused(), name)
    assert getattr(refused(), name, None) is None
    other = f"{name}s of none"
    with pytest.raises(AttributeError, match=f"no attribute '{other}'"):
        getattr(refused(), other)


def test_an_outcome_tabulates_and_draws_its_result() -> None:
    assert made().summary().equals(result().summary())
    assert made().plot() == result().plot()


def test_everything_shows_itself_in_a_notebook() -> None:
    odd = result().mixture.with_columns(["<b>", "income"])
    fit = result().sketch.with_columns(odd.columns).fit(2)
    for shown in (made(), result(), result().sketch, fit, odd, made().plan, refused()):
        said = shown._repr_html_()
        assert said.startswith("<div")
        assert "<b>," not in said
    assert html.escape("<b>") in odd._repr_html_()


def test_summaries_are_frames_of_the_published_numbers() -> None:
    table = result().summary()
    assert table.index.names == ["component", "column"]
    mixture, errors = result().mixture, result().standard_errors
    assert errors is not None
    assert table.loc[(2, "income"), "mean"] == mixture.means[1, 1]
    assert table.loc[(1, "age"), "standard deviation"] == mixture.covariances[0, 0, 0] ** 0.5
    assert table.loc[(1, "income"), "mean ±"] == errors.means[0, 1]
    np.testing.assert_array_equal(table["weight"].unstack()["age"], mixture.weights)
    assert model().summary().equals(table)
    assert list(mixture.summary().columns) == ["weight", "mean", "standard deviation"]
    assert "mean ±" in result().sketch.fit(3).summary()
    assert len(result().sketch.summary()) == 4


def test_plots_are_figures_with_the_names_of_columns() -> None:
    sketch = result().sketch
    for shown in (result(), result().mixture, sketch, sketch.fit(2), model()):
        figure = shown.plot()
        assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == tuple(NAMES)
        assert shown.plot(columns=["income", 0]).layout.xaxis.title.text == "income"
        assert shown.plot(columns="income").layout.xaxis.title.text == "income"
        with pytest.raises(InvalidInput, match="one or two different ones of age, income"):
            shown.plot(columns=["age", "shoe"])
    drawn = result().plot(rows=people())
    assert any("6,000" in str(trace.name) for trace in drawn.data)
    assert {trace.name for trace in result().mixture.plot().data} == {"mixture"}


# ------------------------------------------------------------------------------ receipts


def test_a_release_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    path = result().save(tmp_path / "receipt.json")
    for document in (path, str(path), path.read_text(), path.read_bytes()):
        assert verify_receipt(document).intact
        # errors are written with six digits
        assert read_receipt(document).to_dict() == result().to_dict()
    read = read_receipt(json.loads(path.read_text()))
    assert isinstance(read, Release)
    assert read.sketch == result().sketch
    assert str(read) == str(result())
    assert read.seeded


def test_a_refusal_comes_back_with_its_reason(tmp_path: Path) -> None:
    read = read_receipt(refused().save(tmp_path / "refusal.json"))
    assert isinstance(read, Refusal)
    assert read.reason == refused().reason
    assert str(read) == str(refused())


def test_a_file_is_not_replaced_unless_asked(tmp_path: Path) -> None:
    path = result().save(tmp_path / "receipt.json")
    before = path.read_bytes()
    with pytest.raises(InvalidInput, match=r"exists already.*overwrite=True"):
        refused().save(path)
    assert path.read_bytes() == before
    refused().save(path, overwrite=True)
    assert isinstance(read_receipt(path), Refusal)
    assert [file.name for file in tmp_path.iterdir()] == ["receipt.json"]


def test_an_edited_receipt_is_not_read(tmp_path: Path) -> None:
    path = result().save(tmp_path / "receipt.json")
    with pytest.raises(InvalidInput, match="does not verify"):
        read_receipt(path.read_text().replace('"seeded": true', '"seeded": false'))
    for missing in ("no-such-file.json", tmp_path / "no-such-file.json"):
        with pytest.raises(InvalidInput, match="there is no file"):
            read_receipt(missing)


# ------------------------------------------------------------------------ the estimator


def test_samples_are_frames_for_frames() -> None:
    rows, labels = model().sample(7)
    assert isinstance(rows, pd.DataFrame)
    assert list(rows.columns) == NAMES
    assert labels.shape == (7,)
    fitted = privgmm.PrivateGaussianMixture(2, random_state=1).fit(pl.from_pandas(people()))
    assert isinstance(fitted.sample(7)[0], pl.DataFrame)
    arrays = fitted.set_output(transform="default").sample(7)[0]
    np.testing.assert_array_equal(arrays, rows.to_numpy())
    assert isinstance(fitted.set_output(transform="pandas").sample(7)[0], pd.DataFrame)
    bare = privgmm.PrivateGaussianMixture(2, random_state=1).fit(people().to_numpy())
    assert isinstance(bare.sample(7)[0], np.ndarray)
    held = model().sample(50, whole=["age"], limits={"age": (40, None)})[0]
    assert held["age"].dtype == np.int64
    assert held["age"].min() == 40
    with pytest.raises(InvalidInput, match="transform"):
        model().set_output(transform="excel")


def test_what_a_refused_estimator_lacks_says_why() -> None:
    few = privgmm.PrivateGaussianMixture(2, random_state=0)
    with pytest.warns(ReleaseRefused):
        few.fit(people()[:20])
    for name in ("means_", "weights_", "sketch_", "plot", "summary", "predict"):
        assert not hasattr(few, name)
        with pytest.raises(ReleaseRefused, match="Nothing was spent"):
            getattr(few, name)
    with pytest.raises(AttributeError, match="no attribute 'mean_'"):
        few.mean_  # noqa: B018 - looking it up is the test
