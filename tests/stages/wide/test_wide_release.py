"""Releases of many columns: right, the same bits wherever rows lie, and honest about themselves."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privgmm import Mixture, Release, best_plan, release
from privgmm.arrays import Array
from privgmm.data.people import ArrayPeople
from privgmm.distances.parameters import dist_gmm
from privgmm.methods.plan import Plan
from privgmm.methods.planner import plan_for
from privgmm.methods.request import PlanRequest, components_asked
from privgmm.stages.refinement.soft_looks import SoftLook, Units, look_sums, noisy_look
from privgmm.stages.wide import finish

D = 12


def _truth(k: int = 2, apart: float = 7.0) -> Mixture:
    rng = np.random.default_rng(k)
    means = np.zeros((k, D))
    means[np.arange(k), np.arange(k)] = apart / np.sqrt(2)
    roots = np.eye(D) + 0.1 * np.tril(rng.standard_normal((k, D, D)))
    return Mixture(np.full(k, 1 / k), means, roots @ np.transpose(roots, (0, 2, 1)))


def _released(rows: Array, n_components: int | str, **options: Any) -> Release:
    most, choose = components_asked(n_components)
    request = PlanRequest(
        n_components=most,
        n_features=D,
        n_rows=len(rows),
        epsilon=4.0,
        choose_components=choose,
        **options,
    )
    result = release(rows, plan_for(request).plan, rng=2).result
    assert isinstance(result, Release)
    return result


@pytest.fixture(scope="module")
def plan() -> Plan:
    return best_plan(12_000, n_components=2, n_features=D, epsilon=4.0, delta=1e-6)


@pytest.fixture(scope="module")
def rows() -> Array:
    # columns in very different units
    return _truth().sample(12_000, rng=1) * np.geomspace(1e-3, 1e6, D) + 1e3


@pytest.fixture(scope="module")
def outcome(rows: Array, plan: Plan) -> Release:
    result = release(rows, plan, rng=1).result
    assert isinstance(result, Release)
    return result


def test_a_plan_is_priced_beforehand_and_read_back(plan: Plan) -> None:
    assert [stage.kind for stage in plan.stages] == [
        "histogram frame",
        "pooled looks",
        "subspace sketch",
        "wide finish",
    ]
    assert plan.budget.covers(plan.spent())
    assert plan.spent().epsilon > 0.99 * plan.budget.epsilon
    again = Plan.from_dict(plan.to_dict())
    assert again == plan
    assert "12 dimensions" in plan.explain()


def test_the_mixture_is_found_in_the_units_of_the_data(outcome: Release, rows: Array) -> None:
    scale = np.geomspace(1e-3, 1e6, D)
    inside = Mixture(
        outcome.mixture.weights,
        (outcome.mixture.means - 1e3) / scale,
        outcome.mixture.covariances / np.outer(scale, scale),
    )
    assert dist_gmm(inside, _truth()) < 0.25
    assert outcome.misfit is not None
    assert abs(outcome.misfit) < 4
    errors = outcome.standard_errors
    assert errors is not None
    assert np.isfinite(errors.covariances).all()


def test_rows_in_files_give_the_same_bits(
    rows: Array, plan: Plan, outcome: Release, tmp_path: Path
) -> None:
    table = pa.table({f"c{j:02d}": rows[:, j] for j in range(D)})
    for i, first in enumerate(range(0, len(rows), 5_000)):
        pq.write_table(table.slice(first, 5_000), tmp_path / f"{i}.parquet", row_group_size=1_700)
    result = release(tmp_path, plan, rng=1).result
    assert isinstance(result, Release)
    assert result.mixture == outcome.mixture


def test_persons_with_copies_of_a_row_give_the_same_sums(rows: Array) -> None:
    """Every sum counts a person once; persons come in a random order, so sums are compared."""
    units, public = Units(np.full(D, 1e3), np.geomspace(1e-3, 1e6, D)), _truth()
    one = ArrayPeople.of(rows)
    many = ArrayPeople.of(np.repeat(rows, 2, axis=0), np.repeat(np.arange(len(rows)), 2))
    look = SoftLook(0.0, 1.0)
    assert np.array_equal(look_sums(one, units, public, look), look_sums(many, units, public, look))


@pytest.mark.parametrize("near", [1e9, -1.0])
def test_looks_spend_the_account_and_no_more(
    rows: Array, plan: Plan, monkeypatch: pytest.MonkeyPatch, near: float
) -> None:
    """A tied look and two, or more where the first ones are through components far off."""
    taken: list[float] = []

    def noted(people: Any, units: Units, public: Mixture, look: SoftLook, *rest: Any) -> Any:
        taken.append(look.multiplier)
        return noisy_look(people, units, public, look, *rest)

    monkeypatch.setattr(finish, "noisy_look", noted)
    monkeypatch.setattr(finish, "_NEAR", near)
    if near < 0:
        monkeypatch.setattr(finish, "_NOISE_APART", 0.0)
    result = release(rows, plan, rng=1).result
    assert isinstance(result, Release)
    assert len(taken) == 3 if near > 0 else len(taken) > 3
    account = plan.stages[-1]
    assert isinstance(account, finish.WideFinish)
    assert math.fsum(m**-2 for m in taken) == pytest.approx(account.multiplier**-2, rel=1e-12)
    # how good a last look is, is not known where it was through components far off
    assert (set(result.resolution) == {"not resolved"}) == (near < 0)


@pytest.mark.parametrize("covariance_type", ["tied", "diag", "spherical"])
def test_other_covariance_structures_are_exact(rows: Array, covariance_type: str) -> None:
    result = _released(rows, 2, covariance_type=covariance_type)
    found = result.mixture.covariances
    if covariance_type == "tied":
        assert np.array_equal(found[0], found[1])
    else:
        assert np.array_equal(found, found * np.eye(D))


def test_an_open_number_of_components_is_chosen_for_free() -> None:
    rows = _truth(3).sample(20_000, rng=5)
    result = _released(rows, "auto")
    assert result.mixture.n_components == 3
    assert result.choice is not None
    assert result.choice.n_components == 3


def test_one_component_is_looked_at_with_the_whole_account() -> None:
    rows = _truth(1).sample(4_000, rng=6)
    result = _released(rows, 1)
    assert dist_gmm(result.mixture, _truth(1)) < 0.4


def test_far_rows_do_no_harm(rows: Array, plan: Plan) -> None:
    spoilt = rows.copy()
    spoilt[:12] = 1e12
    spoilt[12] = -1e300
    result = release(spoilt, plan, rng=1).result
    assert isinstance(result, Release)
    scale = np.geomspace(1e-3, 1e6, D)
    assert np.abs((result.mixture.means - rows.mean(axis=0)) / scale).max() < 10


def test_plans_begin_at_ten_columns_unless_blocks_are_set() -> None:
    requests = [PlanRequest(n_components=2, n_features=d, n_rows=400_000) for d in (9, 10)]
    requests.append(requests[1].but(n_blocks=500))
    plans = [plan_for(request).plan for request in requests]
    assert [plan.stages[-1].kind for plan in plans] == ["finish", "wide finish", "finish"]
    assert plans[2].stages[0].n_blocks == 500
