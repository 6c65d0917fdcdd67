"""Releases of tied, diagonal and spherical mixtures, and of a structure added at run time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

from privgmm import covariance_structures
from privgmm.arrays import Array
from privgmm.covariance_structures import CovarianceStructure, covariance_structure
from privgmm.errors import InvalidInput
from privgmm.estimator import PrivateGaussianMixture
from privgmm.methods.plan import Plan
from privgmm.methods.planner import plan_for
from privgmm.methods.request import PlanRequest
from privgmm.mixture import Mixture
from privgmm.records.receipt import make_receipt, verify_receipt
from privgmm.releases import Release, release
from privgmm.stages.sketch import structures
from privgmm.stages.sketch.structures import Structure

ROUND = Mixture([0.4, 0.6], [[-4.0, 0.0], [4.0, 0.0]], np.stack([np.eye(2)] * 2))
FOUR = Mixture([0.5, 0.5], [np.full(4, -2.0), np.full(4, 2.0)], np.stack([np.eye(4)] * 2))


def planned(truth: Mixture, n: int, **asked: Any) -> Plan:
    k, d = truth.means.shape
    usual = {"n_components": k, "n_features": d, "n_rows": n, "epsilon": 2.0}
    return plan_for(PlanRequest(**(usual | asked))).plan


def published(truth: Mixture, plan: Plan, n: int = 8_000) -> Release:
    result = release(truth.sample(n, rng=1), plan, rng=3).result
    assert isinstance(result, Release)
    return result


@pytest.mark.parametrize("kind", covariance_structures.structure_names())
def test_columns_that_are_combinations_of_others_end_in_a_release(kind: str) -> None:
    """Components are as flat as can be published then, and nothing fails after the noise."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3_000, 2)) @ rng.standard_normal((2, 3))
    request = PlanRequest(
        n_components=2, n_features=3, n_rows=3_000, epsilon=60.0, covariance_type=kind
    )
    result = release(rows, plan_for(request).plan, rng=0).result
    assert isinstance(result, Release)
    assert (np.diagonal(result.mixture.cholesky, axis1=1, axis2=2) > 0).all()


@pytest.mark.parametrize("kind", covariance_structures.structure_names())
@pytest.mark.parametrize("truth", [ROUND, FOUR], ids=["two columns", "four columns"])
def test_what_is_published_has_the_structure_that_was_asked_for(truth: Mixture, kind: str) -> None:
    """For the price of full covariances, and the receipt says which."""
    plan, full = planned(truth, 8_000, covariance_type=kind), planned(truth, 8_000)
    assert plan.spent() == full.spent()
    result = published(truth, plan)
    k, d = truth.means.shape
    structure = covariance_structure(kind)
    found = result.mixture.covariances
    rebuilt = structure.expanded(structure.reduced(found), k, d)
    np.testing.assert_array_equal(found, rebuilt)
    assert result.covariance_type == kind
    assert result.misfit is not None
    assert result.misfit < 5
    assert result.standard_errors is not None
    receipt = make_receipt(result)
    assert receipt["plan"]["request"]["covariance_type"] == kind
    assert verify_receipt(receipt).intact
    assert Plan.from_dict(plan.to_dict()) == plan


def test_structured_covariances_get_the_whole_account() -> None:
    """Where full ones would be refined, a second sketch of the same price is taken instead."""
    full = published(FOUR, planned(FOUR, 8_000))
    tied = published(FOUR, planned(FOUR, 8_000, covariance_type="tied"))
    assert full.sketch is not None
    assert tied.sketch is not None
    assert (tied.sketch.noise < full.sketch.noise).all()


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_the_estimator_shows_what_release_returns(kind: str) -> None:
    rows = ROUND.sample(8_000, rng=1)
    model: Any = PrivateGaussianMixture(
        "auto", max_components=3, covariance_type=kind, epsilon=2.0, random_state=3
    ).fit(rows)
    plan = planned(
        ROUND, 8_000, n_components=3, choose_components=True, covariance_type=kind, epsilon=2.0
    )
    result = release(rows, plan, rng=3).result
    assert isinstance(result, Release)
    assert model.mixture_ == result.mixture == model.outcome_.result.mixture
    assert model.choice_ == result.choice
    assert model.standard_errors_ == result.standard_errors


