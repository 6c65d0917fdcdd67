"""Forecasts come true: chances of release and errors, over settings of every kind.

Sixty settings, spread over numbers of components and columns, separations, rows and epsilons, each
with a random mixture of its separation. What is promised for the mixture, and what is promised for
the separation alone, is compared with releases from rows of that mixture.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import qmc

from privgmm.arrays import Array
from privgmm.data.generators import random_mixture
from privgmm.distances.parameters import dist_gmm
from privgmm.methods.method import Prospect
from privgmm.methods.request import PlanRequest
from privgmm.methods.what_if import prospect
from privgmm.mixture import Mixture
from privgmm.releases import Release, release

RUNS = 20
LIKELY, KEPT = 0.9, 0.8
"""What is promised this often must happen that often."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """Hold what is asked for, and the mixture that rows come from."""

    index: int
    n_components: int
    n_features: int
    separation: float
    n_rows: int
    epsilon: float
    condition: float

    @property
    def truth(self) -> Mixture:
        return random_mixture(
            self.n_components,
            self.n_features,
            separation=self.separation,
            condition=self.condition if self.n_features > 1 else 1.0,
            weights="unequal",
            rng=1000 + self.index,
        )

    def asked(self, method: str, *, known: bool) -> PlanRequest:
        """Build the request, for the mixture itself or for its separation."""
        request = PlanRequest(
            n_components=self.n_components,
            n_features=self.n_features,
            n_rows=self.n_rows,
            epsilon=self.epsilon,
            method=method,
        )
        if known:
            return request.but(expected=self.truth)
        return request.but(separation=self.separation)

    def rows(self, run: int) -> Array:
        return self.truth.sample(self.n_rows, rng=np.random.default_rng([self.index, run]))

    def __str__(self) -> str:
        return (
            f"k={self.n_components} d={self.n_features} separation={self.separation:g} "
            f"n={self.n_rows} epsilon={self.epsilon:g}"
        )


def settings(count: int = 60) -> tuple[Setting, ...]:
    """Spread settings evenly over all ranges by a Latin hypercube."""
    cube = qmc.LatinHypercube(6, rng=np.random.default_rng(12)).random(count)
    return tuple(
        Setting(
            i,
            1 + int(5 * k),
            1 + int(5 * d),
            round(float(1.5 + 4.5 * separation), 2),
            100 * round(10 ** (1 + 3 * rows)),
            round(float(0.3 * (4 / 0.3) ** epsilon), 2),
            round(float(4**condition), 2),
        )
        for i, (k, d, separation, rows, epsilon, condition) in enumerate(cube.tolist())
    )


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Hold what a method forecast for a setting, and what was released."""

    setting: Setting
    known: Prospect
    stated: Prospect
    errors: tuple[float, ...]
    runs: int

    @property
    def kept(self) -> float:
        """Compute the share of runs that released."""
        return len(self.errors) / self.runs

    @property
    def error(self) -> float:
        return float(np.median(self.errors)) if self.errors else math.nan

    def __str__(self) -> str:
        return (
            f"{self.setting.index:2d} {self.known.method} {self.setting}: promised "
            f"{self.known.pass_probability:.2f}, released {len(self.errors)} of {self.runs}; "
            f"expected {self.known.expected_error}, "
            f"by separation {self.stated.error:.3g}, found {self.error:.3g}"
        )


def outcome(setting: Setting, method: str, runs: int) -> Outcome:
    """Forecast a setting, then release with the plan of the forecast."""
    known, stated = (prospect(setting.asked(method, known=known)) for known in (True, False))
    errors = []
    if known.plan is not None and known.pass_probability > 0:
        for run in range(runs):
            result = release(setting.rows(run), known.plan, rng=run).result
            if isinstance(result, Release):
                errors.append(dist_gmm(result.mixture, setting.truth))
    return Outcome(setting, known, stated, tuple(errors), runs)


def check(seen: Outcome) -> None:
    """Check the chance to within four standard deviations and 0.1, and errors by their bands."""
    chance = seen.known.pass_probability
    assert abs(seen.kept - chance) <= 0.1 + 4 * math.sqrt(chance * (1 - chance) / seen.runs)
    if chance >= LIKELY:
        assert seen.kept >= KEPT
    if seen.errors and seen.known.expected_error is not None:
        assert seen.known.expected_error.low <= seen.error <= seen.known.expected_error.high


@pytest.mark.parametrize("index", [49, 51])
def test_a_forecast_comes_true(index: int) -> None:
    """Two small settings; the study has all."""
    seen = outcome(settings()[index], "sketch", RUNS)
    assert seen.errors
    check(seen)


def test_settings_are_spread_over_the_ranges() -> None:
    chosen = settings()
    assert len(set(chosen)) == 60
    assert {s.n_components for s in chosen} == {s.n_features for s in chosen} == {1, 2, 3, 4, 5}
    for values, least, most in (
        ([s.separation for s in chosen], 1.5, 6.0),
        ([s.n_rows for s in chosen], 1e3, 1e6),
        ([s.epsilon for s in chosen], 0.3, 4.0),
    ):
        assert min(values) >= least
        assert max(values) <= most
        assert max(values) > 0.9 * most
    for setting in chosen:
        assert setting.asked("sketch", known=True).expected_separation == pytest.approx(
            math.inf if setting.n_components == 1 else setting.separation
        )


@pytest.mark.study
@pytest.mark.parametrize("setting", settings(), ids=lambda s: str(s.index))
def test_forecasts_come_true(setting: Setting) -> None:
    """Forecasts of the default method, for mixtures that are known."""
    seen = outcome(setting, "sketch", RUNS)
    print(f"\n{seen}")  # noqa: T201
    check(seen)
