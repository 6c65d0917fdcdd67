"""Find the mean and the covariance of all rows together: two noisy looks through one Gaussian."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, ClassVar

import numpy as np

from privgmm.arrays import Array, frozen, one_blas_thread, positive, whole_number
from privgmm.data.people import People
from privgmm.errors import InvalidInput
from privgmm.mixture import Mixture
from privgmm.privacy.composition import Price
from privgmm.privacy.curves import gaussian_curve
from privgmm.privacy.noise import NoiseSource
from privgmm.stages.form import Form
from privgmm.stages.refinement.look_solution import Seen, solve_looks
from privgmm.stages.refinement.soft_looks import SoftLook, Units, look_row_sums, noisy_look
from privgmm.stages.sketch.frame import Frame
from privgmm.stages.stage import Drawn, RowSums, Stage, Work

__all__ = ["Pooled", "PooledLooks", "PreparedPooledLooks", "check_planned"]

_NOISE = 1.0
"""Measured on the flights' ten columns: noise on the pooled covariance, in Frobenius norm, up to
which a look gets wider: 1.5 is better there by a nat, and worse for generated mixtures."""


@dataclasses.dataclass(frozen=True, eq=False)
class Pooled:
    """The law of all rows together, as one Gaussian, in public units. Public.

    Parameters
    ----------
    units : Units
    mixture : Mixture
        Of one component, in these units.
    """

    units: Units
    mixture: Mixture

    @functools.cached_property
    def root(self) -> Array:
        """Columns (d, d) of principal axes times their deviations, the longest first.

        In white coordinates y, units are ``mean + root y``.
        """
        values, vectors = np.linalg.eigh(self.mixture.covariances[0])
        return frozen((vectors * np.sqrt(values))[:, ::-1])

    @functools.cached_property
    def inverse(self) -> Array:
        """``root^-1`` (d, d)."""
        values, vectors = np.linalg.eigh(self.mixture.covariances[0])
        return frozen((vectors / np.sqrt(values)).T[::-1])


def check_planned(work: Work, n_units: int, n_features: int) -> None:
    """Raise `InvalidInput` if there are other numbers of rows or columns than planned."""
    for name, planned, given in (
        ("columns", n_features, work.people.n_features),
        ("rows or persons", n_units, len(work.people)),
    ):
        if planned != given:
            raise InvalidInput(
                f"the plan is for {planned} {name}, got {given}: make a plan for that number"
            )


@dataclasses.dataclass(frozen=True)
class PooledLooks(Stage):
    """Look at all rows through one Gaussian, twice: the second time through what the first saw.

    Parameters
    ----------
    multipliers : tuple of float
        Noise of each look, in units of the sensitivity of its sums; see `SoftLook`.
    n_units, n_features : int
        Rows or persons n, and columns d; public, and part of the plan.
    """

    multipliers: tuple[float, ...]
    n_units: int
    n_features: int

    kind: ClassVar[str] = "pooled looks"

    def __post_init__(self) -> None:
        object.__setattr__(self, "multipliers", tuple(self.multipliers))
        if not self.multipliers:
            raise InvalidInput("multipliers must name at least one look")
        for multiplier in self.multipliers:
            positive(multiplier, "every multiplier", below=1e6)
        for name in ("n_units", "n_features"):
            object.__setattr__(self, name, whole_number(getattr(self, name), name, 1))

    @property
    def looks(self) -> tuple[SoftLook, ...]:
        """The looks, each as wide as its noise allows."""
        d, n = self.n_features, self.n_units
        return tuple(SoftLook.wide(d, n, n, m, _NOISE) for m in self.multipliers)

    def price(self) -> Price:
        """Price one Gaussian mechanism per look; the stage never refuses."""
        return Price(tuple(map(gaussian_curve, self.multipliers)), exact=True)

    def worst_losses(self, n: int, *, rng: np.random.Generator) -> Array:
        """Draw privacy losses (n,) where one row moves every sum by its sensitivity."""
        mu = math.sqrt(math.fsum(multiplier**-2 for multiplier in self.multipliers))
        return np.asarray(mu * rng.standard_normal(n) + mu**2 / 2)

    def row_sums(self, n_features: int) -> tuple[RowSums, ...]:
        """List the sums of each look."""
        return tuple(look_row_sums(look, n_features) for look in self.looks)

    def check(self, work: Work) -> None:
        """Raise `InvalidInput` if there are other numbers of rows or columns than planned."""
        check_planned(work, self.n_units, self.n_features)

    def prepare(self, work: Work, public: Frame) -> PreparedPooledLooks:
        """Keep rows and units: the second look is through what the first one saw."""
        self.check(work)
        scale = np.sqrt((public.root**2).sum(axis=1))
        return PreparedPooledLooks(self, work.people, Units(public.centre, scale))

    def sentences(self) -> list[str]:
        """Say in plain words what the stage does."""
        return [
            f"{len(self.multipliers)} noisy looks at all rows find how they lie and vary together; "
            "a row's size and direction count, and no row counts for much, wherever it lies."
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, for JSON."""
        return {
            "pooled_looks": {
                "multipliers": list(self.multipliers),
                "n_units": self.n_units,
                "n_features": self.n_features,
            }
        }

    @classmethod
    def from_form(cls, form: Form) -> PooledLooks:
        """Read the stage back from a plan, and check its form."""
        return cls(
            form.numbers("multipliers"), form.whole("n_units", 1), form.whole("n_features", 1)
        )


@dataclasses.dataclass(frozen=True, eq=False)
class PreparedPooledLooks:
    """Rows, and the units of their columns. CONFIDENTIAL."""

    stage: PooledLooks
    people: People
    units: Units

    def draw(self, source: NoiseSource) -> Drawn:
        """Take the looks, one after the other."""
        d, n = self.stage.n_features, self.stage.n_units
        found: Mixture = Mixture([1.0], np.zeros((1, d)), np.eye(d)[None])
        for look in self.stage.looks:
            with one_blas_thread():
                seen = noisy_look(self.people, self.units, found, look, source)
                found = solve_looks([Seen(seen, found, look)], n).mixture
        return Drawn(Pooled(self.units, found))
