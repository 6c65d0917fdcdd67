"""The estimator: scikit-learn's own checks, releases, refusals, and what may leave the process."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import polars
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import _safe_indexing
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data

from privgmm import (
    EM,
    InvalidInput,
    MemoryLedger,
    Mixture,
    ReleaseRefused,
    dist_gmm,
    verify_receipt,
)
from privgmm.arrays import Array
from privgmm.data.rows import row_source
from privgmm.errors import SuspectColumn
from privgmm.estimator import PrivateGaussianMixture
from privgmm.records.receipt import make_receipt
from privgmm.stages.agreement.stage import Agreement, AgreementView

TRUTH = Mixture([0.4, 0.6], [[-4.0], [4.0]], [[[1.0]], [[2.0]]])
USES = ("predict", "predict_proba", "score_samples", "score", "bic", "aic")


def make(n_components: int = 2, **changes: Any) -> Any:
    options: dict[str, Any] = {
        "epsilon": 8.0,
        "delta": 1e-5,
        "mask_accuracy": 1.0,
        "n_blocks": 100,
        "method": "lifted",
        "random_state": 0,
    }
    return PrivateGaussianMixture(n_components, **(options | changes))


@pytest.fixture(scope="module")
def rows() -> Array:
    return TRUTH.sample(25_000, rng=1)


@pytest.fixture(scope="module")
def fitted(rows: Array) -> Any:
    """Leave everything to the default, as most users would."""
    return PrivateGaussianMixture(2, epsilon=8.0, delta=1e-5, random_state=0).fit(rows)


# ------------------------------------------------------------------- scikit-learn's checks


class Enlarged(PrivateGaussianMixture):
    """Repeat every row many times, so that scikit-learn's tiny tables can be released."""

    releases = 0

    def fit(self, X: Any, y: Any = None) -> Enlarged:  # type: ignore[override]
        n = len(validate_data(self, X))
        if n > 1:
            X = _safe_indexing(X, np.tile(np.arange(n), 20_000 // n))
        super().fit(X)
        Enlarged.releases += int(self.released_)
        return self


ENLARGED = Enlarged(epsilon=8.0, delta=1e-3, mask_accuracy=2.0, n_blocks=60, method="lifted")


@pytest.mark.filterwarnings("ignore::privgmm.errors.ReleaseRefused")
@parametrize_with_checks([PrivateGaussianMixture(), ENLARGED])
def test_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_enlarged_tables_are_released() -> None:
    before = Enlarged.releases
    small = np.random.default_rng(0).normal(size=(20, 3))
    model = clone(ENLARGED).set_params(random_state=0).fit(small)
    assert model.released_
    assert Enlarged.releases == before + 1


# ------------------------------------------------------------------------------- releases


def test_releases_the_mixture(fitted: Any) -> None:
    assert fitted.released_
    assert fitted.reason_ == ""
    assert fitted.weights_.shape == (2,)
    assert fitted.means_.shape == (2, 1)
    assert fitted.covariances_.shape == (2, 1, 1)
    assert fitted.n_features_in_ == 1
    assert not hasattr(fitted, "feature_names_in_")
    assert dist_gmm(fitted.mixture_, TRUTH) < 0.1
    assert fitted.plan_.budget.covers(fitted.budget_)
    assert fitted.budget_.epsilon <= 8.0
    assert fitted.outcome_.result.mixture == fitted.mixture_


def test_agrees_with_the_mixture_class_of_scikit_learn(fitted: Any, rows: Array) -> None:
    """Compare with a second implementation, given the released parameters."""
    other = GaussianMixture(2)
    other.weights_, other.means_ = fitted.weights_, fitted.means_
    other.covariances_ = fitted.covariances_
    other.precisions_cholesky_ = fitted.precisions_cholesky_
    x = rows[:500]
    np.testing.assert_array_equal(fitted.predict(x), other.predict(x))
    np.testing.assert_allclose(fitted.predict_proba(x), other.predict_proba(x), atol=1e-12)
    np.testing.assert_allclose(fitted.score_samples(x), other.score_samples(x), rtol=1e-10)
    for name in ("score", "bic", "aic"):
        np.testing.assert_allclose(getattr(fitted, name)(x), getattr(other, name)(x), rtol=1e-10)


def test_precisions_are_those_of_scikit_learn() -> None:
    """Compare after one step of EM that starts at the released mixture and stays there."""
    truth = Mixture([1.0], [[1.0, 2.0, 3.0]], [[[4.0, 1.0, 0.5], [1.0, 2.0, 0.3], [0.5, 0.3, 1.0]]])
    x = truth.sample(12_000, rng=3)
    model = make(1, n_blocks=60, method="lifted").fit(x)
    inverse = np.linalg.inv(model.covariances_)
    np.testing.assert_allclose(model.precisions_, inverse, rtol=1e-9)
    other = GaussianMixture(1, precisions_init=inverse, means_init=model.means_)
    other._initialize(x, np.ones((len(x), 1)))
    np.testing.assert_allclose(model.precisions_cholesky_, other.precisions_cholesky_, rtol=1e-9)
    assert np.array_equal(model.precisions_cholesky_, np.triu(model.precisions_cholesky_))


SMALL: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-5, "random_state": 0, "max_components": 3}
"""Options for a quick choice among fits to a sketch."""


@pytest.fixture(scope="module")
def few() -> Array:
    return TRUTH.sample(6_000, rng=2)


def test_the_number_of_components_is_chosen(few: Array) -> None:
    """The choice is free after one sketch, and the record says what was chosen."""
    ledger = MemoryLedger()
    frame = pd.DataFrame(few, columns=["height"])
    model: Any = PrivateGaussianMixture("auto", **SMALL).fit(frame, ledger=ledger)
    assert len(ledger.entries) == 1
    assert model.n_components_ == 2
    assert model.means_.shape == (2, 1)
    assert dist_gmm(model.mixture_, TRUTH) < 0.1
    assert model.misfit_ < 5
    assert model.sketch_.columns == ("height",)
    chosen = model.sketch_.choose(3)
    assert chosen.mixture == model.mixture_ == model.outcome_.result.mixture
    assert chosen.standard_errors == model.standard_errors_
    receipt = make_receipt(model.outcome_.result)
    assert verify_receipt(receipt).intact
    assert len(receipt["mixture"]["weights"]) == 2
    assert model.choice_ == model.sketch_.choice(3)
    assert receipt["choice"] == model.choice_.to_dict()
    one: Any = PrivateGaussianMixture("auto", **(SMALL | {"max_components": 1})).fit(few)
    assert (one.n_components_, one.misfit_ > 5) == (1, True)


@pytest.mark.parametrize("covariance_type", ["full", "tied", "diag", "spherical"])
def test_covariance_types_are_those_of_scikit_learn(covariance_type: Any) -> None:
    """Compare shapes, densities, chances and parameter counts with a second implementation."""
    truth = Mixture([0.5, 0.5], [[-4.0, 0.0], [4.0, 1.0]], np.stack([np.eye(2)] * 2))
    x = truth.sample(8_000, rng=5)
    model: Any = PrivateGaussianMixture(2, covariance_type=covariance_type, **SMALL).fit(x)
    other = GaussianMixture(2, covariance_type=covariance_type).fit(x)
    for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
        assert getattr(model, name).shape == getattr(other, name).shape, name
        setattr(other, name, getattr(model, name))
    np.testing.assert_allclose(model.score_samples(x), other.score_samples(x), rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(x), other.predict_proba(x), atol=1e-9)
    assert model.bic(x) == pytest.approx(other.bic(x), rel=1e-9)
    assert dist_gmm(model.mixture_, truth) < 0.15


def test_what_needs_a_sketch_says_so(few: Array) -> None:
    for options in ({"n_components": "auto"}, {"n_components": 2, "covariance_type": "tied"}):
        for method in ("lifted", "tight", "paper"):
            model = PrivateGaussianMixture(**{**SMALL, **options, "method": method})
            with pytest.raises(InvalidInput, match=r"publishes no sketch to .*use method 'sketch'"):
                model.fit(few)
    plain = make(method="lifted").fit(TRUTH.sample(12_000, rng=1))
    assert plain.n_components_ == 2
    assert (plain.sketch_, plain.misfit_) == (None, None)


def test_with_many_columns_the_number_chosen_is_the_one_refined() -> None:
    """Beyond three columns a release refines its mixture; so does one that chose its size."""
    truth = Mixture([0.5, 0.5], [np.full(4, -2.0), np.full(4, 2.0)], np.stack([np.eye(4)] * 2))
    x = truth.sample(20_000, rng=5)
    chosen: Any = PrivateGaussianMixture("auto", **(SMALL | {"max_components": 2})).fit(x)
    assert chosen.n_components_ == 2
    assert dist_gmm(chosen.mixture_, truth) < 0.05
    # the sketch alone gives the coarser fit, and that is not what was released
    assert chosen.mixture_ != chosen.sketch_.fit(2).mixture


def test_the_number_is_chosen_for_the_covariance_type(few: Array) -> None:
    tied: Any = PrivateGaussianMixture("auto", covariance_type="tied", **SMALL).fit(few)
    assert tied.choice_ == tied.sketch_.choice(3, "tied")
    assert tied.mixture_ == tied.sketch_.choose(3, "tied").mixture
    assert verify_receipt(make_receipt(tied.outcome_.result)).intact


def test_standard_errors_are_those_of_the_release(few: Array) -> None:
    model: Any = PrivateGaussianMixture(2, method="sketch", **SMALL).fit(few)
    assert model.standard_errors_ == model.outcome_.result.standard_errors
    assert model.standard_errors_.means.shape == model.means_.shape
    off = np.abs(np.sort(model.means_[:, 0]) - [-4.0, 4.0])
    assert (off < 5 * model.standard_errors_.means.max()).all()
    other = pickle.loads(pickle.dumps(model))
    assert other.sketch_ == model.sketch_
    assert other.standard_errors_ == model.standard_errors_


def test_fit_predict_is_fit_and_predict(rows: Array) -> None:
    model = make()
    labels = model.fit_predict(rows)
    np.testing.assert_array_equal(labels, model.predict(rows))
    np.testing.assert_array_equal(labels, make().fit(rows).predict(rows))
    ledger = MemoryLedger()
    make().fit_predict(rows, ledger=ledger)
    assert len(ledger.entries) == 1
    with pytest.warns(ReleaseRefused), pytest.raises(ReleaseRefused, match="Nothing was spent"):
        make().fit_predict(rows[:150])


def test_samples_follow_the_release(fitted: Any) -> None:
    x, labels = fitted.sample(40_000)
    assert x.shape == (40_000, 1)
    assert labels.shape == (40_000,)
    for j, weight in enumerate(fitted.weights_):
        mine = x[labels == j, 0]
        assert abs(len(mine) / 40_000 - weight) < 4 * np.sqrt(weight * (1 - weight) / 40_000)
        error = np.sqrt(fitted.covariances_[j, 0, 0] / len(mine))
        assert abs(mine.mean() - fitted.means_[j, 0]) < 4 * error
    np.testing.assert_array_equal(x, fitted.sample(40_000)[0])
    with pytest.raises(InvalidInput, match="n_samples"):
        fitted.sample(0)


@pytest.mark.parametrize(
    "state", [3, np.random.RandomState(3), np.random.default_rng(3), np.random.RandomState]
)
def test_seeds_repeat_and_are_recorded(state: Any, rows: Array) -> None:
    if state is np.random.RandomState:
        with pytest.raises(InvalidInput, match="random_state"):
            make(random_state=state).fit(rows)
        return
    first = make(random_state=copy.deepcopy(state)).fit(rows)
    again = make(random_state=copy.deepcopy(state)).fit(rows)
    assert first.outcome_.result.seeded
    assert first.mixture_ == again.mixture_
    assert first.mixture_ != make(random_state=4).fit(rows).mixture_


def test_without_a_seed_noise_is_cryptographic(rows: Array) -> None:
    first, again = (make(random_state=None).fit(rows) for _ in range(2))
    assert not first.outcome_.result.seeded
    assert first.mixture_ != again.mixture_
    assert first.sample(3)[0].tolist() != first.sample(3)[0].tolist()


def test_threads_do_not_change_the_release(rows: Array) -> None:
    assert make(n_jobs=2).fit(rows).mixture_ == make().fit(rows).mixture_


def test_chosen_alpha_and_blocks_are_used(rows: Array) -> None:
    model = make(mask_accuracy=0.8, n_blocks=90).fit(rows)
    stage = model.plan_.stage(Agreement)
    assert (stage.mask_accuracy, stage.n_blocks) == (0.8, 90)
    assert model.plan_.stages == (stage,)
    half: Any = PrivateGaussianMixture(
        2,
        epsilon=8.0,
        delta=1e-5,
        mask_accuracy=0.8,
        method="lifted",
        random_state=0,
        learner=EM(2, n_restarts=2),
    ).fit(rows)
    assert half.plan_.stage(Agreement).mask_accuracy == 0.8
    assert half.plan_.stages == (half.plan_.stage(Agreement),)
    assert half.plan_.budget.covers(half.budget_)


def test_persons_with_many_rows(rows: Array) -> None:
    persons = np.arange(len(rows)) // 2
    model = make(n_blocks=60).fit(rows, groups=persons)
    assert model.released_
    used = model.outcome_.curator.view(AgreementView).positions.ravel()
    assert len(np.unique(persons[used])) == used.size
    with pytest.raises(InvalidInput, match="groups"):
        make().fit(rows, groups=persons[:-1])


# ------------------------------------------------------------------------------- refusals


def test_a_refusal_is_spent_and_says_what_would_help(rows: Array) -> None:
    ledger = MemoryLedger()
    model = make().fit(rows, ledger=ledger)
    one_hump = np.random.default_rng(0).normal(size=(25_000, 1))
    with pytest.warns(ReleaseRefused, match="may help"):
        model.fit(one_hump, ledger=ledger)
    assert not model.released_
    assert len(ledger.entries) == 2
    assert model.budget_ is not None
    assert not model.outcome_.released
    for name in (
        *("weights_", "means_", "covariances_", "mixture_"),
        *("precisions_", "precisions_cholesky_", "n_components_", "sketch_"),
        *("standard_errors_", "misfit_"),
    ):
        assert not hasattr(model, name)
    for name in (*USES, "sample"):
        assert not hasattr(model, name)
        assert hasattr(make(), name)
        assert callable(getattr(PrivateGaussianMixture, name))
    for name in USES:
        with pytest.raises(ReleaseRefused, match="More rows"):
            getattr(model, name)(one_hump[:3])
    with pytest.raises(ReleaseRefused, match="More rows"):
        model.sample()
    with pytest.raises(ReleaseRefused, match="More rows"):
        pickle.loads(pickle.dumps(model)).sample()


@pytest.mark.parametrize(
    ("changes", "n"),
    [
        ({"mask_accuracy": None, "n_blocks": None}, 300),
        ({"mask_accuracy": None, "n_blocks": None, "method": "tight"}, 25_000),
        ({"mask_accuracy": None, "n_blocks": None, "method": "paper"}, 25_000),
        ({"n_blocks": 5}, 25_000),
        ({}, 150),
    ],
)
def test_hopeless_plans_are_refused_before_anything_is_spent(
    changes: dict[str, Any], n: int, rows: Array
) -> None:
    ledger = MemoryLedger()
    model = make(**changes)
    with pytest.warns(ReleaseRefused, match="Nothing was spent"):
        model.fit(rows[:n], ledger=ledger)
    assert not model.released_
    assert model.budget_ is None
    assert model.outcome_ is None
    assert ledger.entries == ()
    with pytest.raises(ReleaseRefused, match="Nothing was spent"):
        model.predict(rows[:3])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_values_are_not_to_be_dropped(bad: float) -> None:
    rows = np.random.default_rng(0).normal(size=(50, 2))
    rows[7, 1] = bad
    with pytest.raises(InvalidInput, match="do not drop rows: how many there are is published"):
        make().fit(rows)


def test_weights_of_rows_are_refused_with_the_reason() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 2))
    ledger = MemoryLedger()
    with pytest.raises(InvalidInput, match="noise would have to grow with the largest weight"):
        make().fit(rows, sample_weight=np.ones(50), ledger=ledger)
    assert ledger.entries == ()
    with pytest.raises(TypeError, match="unexpected arguments: colour"):
        make().fit(rows, colour="red")


