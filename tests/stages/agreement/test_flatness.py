"""Fits too nearly flat to compute with: each is found from itself alone, and has no friends."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privgmm.audit import neighbours as nb
from privgmm.audit.cores import Mechanism, strain
from privgmm.methods.lifted.method import LiftedMethod
from privgmm.mixture import MixtureBatch
from privgmm.stages.agreement.flatness import LARGEST_CONDITION, nearly_flat, skeel_conditions
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.votes import friend_counts


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_the_condition_is_skeels(d: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    factors = np.tril(rng.standard_normal((5, d, d)), -1)
    factors[:, np.arange(d), np.arange(d)] = np.exp(rng.standard_normal((5, d)))
    got = np.empty(5)
    skeel_conditions(factors, got)
    want = (np.abs(np.linalg.inv(factors)) @ np.abs(factors)).sum(axis=-1).max(axis=-1)
    assert got == pytest.approx(want, rel=1e-8)
    units = np.exp(10 * rng.standard_normal(d))
    again = np.empty(5)
    skeel_conditions(factors * units[:, None], again)
    assert again == pytest.approx(got, rel=1e-8)


def test_other_fits_do_not_change_the_verdict() -> None:
    """To the last bit: the limit falls between two neighbouring floats."""
    factors = np.tile(np.eye(2), (3, 1, 1, 1))
    factors[0, 0, 1, 0] = np.nextafter((LARGEST_CONDITION - 1) / 2, 0)
    factors[1, 0, 1, 0] = np.nextafter((LARGEST_CONDITION - 1) / 2, np.inf)
    for wild in (0.0, 1.0, 1e6, 1e100):
        factors[2, 0, 1, 0] = wild
        batch = MixtureBatch.from_cholesky(
            np.ones((3, 1)), np.zeros((3, 1, 2)), factors, np.ones(3, dtype=bool)
        )
        assert nearly_flat(batch)[:2].tolist() == [False, True]
        assert bool(nearly_flat(batch)[2]) == (2 * wild + 1 > LARGEST_CONDITION)


def test_a_failed_fit_is_not_judged() -> None:
    batch = MixtureBatch.from_cholesky(
        np.ones((2, 1)), np.zeros((2, 1, 2)), np.tile(np.eye(2), (2, 1, 1, 1)), [True, False]
    )
    assert nearly_flat(batch).tolist() == [False, False]


@pytest.mark.parametrize(("condition", "friends"), [(1e3, True), (1e6, True), (1e9, False)])
def test_fits_too_flat_to_compute_with_have_no_friends(condition: float, friends: bool) -> None:
    rng = np.random.default_rng(7)
    stage = LiftedMethod.shaped(31, 17, 29, 29, n_components=2, n_features=2)
    pair = nb.flattened(nb.random_fits(stage, 0.02, rng), condition)
    counts = friend_counts(Mechanism(stage).distances(pair.first.batch()), stage.tau)
    assert (counts > 25).all() if friends else (counts == 0).all()


def test_columns_in_different_units_are_not_flat() -> None:
    stage = LiftedMethod.shaped(31, 17, 29, 29, n_components=2, n_features=2)
    pair = nb.random_fits(stage, 0.02, np.random.default_rng(8))
    units = np.array([1e9, 1e-9])
    scaled = pair.mapped(
        lambda fits: dataclasses.replace(
            fits, means=fits.means * units, cholesky=fits.cholesky * units[:, None]
        ),
        "other units",
    )
    one, two = (strain(Mechanism(stage), p) for p in (pair, scaled))
    assert one.both
    assert dataclasses.astuple(two) == pytest.approx(dataclasses.astuple(one), rel=1e-9)


def test_the_papers_space_keeps_the_same_limit() -> None:
    rng = np.random.default_rng(9)
    stage = LiftedMethod.shaped(31, 17, 29, 29, n_components=2, n_features=2)
    space = PaperSpace(1.0, 1.0, 1.0)
    for condition, finite in ((1e5, True), (1e9, False)):
        batch = nb.flattened(nb.random_fits(stage, 0.02, rng), condition).first.batch()
        assert np.isfinite(space.distances(batch)).all() == finite
        assert np.isfinite(np.diagonal(space.distances(batch))).all() == finite
