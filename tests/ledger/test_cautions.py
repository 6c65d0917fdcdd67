"""Common mistakes warn before noise is drawn, and only once."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from privgmm import MemoryLedger, PrivacyWarning, calibrate, errors, release
from privgmm.arrays import Array
from privgmm.budget import Budget, Unit, budget_warnings
from privgmm.errors import InaccurateRelease, RepeatedSpend, ScaledRows, SeededRelease, WeakBudget
from privgmm.estimator import PrivateGaussianMixture
from privgmm.ledger import cautions
from privgmm.ledger.process import ProcessAccount
from privgmm.privacy.composition import total
from privgmm.releases import prepare

PLAN = calibrate(
    "lifted", epsilon=2.0, delta=1e-6, alpha=2.0, n_components=1, n_features=1, n_blocks=100
)


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> ProcessAccount:
    """No other test has spent anything."""
    account = ProcessAccount()
    monkeypatch.setattr(cautions, "PROCESS", account)
    return account


@pytest.fixture(scope="module")
def rows() -> Array:
    return np.random.default_rng(1).normal(5.0, 2.0, size=(8_000, 1))


def make(**changes: Any) -> Any:
    options: dict[str, Any] = {
        "epsilon": 2.0,
        "mask_accuracy": 2.0,
        "n_blocks": 100,
        "method": "lifted",
    }
    return PrivateGaussianMixture(1, **(options | changes))


def told(act: Any) -> list[Warning]:
    """Return the warnings of an action, each at a line of this file or of scikit-learn.

    But for those of accuracy: the masks are coarse, so that few rows are released.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", InaccurateRelease)
        act()
    assert not any("privgmm/privgmm" in found.filename for found in caught)
    return [found.message for found in caught if isinstance(found.message, Warning)]


def kinds(act: Any) -> list[type]:
    return [type(warning) for warning in told(act)]


# ----------------------------------------------------------------------------------- seeds


@pytest.mark.parametrize("seed", [0, np.random.default_rng(3)])
def test_a_seed_warns_and_a_private_release_does_not(rows: Array, seed: Any) -> None:
    assert kinds(lambda: make(random_state=seed).fit(rows)) == [SeededRelease]
    assert kinds(lambda: make().fit(rows + 100)) == []
    assert kinds(lambda: release(rows + 200, PLAN, rng=seed)) == [SeededRelease]
    assert kinds(lambda: prepare(rows + 300, PLAN, rng=seed).draw()) == [SeededRelease]
    assert kinds(lambda: release(rows, PLAN, ledger=MemoryLedger())) == []


def test_the_warning_points_at_the_line_of_the_caller(
    rows: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    for act in (
        lambda: make(random_state=0).fit(rows),
        lambda: make(random_state=0).fit_predict(rows),
        lambda: release(rows, PLAN, rng=0),
    ):
        for kinds_warned in ({SeededRelease}, {SeededRelease, RepeatedSpend}):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                warnings.simplefilter("ignore", InaccurateRelease)
                act()
            assert {found.category for found in caught} == kinds_warned
            # the line of the call itself, not of the code that called that
            assert {found.lineno for found in caught} == {act.__code__.co_firstlineno}
            assert {found.filename for found in caught} == {__file__}
        monkeypatch.setattr(cautions, "PROCESS", ProcessAccount())


def test_seeded_survives_pickling_and_is_shown(rows: Array) -> None:
    seeded, private = make(random_state=7).fit(rows), make().fit(rows)
    assert (seeded.seeded_, private.seeded_) == (True, False)
    again = pickle.loads(pickle.dumps(seeded))
    assert again.seeded_
    assert "NOT differentially private" in repr(seeded)
    assert "NOT differentially private" in repr(again)
    assert "NOT differentially private" not in repr(private)
    assert "NOT differentially private" in repr(seeded.outcome_)
    assert "NOT differentially private" in seeded.outcome_._repr_html_()
    # a refit without a seed takes it back
    assert not seeded.set_params(random_state=None).fit(rows).seeded_


def test_warnings_as_errors_stop_a_release_before_its_noise(
    rows: Array, fresh_process: ProcessAccount
) -> None:
    ledger = MemoryLedger()
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        with pytest.raises(SeededRelease):
            release(rows, PLAN, rng=0, ledger=ledger)
        assert ledger.entries == ()
        make().fit(rows)
        with pytest.raises(RepeatedSpend):
            make().fit(rows)
    assert len(fresh_process.history(fresh_process.trace(rows)).entries) == 1


# ------------------------------------------------------------------------ outcomes, as shown


def test_outcomes_show_the_public_result_only(rows: Array) -> None:
    for data in (rows, np.random.default_rng(0).standard_cauchy((8_000, 1)) ** 5):
        outcome = release(data, PLAN, rng=3)
        fits = [float(value) for value in outcome.curator.fits.means.ravel()[:5]]
        secrets = ["CuratorView", "verdict", "votes", "drawn", *map(str, fits), *map(repr, fits)]
        html = outcome._repr_html_()
        assert html == outcome.result._repr_html_()
        for words in (repr(outcome), str(outcome), html):
            assert not any(secret in words for secret in secrets)
        assert "NOT differentially private" in repr(outcome)


# ---------------------------------------------------------------------- many fits, one budget


def test_every_fit_of_the_same_rows_counts(rows: Array) -> None:
    assert kinds(lambda: make().fit(rows)) == []
    for times in (2, 3):
        (warning,) = told(lambda: make().fit(rows[::-1]))
        assert isinstance(warning, RepeatedSpend)
        whole = total([PLAN.price()] * times)
        assert f"{times} spends, together {whole}" in str(warning)
        assert "planned in view of others" in str(warning)
    assert kinds(lambda: make().fit(rows + 50)) == []
    # a ledger keeps the account, so nobody need be reminded
    assert kinds(lambda: make().fit(rows, ledger=MemoryLedger())) == []
    assert kinds(lambda: release(rows, PLAN)) == [RepeatedSpend]


def test_a_cross_validation_is_found_out(rows: Array) -> None:
    found = told(lambda: cross_val_score(make(), rows, cv=3))
    assert [type(warning) for warning in found] == [RepeatedSpend] * 2
    assert f"3 spends, together {total([PLAN.price()] * 3)}" in str(found[-1])


def test_a_grid_search_is_found_out(rows: Array) -> None:
    search = GridSearchCV(make(), {"mask_accuracy": [2.0, 1.9]}, cv=2)
    found = [w for w in told(lambda: search.fit(rows)) if isinstance(w, RepeatedSpend)]
    # two folds have no row in common, so the first two fits are two data sets; all meet in the end
    assert "5 spends, together" in str(found[-1])


def test_very_many_fits_do_not_drown_the_reader(
    rows: Array, fresh_process: ProcessAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cautions, "_ALWAYS", 4)
    often = [bool(kinds(lambda: release(rows, PLAN))) for _ in range(9)]
    assert often == [False, True, True, True, False, False, False, True, False]
    assert len(fresh_process.history(fresh_process.trace(rows)).entries) == 9


# ---------------------------------------------------------------------------------- scalers


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler()])
def test_scalers_are_told_off(rows: Array, scaler: Any) -> None:
    table = np.column_stack([rows, rows**2])
    assert cautions.scaling(table) is None
    assert cautions.scaling(scaler.fit_transform(table)) is not None
    pipe = make_pipeline(scaler, make())
    assert kinds(lambda: pipe.fit(rows)) == [ScaledRows]