def test_no_weights_are_as_good_as_none() -> None:
    rows = np.random.default_rng(0).normal(size=(3000, 1))
    one, two = make(1).fit(rows, sample_weight=None), make(1).fit(rows)
    np.testing.assert_array_equal(one.means_, two.means_)


def test_nothing_works_before_fitting() -> None:
    with pytest.raises(NotFittedError):
        make().sample()


@pytest.mark.parametrize(
    "changes",
    [
        {"n_components": 0},
        {"n_components": 1.5},
        {"epsilon": 0},
        {"epsilon": float("nan")},
        {"epsilon": "much"},
        {"delta": 1.0},
        {"delta": -1e-6},
        {"mask_accuracy": -1},
        {"mask_accuracy": "small"},
        {"mask_accuracy": 2.0, "method": "tight"},
        {"n_blocks": 4},
        {"n_blocks": "many"},
        {"method": "best"},
        {"n_jobs": 0},
        {"n_jobs": "all"},
        {"learner": object()},
        {"learner": EM},
        {"learner": EM(3)},
        {"covariance_type": "round"},
        {"max_components": 0},
        {"random_state": "seed"},
        {"random_state": -1},
    ],
)
def test_bad_parameters_are_named_and_cost_nothing(changes: dict[str, Any], rows: Array) -> None:
    ledger = MemoryLedger()
    with pytest.raises(InvalidInput, match=next(iter(changes))):
        make(**changes).fit(rows, ledger=ledger)
    assert ledger.entries == ()


