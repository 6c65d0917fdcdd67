"""Five cases that once had a green light, or said nothing: none is called useful any more."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.datasets import load_iris

from privgmm import PlanRequest, PrivateGaussianMixture, Release, release
from privgmm.errors import InaccurateRelease, SeededRelease
from privgmm.methods.planner import usefulness_for
from privgmm.methods.usefulness import LESS_ACCURATE
from privgmm.methods.what_if import epsilon_for, rows_for
from privgmm.teaching.format import with_error

PLANE = PlanRequest(n_components=2, n_features=2)


def test_few_rows_at_a_small_epsilon() -> None:
    """Two groups, 3,000 rows, epsilon 0.2: an answer comes out, and it is off by 0.2 and more."""
    found = usefulness_for(PLANE.but(n_rows=3_000, epsilon=0.2))
    assert found.chance > 0.95
    assert found.answer == LESS_ACCURATE
    assert found.expected_error is not None
    assert found.expected_error.value > 0.15


def test_a_finer_alpha_asks_for_more_rows() -> None:
    rows = [rows_for(PLANE.but(alpha=alpha)) for alpha in (0.5, 0.2, 0.05)]
    assert rows == sorted(set(rows))
    assert rows[-1] > 5 * rows_for(PLANE)


def test_the_epsilon_for_many_rows_is_one_for_an_accurate_release() -> None:
    """It was 0.0042, at which an answer comes out that is worth nothing."""
    at_hand = PLANE.but(n_rows=100_000)
    any_answer = epsilon_for(at_hand)
    assert usefulness_for(at_hand.but(epsilon=any_answer)).answer == LESS_ACCURATE
    accurate = epsilon_for(at_hand.but(alpha=0.1))
    assert accurate > 1.5 * any_answer
    assert usefulness_for(at_hand.but(epsilon=accurate, alpha=0.1)).is_useful


def test_iris_warns() -> None:
    """150 rows in four columns: three means came out without a warning, one of them a unit off."""
    rows = load_iris().data
    model = PrivateGaussianMixture(3, epsilon=8.0, random_state=0)
    with pytest.warns(InaccurateRelease, match="not"), pytest.warns(SeededRelease):
        model.fit(rows)
    assert model.released_
    assert model.usefulness_.answer == LESS_ACCURATE


def test_heavy_tails_have_errors_that_are_not_known() -> None:
    """A table said "0.495 ± 20", and Look again rounded the weight to "0 ± 20"."""
    rng = np.random.default_rng(5)
    rows = np.round(np.exp(2 * rng.standard_normal((800, 2))), 1)
    result = release(rows, epsilon=1.0, n_components=3, rng=1).result
    assert isinstance(result, Release)
    assert result.usefulness().answer == LESS_ACCURATE
    table = result.summary()
    for name, size in (
        ("weight", table["weight"]),
        ("mean", table["standard deviation"]),
        ("standard deviation", table["standard deviation"]),
    ):
        if f"{name} ±" in table:
            off = table[f"{name} ±"]
            assert ((off < size) | off.isna()).all()
    assert with_error(0.495, math.nan) == "0.495 ± not known"


def test_the_warning_of_an_inaccurate_release_names_the_line_of_the_caller() -> None:
    rows = np.random.default_rng(0).normal(size=(300, 1))
    with pytest.warns(InaccurateRelease) as caught, pytest.warns(SeededRelease):
        PrivateGaussianMixture(2, epsilon=4.0, alpha=0.01, random_state=0).fit(rows)
    assert {found.filename for found in caught} == {__file__}