@pytest.mark.parametrize(
    "table",
    [
        np.random.default_rng(0).normal(size=(10_000, 2)),
        np.random.default_rng(0).uniform(size=(10_000, 2)),
        np.random.default_rng(0).integers(0, 2, size=(10_000, 1)).astype(float),
        np.full((100, 2), 1e308),
        np.zeros((3, 1)),
    ],
    ids=["normal", "uniform", "yes and no", "huge", "few"],
)
def test_rows_as_they_are_are_left_alone(table: Array) -> None:
    assert cautions.scaling(table) is None


# ------------------------------------------------------------------------------ weak budgets


def test_the_bounds_of_a_weak_budget() -> None:
    def weak(epsilon: float, delta: float, n: int, unit: Unit = "row") -> int:
        return len(budget_warnings(Budget(epsilon, delta), n, unit))

    assert weak(10.0, 1e-6, 999_999) == 0
    assert weak(10.1, 1e-6, 999_999) == 1
    assert weak(10.0, 1e-6, 1_000_000) == 1
    assert weak(11.0, 1e-3, 5_000, "person") == 2
    words = " ".join(budget_warnings(Budget(11.0, 1e-3), 5_000, "person"))
    assert "epsilon = 11" in words
    assert "1/5,000" in words
    assert "persons" in words


def test_weak_budgets_warn(rows: Array) -> None:
    assert kinds(lambda: make(epsilon=11.0).fit(rows)) == [WeakBudget]
    assert kinds(lambda: make(delta=1.3e-4).fit(rows + 50)) == [WeakBudget]
    # of 8,000 rows of 4,000 persons there are 4,000
    persons = np.arange(8_000) // 2
    assert kinds(lambda: make(delta=1.2e-4, n_blocks=80).fit(rows + 90)) == []
    assert WeakBudget in kinds(
        lambda: make(delta=2.6e-4, n_blocks=80).fit(rows + 130, groups=persons)
    )


def test_the_package_itself_is_not_warned() -> None:
    """The package's rooms show warnings in other ways: here one releases from generated rows."""
    code = compile("outcome = release(rows, plan, rng=0)", "film", "exec")
    names = {
        "__name__": "privgmm.dashboard.film.film_data",
        "release": release,
        "rows": np.random.default_rng(0).normal(size=(8_000, 1)),
        "plan": PLAN,
    }
    assert kinds(lambda: exec(code, names)) == []
    assert names["outcome"].result.seeded  # type: ignore[attr-defined]  # an Outcome


def test_all_of_them_are_offered() -> None:
    for kind in (SeededRelease, RepeatedSpend, ScaledRows, WeakBudget):
        assert issubclass(kind, PrivacyWarning)
        assert issubclass(kind, UserWarning)
        assert kind.__name__ in errors.__all__
