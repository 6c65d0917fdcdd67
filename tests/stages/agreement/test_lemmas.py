"""The paper's constants: the two forms of each lemma are inverse, and the parts compose."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privgmm.privacy.noise import TruncatedLaplace
from privgmm.stages.agreement import lemmas as constants

etas = st.floats(1e-4, 1.0)
epsilons = st.floats(1e-4, 1.0)
deltas = st.floats(1e-15, 0.1)
dimensions = st.integers(1, 30)


@given(etas, epsilons, deltas)
def test_weight_forms_are_inverse(eta: float, epsilon: float, delta: float) -> None:
    gamma = constants.gamma_weight(eta, epsilon, delta)
    assert constants.epsilon_weight(gamma, eta, delta) == pytest.approx(epsilon, rel=1e-12)


@given(etas, epsilons, deltas)
def test_mean_forms_are_inverse(eta: float, epsilon: float, delta: float) -> None:
    gamma = constants.gamma_mean(eta, epsilon, delta)
    price = constants.epsilon_mean(gamma, eta, delta)
    assert price == pytest.approx(epsilon, rel=1e-12) or (gamma == 0.5 and price <= epsilon)


@given(etas, epsilons, deltas, dimensions)
def test_covariance_forms_are_inverse(eta: float, epsilon: float, delta: float, d: int) -> None:
    gamma = constants.gamma_covariance(eta, epsilon, delta, d)
    assert constants.epsilon_covariance(gamma, eta, delta, d) == pytest.approx(epsilon, rel=1e-9)
    assert constants.epsilon_covariance(1.01 * gamma, eta, delta, d) > epsilon


@given(st.floats(0.01, 1.0), st.floats(1e-4, 0.5), epsilons, deltas, dimensions)
def test_radii_are_those_printed_in_appendix_f(
    alpha: float, beta: float, epsilon: float, delta: float, d: int
) -> None:
    log = math.log(2 / delta)
    weight = constants.gamma_weight(constants.eta_weight(alpha, beta), epsilon, delta)
    printed = alpha * epsilon / (2 * math.sqrt(2) * log * math.sqrt(1 + math.log(1 / beta)))
    assert weight == pytest.approx(printed, rel=1e-12)
    mean = constants.gamma_mean(constants.eta_mean(alpha, beta, d), epsilon, delta)
    printed = min(0.5, epsilon * alpha / (24 * log * math.sqrt(d + math.log(1 / beta))))
    assert mean == pytest.approx(printed, rel=1e-12)


def test_a_mean_beyond_the_range_of_lemma_f2_has_no_price() -> None:
    assert constants.epsilon_mean(0.5, 1.0, 0.1) < math.inf
    assert constants.epsilon_mean(0.5000001, 1.0, 0.1) == math.inf


@given(st.floats(1e-3, math.log(2) / 3), deltas, st.integers(1, 40))
def test_the_shares_of_the_components_compose_to_the_whole(
    epsilon: float, delta: float, k: int
) -> None:
    part = constants.share_of_component(epsilon, delta, k)
    whole = constants.mixture_price(part, k)
    assert whole.epsilon <= epsilon
    assert whole.delta == pytest.approx(delta, rel=1e-12)


def test_the_composed_price_is_the_printed_formula() -> None:
    part = constants.MaskPrice(0.003, 1e-8)
    k = 5
    slack = 3 * k * part.delta
    printed = 3 * math.sqrt(2 * k * math.log(1 / slack)) * part.epsilon + 3 * k * part.epsilon * (
        math.exp(3 * part.epsilon) - 1
    )
    assert constants.mixture_price(part, k).epsilon == pytest.approx(printed, rel=1e-12)
    assert constants.mixture_price(part, k).delta == pytest.approx(6 * k * part.delta, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.231])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_the_block_minimum_is_where_the_noise_falls_to_a_tenth(
    epsilon: float, delta: float
) -> None:
    t = constants.block_minimum(epsilon, delta)
    assert t >= 5
    assert TruncatedLaplace(2 / t, epsilon, delta).bound <= 0.1 + 1e-12
    assert t == 5 or TruncatedLaplace(2 / (t - 1), epsilon, delta).bound > 0.1


def test_noise_levels_grow_with_alpha_and_shrink_with_confidence_and_dimension() -> None:
    for eta in (constants.eta_mean, constants.eta_covariance):
        assert eta(0.4, 0.1, 3) == pytest.approx(2 * eta(0.2, 0.1, 3))
        levels = [eta(0.4, 0.1, d) for d in range(1, 9)]
        assert np.all(np.diff(levels) < 0)
        assert eta(0.4, 0.01, 3) < eta(0.4, 0.1, 3)
    assert constants.eta_weight(0.4, 0.01) < constants.eta_weight(0.4, 0.1)
