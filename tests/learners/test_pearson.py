"""Pearson's polynomial: exact moments in, the mixture out, on both branches."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privgmm.arrays import Array
from privgmm.learners.moments.pearson import equal_means, excess_moments, pearson, polynomial


def central_moments(weights: Array, means: Array, variances: Array) -> Array:
    """M2 ... M6 of a mixture on a line, from the binomial theorem."""
    means = means - weights @ means
    return np.array(
        [
            sum(
                w * math.comb(p, j) * m ** (p - j) * v ** (j // 2) * math.prod(range(j - 1, 0, -2))
                for w, m, v in zip(weights, means, variances, strict=True)
                for j in range(0, p + 1, 2)
            )
            for p in range(2, 7)
        ]
    )


@settings(max_examples=60, deadline=None)
@given(
    weight=st.floats(0.05, 0.95),
    gap=st.floats(0.7, 6.0),
    first=st.floats(0.05, 4.0),
    second=st.floats(0.05, 4.0),
)
def test_the_mixture_is_among_the_roots(
    weight: float, gap: float, first: float, second: float
) -> None:
    w, v = np.array([weight, 1 - weight]), np.array([first, second])
    m = np.array([-gap * (1 - weight), gap * weight])
    found = pearson(central_moments(w, m, v))
    errors = np.abs(
        np.concatenate([found.weights - w, found.means - m, found.variances - v], axis=1)
    ).max(axis=1)
    assert errors.min() < 1e-3


def test_the_sixth_moment_puts_the_right_root_first() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        w1 = rng.uniform(0.2, 0.8)
        w, v = np.array([w1, 1 - w1]), rng.uniform(0.2, 2.0, 2)
        gap = rng.uniform(1.0, 4.0)
        m = np.array([-gap * (1 - w1), gap * w1])
        found = pearson(central_moments(w, m, v))
        np.testing.assert_allclose(found.means[0], m, atol=1e-3)
        np.testing.assert_allclose(found.variances[0], v, atol=1e-2)


@pytest.mark.parametrize("weight", [0.1, 0.35, 0.5, 0.9])
def test_equal_means_have_their_own_branch(weight: float) -> None:
    w, v = np.array([weight, 1 - weight]), np.array([3.0, 0.4])
    moments = central_moments(w, np.zeros(2), v)
    branch = equal_means(moments)
    np.testing.assert_allclose(branch.weights, [w], rtol=1e-9)
    np.testing.assert_allclose(branch.variances, [v], rtol=1e-9)
    # the polynomial alone has nothing to offer there: its only root in range is a = 0
    assert polynomial(*excess_moments(moments)[:3])[-1] == 0.0
    last = pearson(moments)
    np.testing.assert_allclose(last.variances[-1], v, rtol=1e-9)


def test_one_gaussian_and_worse_give_no_branch() -> None:
    assert len(equal_means(np.array([1.0, 0.0, 3.0, 0.0, 15.0])).weights) == 0
    assert len(pearson(np.array([1.0, 0.0, 1.0, 0.0, 1.0])).weights) >= 0
    assert len(pearson(np.full(5, np.nan)).weights) == 0