def test_how_many_components_are_taken_depends_on_the_columns() -> None:
    rows = np.random.default_rng(0).normal(size=(2_000, 2))
    ledger = MemoryLedger()
    with pytest.raises(InvalidInput, match=r"n_components must be at most 20 .* 1 column, got 21"):
        make(21, method="sketch", mask_accuracy=None, n_blocks=None).fit(rows[:, :1], ledger=ledger)
    with pytest.raises(InvalidInput, match=r"n_components must be at most 50 .* many minutes"):
        make(500, method="sketch", mask_accuracy=None, n_blocks=None).fit(rows, ledger=ledger)
    assert ledger.entries == ()
    plan = make(21, method="sketch")._plan(2_000, 2, "row")[0]
    assert plan is not None
    assert plan.n_components == 21


def test_a_constant_column_is_refused_and_the_hint_says_why() -> None:
    x = np.column_stack([TRUTH.sample(25_000, rng=0), np.ones(25_000)])
    model = make()
    with pytest.warns(ReleaseRefused):
        model.fit(x)
    assert "constant" in model.outcome_.curator.hint()


# ----------------------------------------------------------- what may leave the process


def contains(haystack: bytes, row: npt.NDArray[Any]) -> bool:
    return row.tobytes() in haystack


def test_pickles_and_copies_hold_no_rows(rows: Array) -> None:
    model = make().fit(rows)
    view = pickle.dumps(model.outcome_)
    assert contains(view, rows[:8]), "the curator's view does hold them: the search works"
    data = pickle.dumps(model)
    assert not any(contains(data, row) for row in rows[::50])
    assert len(data) < 20_000
    for other in (pickle.loads(data), copy.deepcopy(model)):
        assert not hasattr(other, "outcome_")
        assert other.mixture_ == model.mixture_
        np.testing.assert_array_equal(other.predict(rows[:9]), model.predict(rows[:9]))


