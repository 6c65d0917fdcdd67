"""Green means good: what once got a green light although it was useless, and what deserves it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.datasets import load_iris

from privgmm.arrays import Array
from privgmm.dashboard.explore.verdict import of_release
from privgmm.dashboard.shared.chosen_data import ChosenData
from privgmm.dashboard.shared.state import Settings, Shown
from privgmm.data.datasets import Dataset
from privgmm.methods.planner import plan_for
from privgmm.methods.request import PlanRequest
from privgmm.records.notebook import DEFAULT_LEARNER, FileRows, GeneratedRows
from privgmm.releases import release
from privgmm.teaching.rehearsal import RehearsalSetup, rehearsed
from privgmm.teaching.verdict import Band, of_rehearsal


def _rehearsal(n_rows: int, epsilon: float, *, k: int = 2) -> Band:
    """Judge a rehearsal on two well separated groups."""
    rows = GeneratedRows("well_separated", 2, 2, n_rows, 1)
    request = PlanRequest(n_components=k, n_features=2, n_rows=n_rows, epsilon=epsilon)
    return of_rehearsal(rehearsed(RehearsalSetup(rows, request, DEFAULT_LEARNER, 0)), real=False)


def _release(rows: Array, k: int, epsilon: float) -> Band:
    """Judge a release of rows whose truth is not known."""
    data = Dataset(rows)
    request = PlanRequest(
        n_components=k, n_features=rows.shape[1], n_rows=len(rows), epsilon=epsilon
    )
    chosen = ChosenData(data, FileRows("own.csv", data.columns), "digest")
    outcome = release(rows, plan_for(request).plan, rng=1)
    return of_release(Shown(Settings("digest", "own", request, 1), chosen, outcome))


def _iris() -> Band:
    return _release(np.asarray(load_iris().data), 3, 8.0)


def _heavy_tails() -> Band:
    generator = np.random.default_rng(3)
    return _release(np.exp(1.6 * generator.standard_normal((6_000, 2))), 2, 1.0)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(lambda: _rehearsal(3_000, 0.2), id="3,000 rows at epsilon 0.2"),
        pytest.param(lambda: _rehearsal(700, 1.0), id="as few rows as release"),
        pytest.param(lambda: _rehearsal(3_000, 1.0, k=4), id="four groups asked, two are there"),
        pytest.param(_iris, id="150 irises"),
        pytest.param(_heavy_tails, id="heavy tails"),
    ],
)
@pytest.mark.filterwarnings("ignore::privgmm.errors.PrivacyWarning")
def test_what_is_useless_is_never_green(case: Callable[[], Band]) -> None:
    band = case()
    assert band.tone in ("fair", "no")
    assert band.what != "Useful"
    assert band.why or band.tone == "no"


def test_what_is_useful_is_green() -> None:
    band = _rehearsal(30_000, 1.0)
    assert (band.tone, band.what, band.why) == ("yes", "Useful", "")


def test_refusals_are_one_phrase_before_and_one_after() -> None:
    assert {_rehearsal(n, 0.1).what for n in (1_000, 2_000)} == {"Would be refused"}