@pytest.mark.parametrize("kind", ["tied", "diag", "spherical"])
@pytest.mark.parametrize("method", ["lifted", "tight", "paper"])
def test_methods_without_a_sketch_name_the_one_that_can(method: str, kind: str) -> None:
    with pytest.raises(InvalidInput, match=r"covariance_type must be 'full'.*use method 'sketch'"):
        planned(ROUND, 8_000, method=method, covariance_type=kind)


def hostile_rows(seed: int) -> Array:
    """Make rows that break assumptions of a fit: heaps, lines, tails, tiny and huge scales."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_t(1.2, size=(2_000, 2))
    match seed % 4:
        case 0:
            rows[:, 1] = np.round(rows[:, 1])
        case 1:
            rows[:, 1] = rows[:, 0] * (1 + 1e-9)
        case 2:
            rows[:1_900] = [3.0, 1e-12]
        case _:
            rows *= [1e-150, 1e150]
    return rows


@pytest.mark.parametrize("kind", ["tied", "diag", "spherical"])
@pytest.mark.parametrize("seed", range(8))
def test_nothing_raises_once_noise_is_drawn(kind: str, seed: int) -> None:
    plan = planned(ROUND, 2_000, covariance_type=kind, n_components=3, choose_components=True)
    outcome = release(hostile_rows(seed), plan, rng=seed)
    if isinstance(outcome.result, Release):
        assert np.isfinite(outcome.result.mixture.covariances).all()


# ------------------------------------------------------------------ a structure of one's own


class UnitStructure(CovarianceStructure):
    """A structure where every component has the covariance of the whole frame."""

    name: ClassVar[str] = "unit"
    title: ClassVar[str] = "Unit"
    adjective: ClassVar[str] = "unit"
    sentence: ClassVar[str] = "Covariances are not learned."

    def shape(self, k: int, d: int) -> tuple[int, ...]:
        return (k, d, d)

    def n_parameters(self, k: int, d: int) -> int:
        return 0

    def reduced(self, matrices: Array) -> Array:
        return matrices

    def expanded(self, layout: Array, k: int, d: int) -> Array:
        return layout

    def least_rows(self, k: int, d: int) -> int:
        return k

    def least_variance(self, scatter: Array, mass: Array) -> float:
        return 1.0


@pytest.fixture
def unit_structure(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Register a structure, by two objects: what it is, and how it is fitted."""
    monkeypatch.setattr(structures, "_FITTED", dict(structures._FITTED))
    covariance_structures.register_structure(UnitStructure())

    class UnitFit(Structure, fits="unit"):
        def nearest(self, theta: Array, d: int) -> Array:
            fixed = theta.copy()
            fixed[:, 1 + d :] = 0.0
            return fixed

        def moved(self, theta: Array, step: Array, d: int) -> Array:
            moved = theta.copy()
            moved[:, : 1 + d] += step.reshape(len(theta), 1 + d)
            return moved

        def tangent(self, theta: Array, d: int) -> Array | None:
            k, size = theta.shape
            out = np.zeros((k, size, k, 1 + d))
            for c in range(k):
                out[c, : 1 + d, c] = np.eye(1 + d)
            return out.reshape(k * size, -1)

        def widened(self, theta: Array, d: int) -> tuple[Array, Any]:
            return theta, np.zeros(len(theta), dtype=bool)

    yield "unit"
    covariance_structures.unregister_structure("unit")


def test_an_added_structure_reaches_every_door(unit_structure: str) -> None:
    with pytest.raises(InvalidInput, match="full, tied, diag, spherical, unit"):
        planned(ROUND, 8_000, covariance_type="box")
    result = published(ROUND, planned(ROUND, 8_000, covariance_type=unit_structure))
    assert result.sketch is not None
    frame = result.sketch.frame
    np.testing.assert_allclose(
        result.mixture.covariances, np.stack([frame.root @ frame.root.T] * 2), rtol=1e-9
    )
    model: Any = PrivateGaussianMixture(2, covariance_type=unit_structure, random_state=3)
    assert model.fit(ROUND.sample(8_000, rng=1)).covariances_.shape == (2, 2, 2)