def test_clones_are_unfitted_and_alike() -> None:
    model = make(learner=EM(2, n_restarts=3))
    other = clone(model)
    assert other.get_params() == model.get_params()
    assert not hasattr(other, "released_")


# -------------------------------------------------------------------------- other tables


def test_data_frames_and_pipelines(rows: Array) -> None:
    frame = pd.DataFrame(rows, columns=["height"])
    model = make().fit(frame)
    assert model.feature_names_in_.tolist() == ["height"]
    assert model.mixture_ == make().fit(rows).mixture_
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"height": "weight"}))
    pipe = make_pipeline(FunctionTransformer(np.negative), make()).fit(frame)
    assert dist_gmm(pipe[-1].mixture_, TRUTH.transformed([[-1.0]], [0.0])) < 0.3
    assert pipe.score(frame) == pytest.approx(pipe[-1].score(-frame))


def test_polars_frames(rows: Array) -> None:
    frame = polars.DataFrame({"height": rows[:, 0]})
    model = make().fit(frame)
    assert model.feature_names_in_.tolist() == ["height"]
    assert model.mixture_ == make().fit(rows).mixture_
    np.testing.assert_array_equal(model.predict(frame), model.predict(frame.to_pandas()))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename({"height": "weight"}))


def test_polars_groups(rows: Array) -> None:
    """Persons named by text in a column of the frame, as one would keep them."""
    frame = polars.DataFrame({"height": rows[:, 0]}).with_columns(
        person=polars.Series([f"p{i // 2}" for i in range(len(rows))])
    )
    options = {"n_blocks": 60}
    model = make(**options).fit(frame.select("height"), groups=frame["person"])
    assert model.released_
    assert model.outcome_.result.unit == "person"
    again = make(**options).fit(rows, groups=frame["person"].to_numpy())
    assert model.mixture_ == again.mixture_


def test_polars_through_a_pipeline_that_sets_its_output(rows: Array) -> None:
    frame = polars.DataFrame({"height": rows[:, 0]})
    scale = StandardScaler().set_output(transform="polars")
    pipe = make_pipeline(scale, make()).fit(frame)
    assert pipe[-1].feature_names_in_.tolist() == ["height"]
    plain = make_pipeline(StandardScaler(), make()).fit(rows)
    assert pipe[-1].mixture_ == plain[-1].mixture_
    assert pipe.score(frame) == pytest.approx(plain.score(rows))


def test_the_package_does_not_import_scikit_learn() -> None:
    code = "import sys, privgmm; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_fit_warns_at_the_line_of_the_caller() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make().fit(np.zeros((3, 1)))
    assert [w.filename for w in caught] == [__file__]
    with pytest.warns(ReleaseRefused) as warned, pytest.raises(ReleaseRefused):
        make().fit_predict(np.zeros((3, 1)))
    assert [w.filename for w in warned] == [__file__]


def test_the_first_person_as_a_header_is_refused(few: Array) -> None:
    """A file without names, read as one with names: they would be shown with the sketch."""
    frame = pd.DataFrame(few[1:], columns=[str(value) for value in few[0]])
    model = make(random_state=None)
    with pytest.raises(InvalidInput, match="may be the first row of data"):
        model.fit(frame)
    assert not hasattr(model, "feature_names_in_")
    assert not hasattr(model, "outcome_")


def test_identifiers_are_pointed_out_at_the_line_of_the_caller(few: Array) -> None:
    frame = pd.DataFrame({"id": few[:, 0]})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make(random_state=None).fit(frame, ledger=MemoryLedger())
    # whether it is released is another question
    (found,) = (one for one in caught if one.category is SuspectColumn)
    assert "column 'id'" in str(found.message)
    assert found.filename == __file__


def test_tables_in_files_and_persons_by_a_column(rows: Array, tmp_path: Path) -> None:
    frame = pd.DataFrame({"height": rows[:, 0], "who": [f"p{i // 2}" for i in range(len(rows))]})
    frame.to_parquet(tmp_path / "people.parquet", row_group_size=1_000)
    options = {"n_blocks": 60}
    plain = make(**options).fit(rows)
    stored = row_source(tmp_path / "people.parquet", ["height"], in_memory=False)
    assert make(**options).fit(stored).mixture_ == plain.mixture_
    in_memory = make(**options).fit(frame, groups="who")
    assert in_memory.feature_names_in_.tolist() == ["height"]
    assert in_memory.outcome_.result.unit == "person"
    from_file = make(**options).fit(tmp_path / "people.parquet", groups="who")
    assert from_file.n_features_in_ == 1
    assert from_file.mixture_ == in_memory.mixture_
    some = frame[["height"]]
    np.testing.assert_array_equal(from_file.predict(some), in_memory.predict(some))
    with pytest.raises(InvalidInput, match="no column 'whom'"):
        make(**options).fit(frame, groups="whom")


# ------------------------------------------------------------- what a release names in columns


def test_samples_hold_the_values_and_grids_that_the_release_names() -> None:
    rng = np.random.default_rng(3)
    hours = np.where(rng.random(40_000) < 0.4, 40.0, rng.normal(30.0, 8.0, 40_000))
    table = pd.DataFrame({"hours": hours, "age": np.rint(rng.normal(45.0, 9.0, 40_000))})
    model: Any = PrivateGaussianMixture(2, epsilon=4.0, random_state=0).fit(table)
    release = model.outcome_.result
    assert model.atoms_ == release.atoms
    assert model.steps_ == release.steps
    assert [(atom.column, atom.value) for atom in model.atoms_] == [("hours", 40.0)]
    drawn, labels = model.sample(20_000)
    assert (drawn["hours"] == 40.0).mean() == pytest.approx(0.4, abs=0.03)
    assert drawn["age"].dtype.kind == "i"
    assert len(labels) == 20_000
    # without the curator's view, and as an array
    read = pickle.loads(pickle.dumps(model)).set_output(transform="default")
    plain, _ = read.sample(20_000)
    np.testing.assert_array_equal(plain, drawn.to_numpy())


# --------------------------------------------------------------------------------- progress


def test_progress_is_printed_when_it_is_asked_for(
    rows: Array, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = make().fit(rows)
    assert capsys.readouterr().out == ""
    loud = make(verbose=True).fit(rows)
    lines = capsys.readouterr().out.splitlines()
    assert any("100 of 100 blocks" in line for line in lines)
    assert "\r" not in "".join(lines)
    assert loud.mixture_ == quiet.mixture_
